"""Numbers for people: the one place where a base unit becomes "23.4 ms" and a null becomes "undefined".

Every function takes plain values from verdict.json and returns text without markup. A minus is U+2212, so that a signed
number reads as one in every typeface; digits follow the size of the number, and an interval's digits its width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchcard.schema.metrics import SERVER_METRIC_UNITS, metric

MINUS = "−"
#: (factor from the base unit, name), largest first; the first whose factor the value reaches is taken
_TIMES = ((60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_SIZES = ((float(2**40), "TiB"), (float(2**30), "GiB"), (float(2**20), "MiB"), (float(2**10), "KiB"), (1.0, "B"))
_SPEEDS = tuple((factor, f"{name}/s") for factor, name in _SIZES)
_FREQUENCIES = ((1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz"), (1.0, "Hz"))


def fixed(value: float, decimals: int, signed: bool = False) -> str:
    """The number with that many decimals, thousands separated, the sign shown where asked or negative."""
    text = f"{abs(value):,.{decimals}f}"
    if float(text.replace(",", "")) == 0.0:
        return text
    if value < 0:
        return MINUS + text
    return "+" + text if signed else text


def decimals_for(value: float, digits: int) -> int:
    """Decimals that show `digits` significant digits of the value (never negative, at most 9).

    A value a rounding error below a power of ten counts as that power.
    """
    if value == 0 or not math.isfinite(value):
        return 0
    return min(9, max(0, digits - 1 - math.floor(math.log10(abs(value)) + 1e-9)))


def number(value: float | None, digits: int = 3, signed: bool = False) -> str:
    """`digits` significant digits; a value that needs fewer (6.2, 50) is shown as it is."""
    if value is None:
        return "undefined"
    text = fixed(value, decimals_for(value, digits), signed)
    short = text.rstrip("0").rstrip(".") if "." in text else text
    exact = float(short.replace(",", "").replace(MINUS, "-").replace("+", ""))
    return short if math.isclose(exact, value, rel_tol=1e-12, abs_tol=1e-15) else text


def scaled_unit(value: float, unit: str) -> tuple[float, str]:
    """The factor and the unit in which a value of a base unit reads best: (1e-3, "ms") for 0.0234 s."""
    if unit == "1":
        return 0.01, "%"
    table = {"s": _TIMES, "bytes": _SIZES, "bytes/s": _SPEEDS, "Hz": _FREQUENCIES}.get(unit)
    if table is None or value == 0:
        return 1.0, unit
    for factor, name in table:
        # 119 s reads better than 1.98 min
        if abs(value) >= (factor * 2 if name == "min" else factor) * (1 - 1e-12):
            return factor, name
    return table[-1]


def join_unit(text: str, unit: str) -> str:
    """A number's text with its unit: a percent sign stands close, every other unit after a space."""
    if not unit:
        return text
    return text + unit if unit == "%" else f"{text} {unit}"


def quantity(value: float | None, unit: str, digits: int = 3, signed: bool = False) -> str:
    """A value of a base unit for people: 0.0234 s is "23.4 ms", 0.041 of unit 1 is "4.1%"."""
    if value is None:
        return "undefined"
    factor, name = scaled_unit(value, unit)
    return join_unit(number(value / factor, digits, signed), name)


def undefined(reason: str | None) -> str:
    """What stands where there is no number."""
    return f"undefined ({reason})" if reason else "undefined"


def quantity_or_reason(value: float | None, unit: str, reason: str | None = None) -> str:
    """The quantity, or why there is none."""
    return undefined(reason) if value is None else quantity(value, unit)


def mean_stdev(mean: float | None, stdev: float | None, unit: str, reason: str | None = None) -> str:
    """ "23.4 ± 1.2 ms": both in one unit, digits by the spread. A lone value has no spread: "23.4 ms (one value)"."""
    if mean is None:
        return undefined(reason)
    if stdev is None:
        return f"{quantity(mean, unit)} (one value)"
    factor, name = scaled_unit(mean if mean else stdev, unit)
    shown, spread = mean / factor, stdev / factor
    if spread == 0:
        return join_unit(f"{number(shown)} ± 0", name)
    decimals = min(decimals_for(spread, 2), decimals_for(shown if shown else spread, 5))
    return join_unit(f"{fixed(shown, decimals)} ± {fixed(spread, decimals)}", name)


def p_value(p: float | None) -> str:
    """A p value with two significant digits; a very small one as a bound."""
    if p is None:
        return "undefined"
    return "below 0.0001" if p < 0.0001 else number(p, 2)


def effect_value(d: float, scale: str) -> float:
    """A d as the number people read: log ratios become relative changes; differences stay."""
    return math.expm1(d) if scale == "log" else d


def effect_unit(scale: str, unit: str) -> tuple[float, str]:
    """Factor and unit of an effect: percent of the baseline (log), points (a proportion), or the metric's own unit."""
    if scale == "log":
        return 0.01, "%"
    return (0.01, " pt") if unit == "1" else (1.0, unit)


def _effect_text(shown: float, decimals: int, unit: str, signed: bool = True) -> str:
    text = fixed(shown, decimals, signed)
    return text + unit if unit in ("%", " pt") else join_unit(text, unit)


def _effect_scale(values: Sequence[float], scale: str, unit: str) -> tuple[float, str]:
    if scale != "log" and unit == "s":
        return scaled_unit(max(values, key=abs), unit)
    return effect_unit(scale, unit)


def effect(
    d: float | None, scale: str, unit: str, reason: str | None = None, beside: Sequence[float] | None = None
) -> str:
    """A signed effect with sensible digits: +18.3%, −2.1%, +0.31 req/s.

    `beside` is its interval, or the other effects of its column: then the digits are those of their width.
    """
    if d is None:
        return undefined(reason)
    value = round(effect_value(d, scale), 12)
    factor, name = _effect_scale([value], scale, unit)
    if beside is None or max(beside) == min(beside):
        text = number(value / factor, 3, signed=True)
        return text + name if name in ("%", " pt") else join_unit(text, name)
    width = (effect_value(max(beside), scale) - effect_value(min(beside), scale)) / factor
    return _effect_text(value / factor, decimals_for(width, 2), name)


def size(d: float | None, scale: str, unit: str) -> str:
    """The size of an effect, without a sign, to two digits: "1.6%"."""
    if d is None:
        return "undefined"
    factor, name = _effect_scale([abs(d)], scale, unit)
    text = number(effect_value(abs(d), scale) / factor, 2)
    return text + name if name in ("%", " pt") else join_unit(text, name)


def interval(
    bounds: Sequence[float] | None, scale: str, unit: str, apart_from: float | None = None, reason: str | None = None
) -> str:
    """ "28% to 41%". Digits by the interval's width; more where rounding would put an end onto `apart_from`, the
    threshold that it is not at. Signs are shown once one end is negative."""
    if bounds is None or bounds[0] is None or bounds[1] is None:
        return undefined(reason)
    ends = [effect_value(bound, scale) for bound in bounds]
    factor, name = _effect_scale(ends, scale, unit)
    low, high = (end / factor for end in ends)
    decimals = decimals_for(high - low, 2) if high > low else decimals_for(high, 3)
    if apart_from is not None:
        mark = effect_value(apart_from, scale) / factor
        near = [end for end in (low, high) if not math.isclose(end, mark, rel_tol=1e-9, abs_tol=1e-12)]
        while decimals < 6 and any(fixed(end, decimals) == fixed(mark, decimals) for end in near):
            decimals += 1
    signed = low < 0 or high < 0
    return f"{_effect_text(low, decimals, name, signed)} to {_effect_text(high, decimals, name, signed)}"


def metric_unit(name: str) -> str:
    """The base unit of a metric of the catalogue; of a server metric only that it is a proportion; '' if unknown."""
    known = metric(name)
    if known is not None:
        return known.unit
    return "1" if SERVER_METRIC_UNITS.get(name) == "1" else ""

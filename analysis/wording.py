"""Numbers, loads and rules in words. Plain ones: what was seen, in which unit, against which limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from .metrics import ALL_METRICS

MINUS = "−"


def load(value: float, load_kind: str) -> str:
    """`5 req/s` or `concurrency 16`."""
    return f"concurrency {value:g}" if load_kind == "concurrency" else f"{value:g} req/s"


def loads(values: Sequence[float], load_kind: str) -> str:
    """`2, 4 and 5 req/s`, `concurrency 1 and 4`."""
    numbers = listed([f"{value:g}" for value in values])
    return f"concurrency {numbers}" if load_kind == "concurrency" else f"{numbers} req/s"


def count(number: int, noun: str) -> str:
    """`1 block`, `8 blocks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def duration(seconds: float) -> str:
    """`56 s`, `14 min`, `23 h`, `3 days`: whole units, the largest of which there are at least two."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def listed(items: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else ""


def signed(text: str) -> str:
    """A formatted number with its sign in front: `+5%`, `−2%`; zero has none."""
    if text.startswith("-"):
        return MINUS + text[1:]
    return text if not any(digit in text for digit in "123456789") else f"+{text}"


def number(value: float, decimals: int | None = None) -> str:
    """A number to about three significant digits, or with a fixed number of decimals."""
    if decimals is not None:
        return f"{value:.{decimals}f}"
    if value == 0:
        return "0"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def up(value: float) -> str:
    """A number to three significant digits, rounded away from zero: a bound from above stays one."""
    return _outward(value, math.ceil)


def down(value: float) -> str:
    """A number to three significant digits, rounded towards zero: a bound from below stays one."""
    return _outward(value, math.floor)


def _outward(value: float, to_whole: Callable[[float], int]) -> str:
    if value == 0:
        return "0"
    places = 2 - math.floor(math.log10(abs(value)))
    # a rounding error above a round number is that number
    scaled = round(value * 10.0**places, 6)
    return f"{to_whole(scaled) / 10.0**places:.{max(0, places)}f}"


def absolute(value: float, interval: Sequence[float] | None, unit: str) -> str:
    """A plain difference in people's units with its interval: `+2.1 req/s (+1.4 to +2.8)`, ms for a time, points for a
    proportion."""
    factor, name = {"s": (1000.0, "ms"), "1": (100.0, "pt")}.get(unit, (1.0, unit))
    shown = [factor * number for number in (value, *(interval or ()))]
    width = max(shown) - min(shown) or abs(shown[0]) or 1.0
    places = min(6, max(0, 1 - math.floor(math.log10(width))))
    first, *bounds = [_signed_places(number, places) for number in shown]
    return f"{first} {name}" + (f" ({bounds[0]} to {bounds[1]})" if bounds else "")


def _signed_places(value: float, places: int) -> str:
    text = f"{value:.{places}f}"
    return signed(text) if any(digit in text for digit in "123456789") else text.removeprefix("-")


def on_scale(value: float, scale: str, metric: str, decimals: int = 0) -> str:
    """A d value in people's units: per cent (log), points or the metric's unit (difference, scaled).

    `decimals` asks for that many more than usual."""
    if scale == "log":
        share = 100 * math.expm1(value)
        return f"{share:.{(0 if abs(share) >= 10 else 1) + decimals}f}%".replace(".0%", "%")
    row = ALL_METRICS[metric]
    if row.scale == "proportion":
        return f"{100 * value:.{2 + decimals}f}".rstrip("0").rstrip(".") + " pt"
    if row.unit == "s":
        return f"{number(1000 * value, None if decimals == 0 else 2 + decimals)} ms"
    return f"{number(value, None if decimals == 0 else 2 + decimals)} {row.unit}"


def enough_decimals(bounds: Sequence[float], threshold: float, scale: str, metric: str) -> int:
    """How many more decimals it takes so that no bound looks equal to a threshold that it is not equal to."""
    for decimals in range(5):
        limit = on_scale(threshold, scale, metric, decimals)
        if all(on_scale(bound, scale, metric, decimals) != limit for bound in bounds if bound != threshold):
            return decimals
    return 5


def change(mean: float, lower: float, upper: float, threshold: float, scale: str, metric: str) -> tuple[str, str]:
    """('raised', '34% (… 28% to 41%)') in words: the verb, and size with interval but without the word interval."""
    more = enough_decimals((lower, upper), threshold, scale, metric)

    def show(value: float) -> str:
        """A d as people read it."""
        return on_scale(value, scale, metric, more)

    if lower > 0:
        return "raised", f"{show(mean)} ({{level}} interval {show(lower)} to {show(upper)})"
    if upper < 0:
        size, near, far = (show(value).removeprefix("-") for value in (mean, upper, lower))
        return "lowered", f"{size} ({{level}} interval {near} to {far})"
    bounds = f"{{level}} interval {signed(show(lower))} to {signed(show(upper))}, zero included"
    return "changed", f"an estimated {signed(show(mean))} ({bounds})"


def threshold(value: float, scale: str, direction: str) -> str:
    """`+5%`, `−15%`, `+0.5 pt` from a card's threshold or margin."""
    shown = f"{100 * value:.6g}" + ("%" if scale == "relative" else " pt")
    return f"+{shown}" if direction.endswith("rise_by") else f"{MINUS}{shown}"


def of(metric: str, population: str | None) -> str:
    """`goodput`, or `goodput of chat` where it is one population's."""
    return metric if population is None else f"{metric} of {population}"


def rule(metric: str, direction: str, value: float, scale: str, population: str | None = None) -> str:
    """`goodput must rise by 5%`."""
    return f"{of(metric, population)} {direction.replace('_', ' ')} {threshold(value, scale, direction)[1:]}"


def server_value(metric: str, value: float) -> str:
    """An evidence value: rates in per cent, lengths as numbers."""
    return f"{100 * value:.3g}%" if metric.endswith("_rate") else f"{value:.3g}"

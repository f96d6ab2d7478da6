"""Quantities carry units on a card and base units everywhere else. This is the one place that converts.

| kind      | on a card                    | base form                                                   |
|-----------|------------------------------|-------------------------------------------------------------|
| duration  | `600 ms`, `90 min`, `8h`     | seconds, float                                              |
| rate      | `8 req/s`, `2/s`, `2 rps`    | requests a second, float                                    |
| fraction  | `5%`                         | 0.05, float                                                 |
| change    | `5%`, `1 pt`                 | {"value": 0.05, "scale": "relative"}, {"value": 0.01, "scale": "points"} |
| limit     | `20%`, `1.5`                 | 0.2, 1.5: a server metric is a proportion or a plain number |
| size      | `35 GiB`, `80 KiB`, `1 GB`   | bytes, int                                                  |
| span      | `60 s`, `64 requests`        | {"seconds": 60.0} or {"requests": 64}                       |
| load      | `5 req/s`, `16`              | 5.0 (a rate) or 16 (a concurrency)                          |

Numbers are converted exactly (as fractions) and rounded to a float once, so for every x that a card can hold
`parse(kind, format_quantity(kind, x)) == x`.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from .phrase import show

#: a number as cards may write it; the exponent is short, so that no number costs more than a glance to read
NUMBER = r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?"
_QUANTITY = re.compile(rf"\s*({NUMBER})\s*(\S.*?)?\s*")

_DURATION = {
    **dict.fromkeys(("us", "µs", "μs"), Fraction(1, 10**6)),
    "ms": Fraction(1, 1000),
    **dict.fromkeys(("s", "sec", "seconds", "second"), Fraction(1)),
    **dict.fromkeys(("min", "minutes", "minute"), Fraction(60)),
    **dict.fromkeys(("h", "hours", "hour"), Fraction(3600)),
}
_RATE = {
    **dict.fromkeys(("req/s", "requests/s", "/s", "rps"), Fraction(1)),
    **dict.fromkeys(("req/min", "requests/min", "/min"), Fraction(1, 60)),
}
_PERCENT = {"%": Fraction(1, 100)}
_POINTS = {"pt": Fraction(1, 100)}
_REQUESTS = {"requests": Fraction(1), "request": Fraction(1), "req": Fraction(1)}
_BINARY = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SIZE = {
    "B": Fraction(1),
    **{name: Fraction(size) for name, size in _BINARY.items()},
    "kB": Fraction(10**3),
    "KB": Fraction(10**3),
    "MB": Fraction(10**6),
    "GB": Fraction(10**9),
    "TB": Fraction(10**12),
}


class QuantityError(ValueError):
    """A value that is not the quantity wanted: what was found, what would be right, and a hint (or '')."""

    def __init__(self, found: str, wanted: str, hint: str = "") -> None:
        super().__init__(f"found {found}; wanted {wanted}" + (f" ({hint})" if hint else ""))
        self.found, self.wanted, self.hint = found, wanted, hint


@dataclass(frozen=True)
class Kind:
    """A kind of quantity: how a message names it, its units, and which units a bare number may have meant."""

    noun: str
    units: dict[str, Fraction]
    candidates: tuple[str, ...]
    convert: Callable[[Fraction, str], object]
    plain_number: Callable[[int | float], object] | None = None


def _as_float(number: Fraction, _unit: str) -> float:
    return float(number)


def _as_bytes(number: Fraction, _unit: str) -> int:
    if number.denominator != 1:
        raise ValueError("a whole number of bytes")
    return int(number)


def _as_change(number: Fraction, unit: str) -> dict[str, object]:
    return {"value": float(number), "scale": "points" if unit in _POINTS else "relative"}


def _as_span(number: Fraction, unit: str) -> dict[str, object]:
    if unit in _DURATION:
        return {"seconds": float(number)}
    if number.denominator != 1:
        raise ValueError("a whole number of requests")
    return {"requests": int(number)}


def _as_concurrency(number: int | float) -> object:
    if number != int(number) or number < 1:
        raise ValueError("a whole number of clients, at least 1")
    return int(number)


KINDS: dict[str, Kind] = {
    "duration": Kind("a duration such as 600 ms, 60 s, 90 min or 8 h", _DURATION, ("ms", "s"), _as_float),
    "rate": Kind("a rate such as 8 req/s", _RATE, ("req/s",), _as_float),
    "fraction": Kind("a percentage such as 5%", _PERCENT, ("%",), _as_float),
    "change": Kind("a change such as 5% (relative) or 1 pt (points)", _PERCENT | _POINTS, ("%", "pt"), _as_change),
    "limit": Kind("a percentage such as 20%, or a number", _PERCENT, ("%",), _as_float, float),
    "size": Kind("a size such as 35 GiB", _SIZE, ("GiB", "B"), _as_bytes),
    "span": Kind(
        "a duration or a count such as 60 s or 64 requests", _DURATION | _REQUESTS, ("s", "requests"), _as_span
    ),
    "load": Kind(
        "a load (a rate such as 5 req/s, or a number of clients)", _RATE, ("req/s",), _as_float, _as_concurrency
    ),
}


def parse(kind: str, value: object) -> object:
    """The base form of a card's value (see the table above). Raises QuantityError; `kind` is a key of KINDS."""
    wanted = KINDS[kind]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise QuantityError(show(value), wanted.noun)
    if not isinstance(value, str):
        return _plain(wanted, value)
    match = _QUANTITY.fullmatch(value)
    if match is None:
        raise QuantityError(show(value), wanted.noun)
    number, unit = match.groups()
    if unit is None:
        return _plain(wanted, float(number) if not number.lstrip("+-").isdigit() else int(number))
    if unit not in wanted.units:
        close = _likely_unit(unit, wanted.units)
        raise QuantityError(show(value), wanted.noun, f"did you mean {_spell(number, close)}?" if close else "")
    if not math.isfinite(float(number)):
        raise QuantityError(show(value), "a number that a computer can hold")
    try:
        return wanted.convert(Fraction(number) * wanted.units[unit], unit)
    except OverflowError:
        raise QuantityError(show(value), "a number that a computer can hold") from None
    except ValueError as error:
        raise QuantityError(show(value), str(error)) from None


def _close(unit: str, units: dict[str, Fraction]) -> list[str]:
    return difflib.get_close_matches(unit, units, n=1, cutoff=0.65) if len(unit) > 1 else []


def _likely_unit(unit: str, units: dict[str, Fraction]) -> str | None:
    """The unit that a misspelt one stands for. A hint must not be off by a thousand: `msec` is ms and not sec, and `m`,
    which may be ms or min, gets none."""
    same = [name for name in units if name.lower() == unit.lower()]
    begun = [name for name in units if unit.startswith(name) and name.isalpha()]
    likely = same or sorted(begun, key=len, reverse=True) or _close(unit, units)
    return likely[0] if likely else None


def _plain(kind: Kind, number: int | float) -> object:
    """A number without a unit: allowed where the kind has a plain form, else refused with what it may have meant."""
    if kind.plain_number is None:
        candidates = " or ".join(_spell(number, unit) for unit in kind.candidates)
        raise QuantityError(f"{_scaled(number, 0, '')} without a unit", candidates)
    try:
        return kind.plain_number(number)
    except (ValueError, OverflowError) as error:
        raise QuantityError(str(number), str(error)) from None


def _spell(number: int | float | str, unit: str) -> str:
    text = number if isinstance(number, str) else _scaled(number, 0, "")
    return text + ("" if unit == "%" or unit.startswith("/") else " ") + unit


def is_size(text: str) -> bool:
    """Whether a text is a size with a unit of two letters or more (`35 GiB`): a flag's `4k` or `8B` is left alone."""
    match = _QUANTITY.fullmatch(text)
    return match is not None and match.group(2) in _SIZE and match.group(2) != "B"


def format_quantity(kind: str, value: object) -> str:
    """A base form as people write it: `format_quantity('duration', 0.6)` is '600 ms'. The inverse of `parse`."""
    if kind == "change":
        assert isinstance(value, dict)
        return _scaled(value["value"], 2, "%" if value["scale"] == "relative" else " pt")
    if kind == "span":
        assert isinstance(value, dict)
        return f"{value['requests']} requests" if "requests" in value else _duration(value["seconds"])
    if kind == "duration":
        return _duration(value)
    if kind == "size":
        return _size(value)
    if kind == "fraction":
        return _scaled(value, 2, "%")
    if kind == "rate" or (kind == "load" and isinstance(value, float)):
        return _scaled(value, 0, " req/s")
    return _scaled(value, 0, "")


def _scaled(value: object, shift: int, unit: str) -> str:
    """The shortest decimal text of value * 10**shift: shifting the shortest repr loses nothing."""
    text = f"{Decimal(repr(value)).scaleb(shift):f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + unit


def _duration(value: object) -> str:
    assert isinstance(value, int | float)
    for size, unit in ((3600, " h"), (60, " min")):
        if 2 * size <= value < 10**9 and value % size == 0:
            return _scaled(value / size, 0, unit)
    if value == 0 or abs(value) >= 1:
        return _scaled(value, 0, " s")
    return _scaled(value, 3, " ms")


def _size(value: object) -> str:
    assert isinstance(value, int)
    for unit, size in reversed(_BINARY.items()):
        if value and value % size == 0:
            return f"{value // size} {unit}"
    return f"{value} B"

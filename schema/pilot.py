"""pilot.json as a card names it (power.spread.from): what a plan needs of it, and whether it is of this card."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from .phrase import dotted, show
from .structure import card_schema, child
from .table import FileError, written_by_us

#: 1: first.
PILOT_VERSION = 1
_NUMBERS = ("kind", "metric", "population", "load", "scale", "blocks", "mean", "stdev", "df", "baseline", "reason")
_BASELINE = ("load", "attainment", "share_of_ceiling")


def read_pilot(data: bytes) -> dict[str, Any]:
    """The pilot's numbers: `differences` of the claim and each guard at each load, the `baseline` at each load,
    `seconds_a_block`, and, to compare with the card, what `matters`. Raises FileError."""
    wanted = "the pilot.json that `benchcard run CARD --pilot` wrote"
    document = written_by_us(data, "pilot_version", PILOT_VERSION, wanted)
    try:
        return {
            "run": str(document["run"]),
            "differences": [_row(row, _NUMBERS) for row in document["differences"]],
            "baseline": [_row(row, _BASELINE) for row in document["baseline"]],
            "seconds_a_block": document["seconds_a_block"],
            "matters": dict(document["matters"]),
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        wanted = "run, differences, baseline, seconds_a_block and matters, as `benchcard run CARD --pilot` writes them"
        raise FileError("a pilot.json that lacks some of its parts", wanted, line=1) from None


def _row(row: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    found = {key: row[key] for key in keys}
    for key in ("mean", "stdev", "load"):
        if found.get(key) is not None and not math.isfinite(float(found[key])):
            raise ValueError(key)
    return found


def pilot_of_another(matters: dict[str, Any], resolved: dict[str, Any], on_card: Callable[..., bool]) -> str | None:
    """The first difference between the card that a pilot was of and a resolved card, or None. A key that came to the
    format after the pilot was run does not count, unless the card names it."""
    for part in ("system", "arms", "workload", "objectives"):
        for text in _differences(matters.get(part), resolved.get(part), (part,), on_card):
            return text
    return None


def _differences(pilot: Any, card: Any, path: tuple[str, ...], on_card: Callable[..., bool]) -> Iterator[str]:
    if isinstance(pilot, dict) and isinstance(card, dict):
        if "sha256" in pilot and "sha256" in card:
            # the same bytes, wherever the card finds them
            pilot, card = pilot | {"name": None}, card | {"name": None}
        for key in sorted({*pilot, *card}):
            here = (*path, key)
            if key not in pilot and _is_later(here) and not on_card(*here):
                continue
            yield from _differences(pilot.get(key), card.get(key), here, on_card)
    elif isinstance(pilot, list) and isinstance(card, list) and len(pilot) == len(card):
        for one, other in zip(pilot, card, strict=True):
            yield from _differences(one, other, path, on_card)
    elif not _same(pilot, card):
        yield f"{dotted(path)} was {_short(pilot)}, and is {_short(card)}"


def _same(one: Any, other: Any) -> bool:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (one, other))
    # pilot.json holds twelve digits of each number
    return math.isclose(one, other, rel_tol=1e-9) if numbers else type(one) is type(other) and bool(one == other)


def _short(value: Any) -> str:
    return "absent" if value is None else show(value) if isinstance(value, dict) else repr(value)[:60]


def _is_later(path: tuple[str, ...]) -> bool:
    """Whether the schema says that a key came after the format's first edition."""
    schema: dict[str, Any] | None = card_schema()
    for part in path:
        schema = child(schema, part) if schema is not None else None
    return schema is not None and "x-since" in schema

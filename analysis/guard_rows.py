"""verdict.json's `guards`: each guard of the card at each of its loads."""

from __future__ import annotations

import math
from collections.abc import Container

from .cells import Reading
from .claim import pairs
from .guards import GuardResult, adjust, guard, undefined
from .metrics import ALL_METRICS
from .records import Record
from .steady_loads import INVALID_LOAD


def guard_rows(reading: Reading, invalid_loads: Container[int] = ()) -> list[Record]:
    """Each guard at each of its loads. Where the run or the load (by its load point) is invalid there are no guard
    words: they are indeterminate, with the reason."""
    card = reading.bundle.card
    confidence = float(card["analysis"]["confidence"])
    loads = [float(load) for load in card["workload"]["loads"]]
    places = [(row, float(at)) for row in card.get("guards") or [] for at in row.get("at") or card["claim"]["at"]]
    results = [_guard(reading, row, loads.index(at) + 1, confidence, invalid_loads) for row, at in places]
    return [
        _guard_row(row, at, loads.index(at) + 1, result)
        for (row, at), result in zip(places, adjust(results, confidence), strict=True)
    ]


def _guard(
    reading: Reading, row: Record, load_point: int, confidence: float, invalid_loads: Container[int]
) -> GuardResult:
    both = pairs(reading, row["metric"], load_point, row.get("population"))
    if both.reason is not None:
        return undefined(len(both.blocks), both.reason)
    if not reading.complete:
        return undefined(len(both.blocks), "the run is invalid")
    if load_point in invalid_loads:
        return undefined(len(both.blocks), INVALID_LOAD)
    baseline, candidate = both.numbers()
    margin = row["margin"]
    return guard(
        baseline, candidate, margin=float(margin["value"]), relative=margin["scale"] == "relative",
        direction=row["direction"], confidence=confidence,
    )  # fmt: skip


def _guard_row(row: Record, at: float, load_point: int, result: GuardResult) -> Record:
    return {
        "metric": row["metric"],
        **({} if row.get("population") is None else {"population": row["population"]}),
        "unit": ALL_METRICS[row["metric"]].unit,
        "load_point": load_point,
        "load": at,
        "direction": row["direction"],
        "margin": row["margin"],
        "scale": result.scale,
        "blocks": result.blocks,
        "mean": result.mean,
        "bound": result.bound,
        "limit": result.limit,
        "p": result.p,
        "word": result.word,
        "change": _change(result.mean, result.scale),
        "change_bound": _change(result.bound, result.scale),
        "reason": result.reason,
    }


def _change(value: float | None, scale: str) -> float | None:
    """A mean or bound of d as people read it: log ratios become relative changes; None where d is scaled."""
    if value is None or scale == "scaled":
        return None
    return math.expm1(value) if scale == "log" else value

"""The knee: up to which of the loads run an arm's attainment is shown to reach the card's target.

Attainment p = good / attempted over the used blocks has the one-sided lower bound of Clopper and Pearson (1934) at 95%,
on the effective number of attempts n / deff (Korn and Graubard, Survey Methodology 24, 1998). deff = max(1, s² / (p(1 −
p) / m)), s² the variance of the blocks' attainments and m their mean number of attempts: what the blocks vary by beyond
chance (Kish, Survey Sampling, 1965). Loads are taken in ascending order, each at the full level, until the first that
does not pass: a fixed sequence, so the level holds for all of them together (Maurer, Hothorn and Lehmacher 1995).

Nothing is said between loads: the knee lies in [highest load that passes, next load run).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from .cells import Reading
from .effect import is_rounding
from .populations import all_have_objectives
from .records import Record
from .steady_loads import INVALID_LOAD
from .tables import arms_and_loads

#: the level of the one-sided bounds
CONFIDENCE = 0.95
_NO_OBJECTIVES = "the card has no objectives, so no request can be called good"
_NO_TARGET = "the card states no target for attainment"


@dataclass(frozen=True)
class Point:
    """Attainment at one load. `passes` is None where nothing can be said, with the reason; `upper` is the one-sided
    upper bound, by which a load that does not pass is told from one that is shown to miss the target."""

    load: float
    attempted: int
    good: int
    attainment: float | None
    deff: float | None
    n_eff: float | None
    lower: float | None
    upper: float | None
    passes: bool | None
    reason: str | None


@dataclass(frozen=True)
class Knee:
    """Where the knee lies: `word`, and `interval` [low, high) with None for an end that no load run gives."""

    word: str
    interval: tuple[float, float | None] | None
    headroom: float | None
    reason: str | None


def clopper_pearson(good: float, n: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """One-sided lower and upper bound of a proportion `good` / `n` (n > 0), each at `confidence`; both numbers may be
    effective ones, not whole."""
    from scipy import special

    tail = 1 - confidence
    lower = 0.0 if good <= 0 else float(special.betaincinv(good, n - good + 1, tail))
    upper = 1.0 if good >= n else float(special.betaincinv(good + 1, n - good, 1 - tail))
    return lower, upper


def design_effect(good: Sequence[int], attempted: Sequence[int]) -> tuple[float, str | None]:
    """(deff, why it is 1 without having been estimated) from the blocks' counts; blocks without attempts count not."""
    blocks = [(g, n) for g, n in zip(good, attempted, strict=True) if n > 0]
    p = sum(g for g, _ in blocks) / sum(n for _, n in blocks)
    if len(blocks) < 2:
        return 1.0, "one block: how much blocks vary is not known"
    if p in (0.0, 1.0):
        return 1.0, None
    shares = [g / n for g, n in blocks]
    spread = float(np.std(shares, ddof=1))
    if is_rounding(spread, shares):
        return 1.0, None
    mean = sum(n for _, n in blocks) / len(blocks)
    return max(1.0, spread**2 / (p * (1 - p) / mean)), None


def point(load: float, good: Sequence[int], attempted: Sequence[int], target: float) -> Point:
    """Attainment at a load from its blocks' counts, its bounds, and whether it passes."""
    n, k = sum(attempted), sum(good)
    if n == 0:
        reason = "no counted attempts" if attempted else "no valid block"
        return Point(load, 0, 0, None, None, None, None, None, None, reason)
    deff, note = design_effect(good, attempted)
    lower, upper = clopper_pearson(k / deff, n / deff)
    passes = lower >= target
    why = note if passes else _why_not(n, deff, upper, target) or note
    return Point(load, n, k, k / n, deff, n / deff, lower, upper, passes, why)


def _why_not(n: int, deff: float, upper: float, target: float) -> str | None:
    """Why a load that does not pass is not shown to miss the target either, of n attempts; None where it is shown."""
    if upper < target:
        return None
    least = int(np.ceil(np.log(1 - CONFIDENCE) / np.log(target)))
    if n / deff < least:
        fewer = f" ({n} count as {n / deff:.0f}, as much as the blocks vary)" if deff > 1 else ""
        return f"too few attempts{fewer}: it takes {least} to show it, all of them good"
    return "its upper bound reaches the target too"


def find(points: Sequence[Point], operating_point: float | None) -> Knee:
    """The knee of points in ascending order of load."""
    if len(points) < 2:
        return Knee("undefined", None, None, "one load was run; a knee needs at least two")
    end = next((i for i, at in enumerate(points) if not at.passes), len(points))
    if end < len(points) and points[end].passes is None:
        return Knee("undefined", None, None, f"nothing can be said at load {points[end].load:g}: {points[end].reason}")
    later = [at for at in points[end:] if at.passes]
    if later:
        reason = f"load {points[end].load:g} does not pass, but load {later[0].load:g} above it does"
        return Knee("not monotone", None, None, reason)
    if end == 0:
        return Knee("below the lowest load", (0.0, points[0].load), None, None)
    last = points[end - 1].load
    headroom = None if operating_point is None else 1 - operating_point / last
    if end == len(points):
        return Knee("not reached", (last, None), headroom, None)
    return Knee("bracketed", (last, points[end].load), headroom, None)


def knee_rows(reading: Reading, invalid_loads: Container[int] = ()) -> dict[str, Record]:
    """verdict.json's knee: an object an arm. `invalid_loads` are the load points of which nothing may be said."""
    card = reading.bundle.card
    arms = list(dict.fromkeys(arm for arm, _, _ in arms_and_loads(reading)))
    target, operating = card["analysis"].get("attainment"), card["workload"].get("operating_point")
    reason = None
    if not all_have_objectives(card):
        reason = _NO_OBJECTIVES
    elif target is None:
        reason = _NO_TARGET
    elif not reading.complete:
        reason = "the run is invalid"
    rows = {}
    for arm in arms:
        points = [] if reason in (_NO_OBJECTIVES, _NO_TARGET) else _points(reading, arm, float(target), invalid_loads)
        found = find(points, operating) if reason is None else Knee("undefined", None, None, reason)
        rows[arm] = {
            "target": target,
            "confidence": CONFIDENCE,
            "word": found.word,
            "interval": found.interval,
            "headroom": found.headroom,
            "operating_point": operating,
            "reason": found.reason,
            "points": [asdict(at) for at in points],
        }
    return rows


def _points(reading: Reading, arm: str, target: float, invalid_loads: Container[int]) -> list[Point]:
    found = []
    for _, number, load in sorted((row for row in arms_and_loads(reading) if row[0] == arm), key=lambda row: row[2]):
        judged = [cell.judgement for cell in reading.used(arm, number)]
        at = point(load, [one.good or 0 for one in judged], [one.attempted for one in judged], target)
        found.append(replace(at, passes=None, reason=INVALID_LOAD) if number in invalid_loads else at)
    return found

"""verdict.json's percentiles: of each latency, pooled and block by block, and of the objectives ("at most X").

A pooled percentile's interval takes the requests for independent, which inside a run they are not: it describes. The
interval over the blocks of each block's own percentile is the one that the design supports; between arms only those are
compared, as paired effects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import wording
from .cells import CURVES, CellResult, Reading
from .curves import Pool, pool
from .effect import t_interval
from .goodput import add
from .percentiles import (
    PERCENTILES,
    allowed,
    highest_established,
    interval_ranks,
    needed,
    smallest_n,
    value_rank,
    withheld,
)
from .populations import own_objectives
from .records import Record
from .tables import arms_and_loads, mean_and_stdev

#: what a pooled percentile is good for
BASIS = "pooled over blocks: description"
#: the objectives that say "at most X" of an attempt, with that key
OBJECTIVES = ("ttft", "tpot", "e2e")


def latency_rows(reading: Reading) -> list[Record]:
    """One row an arm, load, latency and percentile, over the used blocks."""
    confidence = float(reading.bundle.card["analysis"]["confidence"])
    rows = []
    for arm, point, load in arms_and_loads(reading):
        cells = reading.used(arm, point)
        attempts = sum(cell.judgement.attempted for cell in cells)
        for name in CURVES:
            pooled = pool([cell.curves[name] for cell in cells])
            for percent in PERCENTILES:
                rows.append(
                    {
                        "arm": arm,
                        "load_point": point,
                        "load": load,
                        "metric": name,
                        "percentile": percent,
                        **_pooled(pooled, percent, confidence, attempts),
                        **_over_blocks(cells, name, percent, confidence),
                    }
                )
    return rows


def _pooled(pooled: Pool, percent: int, confidence: float, attempts: int) -> Record:
    """The percentile of all values together (s), its interval by ranks, and why it is withheld where it is."""
    n = pooled.n
    reason = withheld(n, percent) if n else _no_value(attempts)
    row: Record = {"value_s": None, "interval_s": None, "n": n, "attempts": attempts, "withheld": reason}
    if reason is None:
        lower, upper = interval_ranks(n, np.array([percent / 100]), confidence)
        row["value_s"] = float(pooled.at(np.array([value_rank(n, percent)]))[0])
        if lower[0] >= 1 and upper[0] <= n:
            row["interval_s"] = [float(pooled.at(lower)[0]), float(pooled.at(upper)[0])]
    return row | {"basis": BASIS}


def _no_value(attempts: int) -> str:
    return f"no value among {wording.count(attempts, 'attempt')}" if attempts else "no counted attempts"


def _over_blocks(cells: Sequence[CellResult], name: str, percent: int, confidence: float) -> Record:
    """Mean and t interval (s) over the blocks of each block's percentile, where every block carries it."""
    found = [cell.values[f"{name}.p{percent}"] for cell in cells]
    least = min((value.n for value in found), default=needed(percent))
    row: Record = {"blocks": len(cells), "block_mean_s": None, "block_interval_s": None}
    if least < needed(percent):
        return row | {"block_reason": f"p{percent} needs {needed(percent)} values in each block; the least has {least}"}
    values = [value.value for value in found]
    mean, stdev, reason = mean_and_stdev(values)
    row |= {"block_mean_s": mean, "block_reason": reason}
    if stdev is not None:
        _, _, low, high = t_interval(np.array(values, dtype=np.float64), confidence)
        row["block_interval_s"] = [low, high]
    return row


def objective_rows(reading: Reading) -> list[Record]:
    """For each arm, load and objective "at most X" the highest percentile for which that is established; errors are
    violations. Where populations have objectives of their own, each population has its rows."""
    card = reading.bundle.card
    own = own_objectives(card)
    split: list[str | None] = [None] if not any(own.values()) else list(own)
    rows = []
    for arm, point, load in arms_and_loads(reading):
        cells = reading.used(arm, point)
        for population in split:
            limits: dict[str, Any] = (own.get(population or "") or card.get("objectives")) or {}
            total = add(cell.of(population).judgement for cell in cells)
            place = {"arm": arm, "load_point": point, "load": load, "population": population}
            rows += [
                {
                    **place,
                    **_objective(name, float(limits[name]["at_most"]), total.violations.get(name, 0), total.attempted),
                }
                for name in OBJECTIVES
                if limits.get(name) is not None
            ]
    return rows


def _objective(name: str, limit: float, violations: int, attempts: int) -> Record:
    percent = highest_established(violations, attempts)
    return {
        "metric": name,
        "limit_s": limit,
        "percentile": percent,
        "violations": violations,
        "n": attempts,
        "reason": _why_no_higher(percent, violations, attempts),
        "basis": "pooled over blocks, requests taken as independent: description",
    }


def _why_no_higher(percent: int | None, violations: int, attempts: int) -> str | None:
    """Why the next percentile is not established; None where the highest is."""
    following = [other for other in PERCENTILES if percent is None or other > percent]
    if not following:
        return None
    if attempts == 0:
        return "no counted attempts"
    most = allowed(attempts, following[0])
    if most is None:
        needs = f"p{following[0]} needs {smallest_n(0, following[0])} attempts without a violation"
        return f"{needs}; {attempts} here"
    return f"p{following[0]} allows {wording.count(most, 'violation')} among {attempts}; {violations} here"

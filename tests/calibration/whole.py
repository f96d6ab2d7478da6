"""Whole runs: raw events in, verdict.json out, with a true effect that is exactly the threshold.

A cell's time to first token is its arm's, times the cell's own noise, so that the log ratio of ttft.p50 in each block
is known to the rounding of a nanosecond. Each verdict must have the word and the interval that `paired` gives those
ratios.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

from ..analysis.bundles import Cell, ab_card, analyse, build
from ..analysis.bundles import Row as Event
from .draws import Claim, log_pairs, stream
from .effects import effects
from .table import Row, at_most, within

BLOCKS, LOAD = 6, 20.0
CLAIM = Claim(0.05, True, "must_fall_by")
GROUP = f"Whole runs from raw events (B = {BLOCKS}, ttft.p50 must fall by 5%, the true fall is 5%)"


def _card() -> Event:
    claim = {"metric": "ttft.p50", "direction": CLAIM.direction, "scope": "loads", "at": [LOAD]}
    claim |= {"threshold": {"value": CLAIM.value, "scale": "relative"}}
    return ab_card(
        claim=claim, guards=[], evidence=[], workload__loads=[LOAD],
        workload__window={"warmup": {"seconds": 0.25}, "measure": {"seconds": 2.0}, "drain": 1.0},
        method={"blocks": BLOCKS, "seed": 1, "spare_blocks": 0, "pause_between_cells": 0.0},
    )  # fmt: skip


def _timed(ttft: dict[str, float]) -> object:
    """A hook that gives every request of a cell the same TTFT (ms)."""

    def rows(cell: Cell, events: list[Event]) -> list[Event]:
        out = []
        for row in events:
            moved = row["scheduled"] + round(ttft[cell.cell] * 1e6) - row["first_token"]
            times = [time + moved for time in row["chunk_times"]]
            ends = {"first_token": times[0], "first_answer_token": times[0], "last_token": times[-1], "end": times[-1]}
            out.append(row | ends | {"chunk_times": times})
        return out

    return rows


def whole_runs(part: int, n: int) -> list[tuple[str, bool, bool]]:
    """(word, whether it is `paired`'s with the same interval, whether the interval holds the truth) of n runs."""
    baseline, candidate = log_pairs(stream("whole", part), n, BLOCKS, CLAIM.log)
    wanted = effects(baseline, candidate, CLAIM)
    found = []
    for b, c, effect in zip(baseline.tolist(), candidate.tolist(), wanted, strict=True):
        ttft = {f"b{i:02d}-baseline-l1": 10 * value for i, value in enumerate(b, start=1)}
        ttft |= {f"b{i:02d}-candidate-l1": 10 * value for i, value in enumerate(c, start=1)}
        with tempfile.TemporaryDirectory() as folder:
            run = build(Path(folder), _card(), rows=_timed(ttft))  # type: ignore[arg-type]
            verdict = analyse(run)
        (row,) = verdict["effects"]
        lower, upper = row["interval"]
        same = math.isclose(lower, effect.lower or 0, abs_tol=1e-7) and math.isclose(
            upper, effect.upper or 0, abs_tol=1e-7
        )
        found.append((verdict["verdict"], same and verdict["verdict"] == effect.word, lower <= CLAIM.log <= upper))
    return found


def rows_of(found: list[tuple[str, bool, bool]]) -> list[Row]:
    """The rows of whole runs."""
    n = len(found)
    return [
        at_most(GROUP, '"supported"', sum(word == "supported" for word, _, _ in found), n, 0.025),
        at_most(GROUP, '"falsified"', sum(word == "falsified" for word, _, _ in found), n, 0.025),
        at_most(GROUP, "the interval leaves out the truth", sum(not held for _, _, held in found), n, 0.05),
        within(GROUP, "word and interval are those of the block ratios", sum(same for _, same, _ in found), n, 1, 1),
    ]

"""Goodput: which attempts met every declared objective, and why the others did not.

An attempt is good only if its outcome is ok and every objective that is declared for it holds: its population's own,
where it has some, else the card's. A miss is counted under each cause and, once, under its first cause in the order of
`CAUSES`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from .quantities import Quantities, output_tokens

Bools = npt.NDArray[np.bool_]

#: the order in which a miss with several causes finds its first one
CAUSES = ("success", "ttft", "itl", "icl", "tpot", "e2e", "output")
#: latency objectives and the key that holds their limit (s)
_LIMIT_KEYS = {"ttft": "at_most", "itl": "every", "icl": "every", "tpot": "at_most", "e2e": "at_most"}
#: undefined on an ok attempt, these cannot be shown to hold and miss; the others hold for an output of one token, which
#: has no gap, and miss for a longer one, whose gaps nobody saw (not streamed, or all in one chunk)
_MUST_BE_DEFINED = ("ttft", "e2e")


@dataclass(frozen=True)
class Judgement:
    """The attempts of one cell, or of several added up, judged: counts by cause. `good` is None where some attempts
    have no objectives. `violations` counts, for each objective but success, the attempts that failed or missed it."""

    attempted: int
    good: int | None
    missed: dict[str, int]
    first_cause: dict[str, int]
    outcomes: dict[str, int]
    violations: dict[str, int] = field(default_factory=dict)


def judge(
    attempts: pl.DataFrame,
    quantities: Quantities,
    objectives: dict[str, Any] | None,
    own: Mapping[str, dict[str, Any] | None] | None = None,
) -> Judgement:
    """Judge a cell's counted attempts against the card's objectives (limits in seconds), each population's by
    its `own` where it has some (None: the card's).

    A failed attempt misses `success`, and also the latency objectives that it exceeded as far as it got. A latency that
    is undefined on an ok attempt is a miss, since an objective on a time that was not seen is not met; except the ITL,
    ICL or TPOT of a single token, which has no gap to see.
    """
    groups = _groups(attempts, objectives, own or {})
    missed = _by_group(attempts, quantities, groups)
    judged = all(limits is not None for _, limits in groups)
    bad = np.zeros(attempts.height, dtype=bool)
    first: dict[str, int] = {}
    for cause, misses in missed.items():
        first[cause] = int((misses & ~bad).sum())
        bad |= misses
    outcomes = attempts["outcome"].value_counts().sort("outcome").rows()
    return Judgement(
        attempts.height,
        int((~bad).sum()) if judged else None,
        {cause: int(misses.sum()) for cause, misses in missed.items()},
        first,
        {str(outcome): int(count) for outcome, count in outcomes},
        {cause: int((misses | ~quantities.ok).sum()) for cause, misses in missed.items() if cause != "success"},
    )


def _groups(
    attempts: pl.DataFrame, objectives: dict[str, Any] | None, own: Mapping[str, dict[str, Any] | None]
) -> list[tuple[Bools, dict[str, Any] | None]]:
    """Which attempts are judged by which objectives: a group for each population, and one for attempts of none."""
    kind = attempts["population"]
    groups = [(kind.eq_missing(name).to_numpy(), limits or objectives) for name, limits in own.items()]
    others = ~kind.is_in(list(own)).fill_null(False).to_numpy()
    return [*groups, (others, objectives)] if not own or others.any() else groups


def _by_group(
    attempts: pl.DataFrame, quantities: Quantities, groups: list[tuple[Bools, dict[str, Any] | None]]
) -> dict[str, Bools]:
    """Misses by cause, in the order of `CAUSES`, each group's by its own objectives."""
    merged: dict[str, Bools] = {}
    for mine, limits in groups:
        for cause, misses in _misses(attempts, quantities, limits or {}).items():
            merged[cause] = merged.get(cause, np.zeros(attempts.height, dtype=bool)) | (misses & mine)
    return {cause: merged[cause] for cause in CAUSES if cause in merged}


def _misses(attempts: pl.DataFrame, quantities: Quantities, objectives: dict[str, Any]) -> dict[str, Bools]:
    missed: dict[str, Bools] = {"success": ~quantities.ok}
    several = attempts.select(output_tokens().fill_null(0) > 1).to_series().to_numpy()
    for cause in CAUSES[1:]:
        if objectives.get(cause) is None:
            continue
        if cause == "output":
            missed[cause] = quantities.ok & _bad_output(attempts, objectives[cause])
            continue
        values = quantities.each[cause]
        undefined = np.isnan(values)
        misses = np.greater(
            values, objectives[cause][_LIMIT_KEYS[cause]], where=~undefined, out=np.zeros_like(undefined)
        )
        unseen = undefined & quantities.ok
        missed[cause] = misses | (unseen if cause in _MUST_BE_DEFINED else unseen & several)
    return missed


def _bad_output(attempts: pl.DataFrame, objective: dict[str, Any]) -> Bools:
    bad = np.zeros(attempts.height, dtype=bool)
    if objective.get("finish") is not None:
        bad |= ~attempts["finish_reason"].is_in(list(objective["finish"])).fill_null(False).to_numpy()
    if objective.get("min_tokens") is not None:
        tokens = attempts.select(output_tokens().fill_null(0))["output_tokens"].to_numpy()
        bad |= tokens < int(objective["min_tokens"])
    return bad


def add(judgements: Iterable[Judgement]) -> Judgement:
    """Several cells as one: counts added up."""
    total = Judgement(0, 0, {}, {}, {})
    for one in judgements:
        total = Judgement(
            total.attempted + one.attempted,
            None if one.good is None or total.good is None else total.good + one.good,
            _sum(total.missed, one.missed),
            _sum(total.first_cause, one.first_cause),
            _sum(total.outcomes, one.outcomes),
            _sum(total.violations, one.violations),
        )
    return total


def _sum(left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
    return {key: left.get(key, 0) + right.get(key, 0) for key in (*left, *(key for key in right if key not in left))}

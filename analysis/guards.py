"""Guards: costs that the treatment may have, each with a margin fixed beforehand.

`may_rise_by m`: one-sided upper bound < ln(1 + m) passes; one-sided lower bound > ln(1 + m) has regressed; else
indeterminate. `may_fall_by` is the mirror image. All guards must pass, which needs no correction; that *some* guard
regressed is one of several chances to be wrong, so it must survive Holm's adjustment over all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from . import wording
from .effect import compare_to, differences, holm, is_degenerate, one_sided_p, rises, t_quantile

#: fewer blocks than this carry no guard
MIN_BLOCKS = 5


@dataclass(frozen=True)
class GuardResult:
    """A guard at one load. `bound` is the one-sided bound on the side of the limit, both on the d scale; `p` is that of
    "the margin is kept", `p_regressed` that of "it is not"."""

    scale: str
    blocks: int
    mean: float | None
    bound: float | None
    limit: float | None
    p: float | None
    p_regressed: float | None
    word: str
    reason: str | None = None


def undefined(blocks: int, reason: str) -> GuardResult:
    """A guard that cannot be judged: indeterminate, with its reason."""
    return GuardResult("log", blocks, None, None, None, None, None, "indeterminate", reason)


def guard(
    baseline: Sequence[float],
    candidate: Sequence[float],
    *,
    margin: float,
    relative: bool,
    direction: str,
    confidence: float = 0.95,
) -> GuardResult:
    """Judge one guard from paired blocks. `margin` is a fraction if relative, else in the metric's unit."""
    blocks = len(baseline)
    if blocks < MIN_BLOCKS:
        return undefined(blocks, f"{wording.count(blocks, 'block')}; a guard needs {MIN_BLOCKS}")
    scale, d, limit = differences(baseline, candidate, margin, relative, direction)
    up = rises(direction)
    sign = 1.0 if up else -1.0
    mean, stdev = float(np.mean(d)), float(np.std(d, ddof=1))
    if is_degenerate(d, limit, stdev):
        # every block the same: exactly at the limit is still within "may rise by"
        kept = sign * compare_to(mean, limit, float(np.abs(d).max())) <= 0
        return GuardResult(
            scale, blocks, mean, mean, limit, None, 0.0 if not kept else 1.0, "pass" if kept else "regressed"
        )
    half = t_quantile(confidence, blocks - 1) * stdev / math.sqrt(blocks)
    outer, inner = mean + sign * half, mean - sign * half
    _, p_kept = one_sided_p(mean, stdev, blocks, limit, up=not up)
    word = "pass" if sign * (limit - outer) > 0 else "regressed" if sign * (inner - limit) > 0 else "indeterminate"
    return GuardResult(scale, blocks, mean, outer, limit, p_kept, 1 - p_kept, word)


def adjust(results: Sequence[GuardResult], confidence: float = 0.95) -> list[GuardResult]:
    """Holm over all guards: a regression that does not survive it is indeterminate."""
    known = [i for i, result in enumerate(results) if result.p_regressed is not None]
    adjusted = dict(zip(known, holm([results[i].p_regressed or 0.0 for i in known]), strict=True))
    out = []
    for i, result in enumerate(results):
        if result.word == "regressed" and adjusted[i] > 1 - confidence:
            reason = f"beyond its margin alone, but not among {len(known)} guards together (Holm)"
            result = replace(result, word="indeterminate", reason=reason)
        out.append(result)
    return out

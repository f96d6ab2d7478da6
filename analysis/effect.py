"""The effect of the treatment, from B paired blocks, and its word against a threshold.

One scalar an arm a block, m. On the scale that fits the threshold, d is

    log         ln(m_candidate / m_baseline)              threshold ln(1 + δ), or ln(1 − δ) for must_fall_by
    difference  m_candidate − m_baseline                  threshold ±δ (a proportion, compared in points)
    scaled      m_candidate − (1 ± δ)·m_baseline          threshold 0; where m = 0 in some block no log ratio exists

The t interval mean ± t·s/√B decides. An exact sign-flip (randomization) test of d − threshold stands beside it; where
the two disagree the effect is flagged "fragile". The block is the unit: requests inside a run are not independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .signflip import sign_flip_interval, sign_flip_p

Floats = npt.NDArray[np.float64]

#: fewer blocks than this support nothing: with B blocks the sign-flip test cannot go below 2^−B
MIN_BLOCKS = 6
#: an effect that moves by more than this many standard errors of the other blocks without its most extreme block is
#: flagged "one_block"; of pure normal noise 5% of effects over 6 blocks are, 1% over 8
ONE_BLOCK = 2.0
#: relative size below which a spread is rounding, not spread
_ROUNDING = 1e-12

RISE = ("must_rise_by", "may_rise_by")
FALL = ("must_fall_by", "may_fall_by")


@dataclass(frozen=True)
class Effect:
    """An effect on its d scale. `lower`/`upper` is the two-sided interval at the card's confidence; None where it does
    not exist (one block). `p` and `sign_flip_p` are one-sided, for "the threshold is passed"."""

    scale: str
    d: tuple[float, ...]
    threshold: float
    mean: float
    stdev: float | None
    lower: float | None
    upper: float | None
    t: float | None
    p: float | None
    sign_flip_p: float | None
    sign_flip_interval: tuple[float, float] | None
    word: str
    flags: tuple[str, ...]


def rises(direction: str) -> bool:
    """Whether a direction of the card means 'up'."""
    if direction not in RISE + FALL:
        raise ValueError(f"direction {direction!r}; wanted one of {', '.join(RISE + FALL)}")
    return direction in RISE


def log_threshold(value: float, direction: str) -> float:
    """A relative threshold on the log scale: ln(1 + δ) up, ln(1 − δ) down."""
    return math.log1p(value) if rises(direction) else math.log1p(-value)


def differences(
    baseline: Sequence[float], candidate: Sequence[float], value: float, relative: bool, direction: str
) -> tuple[str, Floats, float]:
    """(scale, d of each block, threshold on that scale). No block is ever dropped."""
    b, c = np.asarray(baseline, dtype=np.float64), np.asarray(candidate, dtype=np.float64)
    sign = 1.0 if rises(direction) else -1.0
    if not relative:
        return "difference", c - b, sign * value
    if (b > 0).all() and (c > 0).all():
        return "log", np.log(c / b), log_threshold(value, direction)
    return "scaled", c - (1.0 + sign * value) * b, 0.0


def t_quantile(p: float, df: float) -> float:
    """Quantile of Student's t."""
    from scipy import special

    return float(special.stdtrit(df, p))


def t_interval(d: Floats, confidence: float) -> tuple[float, float, float, float]:
    """(mean, stdev, lower, upper) of at least two values: mean ± t(1 − α/2, B − 1)·s/√B."""
    mean, stdev = float(np.mean(d)), float(np.std(d, ddof=1))
    half = t_quantile(0.5 + confidence / 2, len(d) - 1) * stdev / math.sqrt(len(d))
    return mean, stdev, mean - half, mean + half


def one_sided_p(mean: float, stdev: float, blocks: int, threshold: float, up: bool) -> tuple[float, float]:
    """(t, p) of the one-sided t test that the mean lies beyond the threshold."""
    from scipy import special

    t = (mean - threshold) / (stdev / math.sqrt(blocks))
    return t, float(special.stdtr(blocks - 1, -t if up else t))


def is_degenerate(d: Floats, threshold: float, stdev: float) -> bool:
    """All blocks the same: the spread is zero up to rounding."""
    return is_rounding(stdev, [*d.tolist(), threshold])


def is_rounding(stdev: float, values: Sequence[float]) -> bool:
    """Whether a spread is no more than the rounding error of values of this size."""
    return stdev <= _ROUNDING * max(abs(value) for value in values)


def compare_to(mean: float, threshold: float, scale: float) -> int:
    """Sign of mean − threshold, with rounding error taken for equality."""
    gap = mean - threshold
    return 0 if abs(gap) <= _ROUNDING * max(abs(mean), abs(threshold), scale) else (1 if gap > 0 else -1)


def driven_by_one(d: Floats) -> bool:
    """Whether leaving out the block farthest from the mean moves the mean by more than `ONE_BLOCK` standard errors of
    the others. It looks at d alone, knows neither arm nor threshold, and changes no word."""
    if len(d) < MIN_BLOCKS:
        return False
    mean = float(np.mean(d))
    others = np.delete(d, int(np.argmax(np.abs(d - mean))))
    error = float(np.std(others, ddof=1)) / math.sqrt(len(others))
    return abs(mean - float(np.mean(others))) > ONE_BLOCK * error


def paired(
    baseline: Sequence[float],
    candidate: Sequence[float],
    *,
    value: float,
    relative: bool,
    direction: str,
    confidence: float = 0.95,
) -> Effect:
    """The effect over paired blocks against a threshold `value` (a fraction if relative, else in the metric's unit).

    The word is supported, falsified or inconclusive: `must_rise_by` is supported if the lower bound lies above the
    threshold and falsified if the upper bound lies below it; `must_fall_by` is the mirror image.
    """
    if len(baseline) != len(candidate) or not baseline:
        raise ValueError("paired blocks are needed, at least one")
    scale, d, threshold = differences(baseline, candidate, value, relative, direction)
    up = rises(direction)
    if len(d) == 1:
        mean = float(d[0])
        nothing = (None, None, None, None, None, None, None)
        return Effect(scale, (mean,), threshold, mean, *nothing, "inconclusive", ("few_blocks",))
    mean, stdev, lower, upper = t_interval(d, confidence)
    flags = ["few_blocks"] if len(d) < MIN_BLOCKS else []
    if is_degenerate(d, threshold, stdev):
        side = compare_to(mean, threshold, float(np.abs(d).max()))
        word = _word(side > 0, side < 0, up)
        return _effect(scale, d, threshold, (mean, 0.0, mean, mean), word, [*flags, "degenerate"])
    word = _word(lower > threshold, upper < threshold, up)
    t, p = one_sided_p(mean, stdev, len(d), threshold, up)
    alpha = (1 - confidence) / 2
    above, below = sign_flip_p(d, threshold, up=True), sign_flip_p(d, threshold, up=False)
    if _word(above <= alpha, below <= alpha, up) != word:
        flags.append("fragile")
    if driven_by_one(d):
        flags.append("one_block")
    if len(d) < MIN_BLOCKS:
        word = "inconclusive"
    flip = sign_flip_interval(d, alpha)
    bounds = (mean, stdev, lower, upper)
    return _effect(scale, d, threshold, bounds, word, flags, t, p, above if up else below, flip)


def _word(above: bool, below: bool, up: bool) -> str:
    if above:
        return "supported" if up else "falsified"
    if below:
        return "falsified" if up else "supported"
    return "inconclusive"


def _effect(
    scale: str,
    d: Floats,
    threshold: float,
    bounds: tuple[float, float, float, float],
    word: str,
    flags: list[str],
    t: float | None = None,
    p: float | None = None,
    flip_p: float | None = None,
    flip: tuple[float, float] | None = None,
) -> Effect:
    if len(d) < MIN_BLOCKS:
        word = "inconclusive"
    each = tuple(float(value) for value in d)
    return Effect(scale, each, threshold, *bounds, t, p, flip_p, flip, word, tuple(flags))


def bonferroni_interval(d: Floats, loads: int, confidence: float = 0.95) -> tuple[float, float]:
    """The interval of one of several loads, at 1 − α/K."""
    _, _, lower, upper = t_interval(d, 1 - (1 - confidence) / loads)
    return lower, upper


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment, in the order given."""
    adjusted, running = [0.0] * len(p), 0.0
    for rank, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        running = max(running, min(1.0, (len(p) - rank) * p[i]))
        adjusted[i] = running
    return adjusted

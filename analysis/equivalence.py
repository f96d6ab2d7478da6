"""Equivalent work: bounds on how far two arms' outputs may differ, from pairs of the same item.

    discordant pairs   (b − c)/(N + 2) ± z·√(b + c + 1 − (b − c)²/(N + 2))/(N + 2)      Agresti & Min, 2005
    discordant in one  the wider of that and the exact binomial bound of the only       Clopper & Pearson, 1934
    direction only     count; of no pair at all the exact one, 1 − (1 − confidence)^(1/N)
    a mean of items    mean ± t·s/√N of the paired differences; where few items differ, the wider of that and the
                       bound of discordant pairs
    a ratio of means   the ρ for which the mean of y − ρ·x is not told from 0            Fieller, 1954
    equivalence        two one-sided tests (TOST)                                        Schuirmann, 1987

All bounds are one-sided at the card's confidence. Equivalence is established only by a test of it: a difference
that was not found establishes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .effect import Floats, is_rounding, one_sided_p, t_quantile

#: the mean of fewer items that differ is not normal: at N = 100 and a true fall of 3 pt, a t interval alone is above
#: −3 pt in 19.5% of all cases, those with at most one item lost
FEW_DIFFER = 20


@dataclass(frozen=True)
class Bounds:
    """An observed difference with its one-sided bounds; together they are the interval at 1 − 2·(1 − confidence)."""

    observed: float
    lower: float
    upper: float


def no_event_bound(n: int, confidence: float = 0.95) -> float:
    """The exact one-sided upper bound of a rate of which n trials showed no event; 1 without trials."""
    return 1.0 if n == 0 else -math.expm1(math.log1p(-confidence) / n)


def event_bound(events: int, n: int, confidence: float = 0.95) -> float:
    """The exact one-sided upper bound of a rate of which n trials showed so many events; 1 without trials."""
    from scipy import special

    if events == 0:
        return no_event_bound(n, confidence)
    return 1.0 if events >= n else float(special.betaincinv(events + 1, n - events, confidence))


def discordant(b: int, c: int, n: int, confidence: float = 0.95) -> Bounds:
    """Share of pairs that only the first shows (b of n) less the share that only the second does (c of n).

    The share less another is no more than the share, so where no pair is of the second kind the exact bound of the
    first share holds, too; Agresti and Min's alone is too near there (2 of 500: below 1%, the exact one 1.25%)."""
    from scipy import special

    center = (b - c) / (n + 2)
    half = float(special.ndtri(confidence)) * math.sqrt(b + c + 1 - (b - c) ** 2 / (n + 2)) / (n + 2)
    lower, upper = center - half, center + half
    if b == c == 0:
        lower, upper = -no_event_bound(n, confidence), no_event_bound(n, confidence)
    elif c == 0:
        upper = max(upper, event_bound(b, n, confidence))
    elif b == 0:
        lower = min(lower, -event_bound(c, n, confidence))
    return Bounds((b - c) / n, lower, upper)


def mean_of_items(d: Floats, confidence: float = 0.95) -> Bounds:
    """The mean of each item's difference of two proportions, each at most 1 from 0. Where few items differ their mean
    is not normal, so the bounds are no nearer than those of the counts of items that rise and fall."""
    n, mean, stdev = len(d), float(np.mean(d)), float(np.std(d, ddof=1))
    if is_rounding(stdev, [1.0]):
        bound = no_event_bound(n, confidence)
        return Bounds(mean, mean - bound, mean + bound)
    half = t_quantile(confidence, n - 1) * stdev / math.sqrt(n)
    won, lost = int((d > 0).sum()), int((d < 0).sum())
    if won + lost >= FEW_DIFFER:
        return Bounds(mean, mean - half, mean + half)
    counted = discordant(won, lost, n, confidence)
    return Bounds(mean, min(mean - half, counted.lower), max(mean + half, counted.upper))


def ratio_of_means(x: Floats, y: Floats, confidence: float = 0.95) -> Bounds | None:
    """mean(y)/mean(x) − 1 over paired items, with Fieller's bounds; None where the mean of x is not told from 0."""
    n, mx, my = len(x), float(np.mean(x)), float(np.mean(y))
    covariance = np.cov(x, y)
    g = t_quantile(confidence, n - 1) ** 2 / n
    # (my − ρ·mx)² = g·(s_yy − 2ρ·s_xy + ρ²·s_xx), a quadratic in ρ
    a = mx * mx - g * float(covariance[0, 0])
    half = mx * my - g * float(covariance[0, 1])
    if mx <= 0 or a <= 0:
        return None
    root = math.sqrt(max(0.0, half * half - a * (my * my - g * float(covariance[1, 1]))))
    return Bounds(my / mx - 1, (half - root) / a - 1, (half + root) / a - 1)


def tost(d: Sequence[float], low: float, high: float) -> float | None:
    """p of "the mean of d lies between low and high": the larger of the two one-sided t tests. None with fewer than two
    values or without any spread."""
    values = np.asarray(d, dtype=np.float64)
    if len(values) < 2:
        return None
    mean, stdev = float(np.mean(values)), float(np.std(values, ddof=1))
    if is_rounding(stdev, [*values.tolist(), low, high]):
        return None
    above = one_sided_p(mean, stdev, len(values), low, up=True)[1]
    return max(above, one_sided_p(mean, stdev, len(values), high, up=False)[1])


def distributions_apart(x: Floats, y: Floats) -> tuple[float, float]:
    """(distance, p) of the two-sample Kolmogorov–Smirnov test: an alarm only, since the items are paired and the values
    have ties."""
    from scipy import stats

    found = stats.ks_2samp(x, y, method="asymp")
    return float(found.statistic), float(found.pvalue)

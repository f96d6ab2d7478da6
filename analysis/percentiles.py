"""Percentiles of a sample: what n values can carry, their intervals, and "the p-quantile is at most X".

A percentile is the smallest value with at least p of the data at or below it. All three follow from one fact: of n
independent values, the number at or below the true p-quantile is binomial (n, p), whatever their distribution (David
and Nagaraja, Order Statistics, 3rd ed. 2003, section 7.1; Conover, Practical Nonparametric Statistics, section 3.2).
Requests inside a run are not independent, so over pooled requests these describe; the blocks decide.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: the percentiles that are looked at, lowest first
PERCENTILES = (50, 90, 95, 97, 99)
#: "at most X" is established where so few violations would come by chance no more often than this
LEVEL = 0.01
#: violations that a percentile must be able to carry: with one value beyond it, it is not the maximum
_ALLOWANCE = 1


def cumulated(at_most: Ints | int, n: int, p: Floats | float) -> Floats:
    """P(X ≤ `at_most`) for X binomial (n, p), by the regularized incomplete beta function; 0 below 0, 1 from n on."""
    from scipy import special

    k = np.asarray(at_most, dtype=np.float64)
    inside = (k >= 0) & (k < n)
    safe = np.where(inside, k, 0.0)
    found = special.betainc(np.maximum(n - safe, 1.0), safe + 1.0, 1.0 - np.asarray(p, dtype=np.float64))
    return np.asarray(np.where(inside, found, np.where(k < 0, 0.0, 1.0)), dtype=np.float64)


def _chance(violations: int, attempts: int, percent: int) -> float:
    """P(no more violations than these) if the true share of violations were (100 − percent)%."""
    return float(cumulated(violations, attempts, (100 - percent) / 100))


def established(violations: int, attempts: int, percent: int) -> bool:
    """Whether "the `percent`-th percentile is at most X" holds by the binomial test at `LEVEL`: `violations` of
    `attempts` were above X, or failed."""
    return 0 <= violations < attempts and _chance(violations, attempts, percent) <= LEVEL


def allowed(attempts: int, percent: int) -> int | None:
    """The most violations among `attempts` with which the percentile is established; None where not even 0 is."""
    if not established(0, attempts, percent):
        return None
    low, high = 0, attempts - 1
    while low < high:
        middle = (low + high + 1) // 2
        if _chance(middle, attempts, percent) <= LEVEL:
            low = middle
        else:
            high = middle - 1
    return low


def highest_established(violations: int, attempts: int) -> int | None:
    """The highest of `PERCENTILES` that is established, or None."""
    found = [percent for percent in PERCENTILES if established(violations, attempts, percent)]
    return max(found, default=None)


@lru_cache(maxsize=256)
def smallest_n(violations: int, percent: int) -> int:
    """The fewest attempts with which a percentile is established at that many violations. Raises ValueError below 0
    violations or outside 1 to 99 percent."""
    if violations < 0 or not 1 <= percent <= 99:
        raise ValueError(f"{violations} violations at p{percent}; wanted at least 0, and p1 to p99")
    low, high = violations + 1, violations + 2
    while not established(violations, high, percent):
        low, high = high, high * 2
    while low < high:
        middle = (low + high) // 2
        if established(violations, middle, percent):
            high = middle
        else:
            low = middle + 1
    return low


def needed(percent: int) -> int:
    """The fewest values that carry a percentile: one of them may lie beyond it (p90 64, p95 130, p97 219, p99 662; the
    last is also what the MLPerf inference rules publish)."""
    return smallest_n(_ALLOWANCE, percent)


def highest_carried(n: int) -> int | None:
    """The highest of `PERCENTILES` that n values carry, or None."""
    return max((percent for percent in PERCENTILES if n >= needed(percent)), default=None)


def withheld(n: int, percent: int) -> str | None:
    """Why a percentile of n values is not shown, with what it would take; None where they carry it."""
    return None if n >= needed(percent) else f"p{percent} needs {needed(percent)} values; {n} here"


def value_rank(n: int, percent: int) -> int:
    """The rank (from 1) of a percentile among n ≥ 1 sorted values: ⌈n·percent/100⌉, at least 1."""
    return max(-(-n * percent // 100), 1)


def interval_ranks(n: int, shares: Floats, confidence: float) -> tuple[Ints, Ints]:
    """The ranks (from 1) of the order statistics between which each quantile lies, exactly, with equal tails.

    The lower rank is the largest r with P(X < r) ≤ α/2, the upper the smallest s with P(X ≥ s) ≤ α/2, for X binomial
    (n, share) and α = 1 − confidence. Where there is none, the lower is 0 and the upper n + 1.
    """
    tail = (1.0 - confidence) / 2
    # P(X ≤ r − 1) ≤ tail < P(X ≤ r) makes r the smallest k whose P(X ≤ k) exceeds the tail; s lies one above the
    # smallest k with P(X ≤ k) ≥ 1 − tail, that is P(X > k) ≤ tail
    lower = _first(n, shares, lambda below: below > tail)
    upper = _first(n, shares, lambda below: below >= 1.0 - tail) + 1
    return np.where(shares <= 0, 0, lower), np.where(shares >= 1, n + 1, upper)


def _first(n: int, shares: Floats, reached: Callable[[Floats], npt.NDArray[np.bool_]]) -> Ints:
    """For each share the smallest k in 0..n whose P(X ≤ k) has `reached` a level, by bisection."""
    low, high = np.zeros(len(shares), dtype=np.int64), np.full(len(shares), n, dtype=np.int64)
    while (low < high).any():
        middle = (low + high) // 2
        there = reached(cumulated(middle, n, shares))
        low, high = np.where(there, low, np.minimum(middle + 1, high)), np.where(there, middle, high)
    return low

"""Is a cell's latency at rest? The drift of TTFT over its measured window, and MSER-5 as a diagnostic.

    drift   Theil-Sen slope over 20 batch means × 19 / their median: the change from the first batch to the last, as a
            share of the typical TTFT; with Sen's interval (Kendall's S, normal approximation, corrected for ties)
    MSER-5  of the means of 5 requests each, d of k are cut where Σ(x − mean)² / (k − d)² of the others is least, over
            d ≤ k/2 (White, 1997); a least value at d = k/2 itself finds no end of the transient

Requests are taken in order of schedule. The sample is every counted attempt that got a first token, whatever became of
it later; an attempt without one is left out, counted by reason, never taken as 0. Such attempts may be the slowest, so
the drift of a cell that has many is of those that were served. One cell says little: the answer is taken from the
drifts over blocks (`steady_loads`). The card fixes the warm-up; nothing here chooses one.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import polars as pl

Floats = npt.NDArray[np.float64]

#: parts of a window whose means are compared
BATCHES = 20
#: fewer requests with a TTFT than this carry no drift
MIN_REQUESTS = 100
#: requests in a batch of MSER-5
MSER_BATCH = 5
#: relative size below which a spread is rounding, not spread
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Drift:
    """A cell's drift (a fraction of the median batch mean over the window) with its interval."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Mser:
    """What MSER-5 would cut: requests at the window's start, the statistic there (in the samples' unit squared), and
    whether it lies at the largest cut that is tried."""

    requests: int
    statistic: float
    at_boundary: bool


@dataclass(frozen=True)
class Batch:
    """The mean TTFT (s) of one of the window's parts; `index` is the mean position, from 0, of its requests among all
    counted ones in order of schedule."""

    index: float
    mean: float


@dataclass(frozen=True)
class SteadyCell:
    """A cell's TTFT over its window. `requests` is how many have one, `undefined` counts those that do not, by reason;
    `reason` says why there is no drift."""

    requests: int
    undefined: dict[str, int]
    drift: Drift | None
    mser: Mser | None
    batches: tuple[Batch, ...]
    reason: str | None


def steady_cell(attempts: pl.DataFrame, ttft: Floats, confidence: float) -> SteadyCell:
    """Look at a cell's counted attempts and their TTFT (s, one an attempt, NaN where there is none)."""
    ordered = attempts.select("scheduled", "index", "outcome", "streamed", ttft=pl.Series(ttft)).sort(
        "scheduled", "index", nulls_last=True
    )
    values = ordered["ttft"].to_numpy()
    there = ~np.isnan(values)
    sample, places = values[there], np.flatnonzero(there)
    undefined = _undefined(ordered.filter(~pl.Series(there)))
    batches = tuple(
        Batch(float(at.mean()), float(means.mean())) for at, means in zip(_parts(places), _parts(sample), strict=True)
    )
    found, reason = None, None
    if len(sample) < MIN_REQUESTS:
        reason = f"{len(sample)} requests with a TTFT; a drift needs {MIN_REQUESTS}"
    else:
        found = drift(sample, confidence)
        reason = "the median TTFT is 0" if found is None else None
    return SteadyCell(len(sample), undefined, found, mser5(sample), batches, reason)


def _undefined(missing: pl.DataFrame) -> dict[str, int]:
    """Attempts that got no first token, by reason: the outcome of a failed one, what was missing of an ok one."""
    plain = pl.when(~pl.col("streamed").fill_null(True)).then(pl.lit("not streamed"))
    why = pl.when(pl.col("outcome") != "ok").then("outcome").otherwise(plain.otherwise(pl.lit("no first token")))
    counts = missing.select(why=why)["why"].value_counts().sort("why")
    return {str(reason): int(count) for reason, count in counts.rows()}


def _parts(values: npt.NDArray[np.generic]) -> list[Floats]:
    """`BATCHES` parts in order, whose sizes differ by at most one; none where there are fewer values than that."""
    n = len(values)
    if n < BATCHES:
        return []
    ends = [part * n // BATCHES for part in range(BATCHES + 1)]
    return [np.asarray(values[start:end], dtype=np.float64) for start, end in itertools.pairwise(ends)]


def drift(values: Floats, confidence: float = 0.95) -> Drift | None:
    """The drift of at least `BATCHES` values in order; None where the median of their batch means is not above 0."""
    means = np.array([part.mean() for part in _parts(values)])
    median = float(np.median(means))
    if not median > 0:
        return None
    slope, lower, upper = theil_sen(means, confidence)
    whole = (BATCHES - 1) / median
    return Drift(slope * whole, lower * whole, upper * whole)


def theil_sen(values: Floats, confidence: float) -> tuple[float, float, float]:
    """(slope, lower, upper) of equally spaced values: the median of the slopes between all pairs, and the ranks of
    those slopes at which Kendall's S leaves (1 − confidence)/2 on either side (Sen, 1968)."""
    n = len(values)
    first, second = np.triu_indices(n, 1)
    slopes = np.sort((values[second] - values[first]) / (second - first))
    ties = np.unique(values, return_counts=True)[1].astype(np.float64)
    variance = (n * (n - 1) * (2 * n + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
    reach = NormalDist().inv_cdf(0.5 + confidence / 2) * math.sqrt(variance)
    low = max(round((len(slopes) - reach) / 2) - 1, 0)
    high = min(round((len(slopes) + reach) / 2), len(slopes) - 1)
    return float(np.median(slopes)), float(slopes[low]), float(slopes[high])


def mser5(values: Floats) -> Mser | None:
    """MSER-5 of values in order; None for fewer than two batches. What is left over at the end is left out."""
    k = len(values) // MSER_BATCH
    if k < 2:
        return None
    means = values[: k * MSER_BATCH].reshape(k, MSER_BATCH).mean(axis=1)
    last, rounding = k // 2, (_ROUNDING * float(np.abs(means).max())) ** 2
    near = _near_least(means, last, rounding)
    found = [float(((means[d:] - means[d:].mean()) ** 2).sum()) / (k - d) ** 2 for d in near]
    # the first of equal ones: what differs by rounding is equal
    statistic = next(value for value in found if value <= min(found) + rounding)
    cut = near[found.index(statistic)]
    return Mser(cut * MSER_BATCH, statistic, cut == last)


def _near_least(means: Floats, last: int, rounding: float) -> list[int]:
    """The cuts up to `last` whose statistic may be the least, or equal to it: all statistics at once, from sums of the
    tails, which are good to about 9 digits."""
    left = len(means) - np.arange(last + 1)
    tail = (means - means.mean())[::-1]
    sums, squares = np.cumsum(tail)[left - 1], np.cumsum(tail**2)[left - 1]
    rough = (squares - sums**2 / left) / left**2
    error = 1e-9 * squares / left**2 + rounding
    return [int(d) for d in np.flatnonzero(rough - error <= (rough + error).min() + rounding)]

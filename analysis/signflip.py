"""The exact sign-flip (randomization) test of paired differences, and its interval by inversion.

Under "the centre of d is τ" every d − τ may have had the other sign. The one-sided p value is the share of the 2^B sign
assignments whose sum is at least as large as the one seen. Flipping the set S leaves the sum as large exactly if the
mean of d over S is at most τ; so p(τ) = (1 + number of non-empty subsets with mean ≤ τ) / 2^B, and the interval's
bounds are order statistics of the subset means. Beyond 2^16 assignments, 2^16 − 1 random ones (fixed seed) stand for
all.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

#: up to this many blocks every sign assignment is enumerated
ENUMERATED = 16
_SEED = 20260923
_ROUNDING = 1e-12


def _subset_sums(x: Floats) -> Floats:
    """The sum of x over each non-empty subset of the blocks (or over each of a fixed random sample of subsets)."""
    if len(x) > ENUMERATED:
        return np.asarray(_random_subsets(len(x)) @ x)
    sums = np.zeros(1)
    for value in x:
        sums = np.concatenate([sums, sums + value])
    return sums[1:]


@lru_cache(maxsize=8)
def _sizes(blocks: int) -> Floats:
    """How many blocks each subset has, in the order of `_subset_sums`."""
    return _subset_sums(np.ones(blocks))


@lru_cache(maxsize=2)
def _random_subsets(blocks: int) -> Floats:
    """One row a subset, 1.0 where the block is in it."""
    # raw bits, not a distribution method: the stream of PCG64 is stable between numpy versions
    rows, words = (1 << ENUMERATED) - 1, -(-blocks // 64)
    raw = np.random.PCG64(_SEED).random_raw(rows * words).reshape(rows, words)
    bits = np.unpackbits(raw.astype("<u8").view(np.uint8), axis=1, bitorder="little")[:, :blocks].astype(np.float64)
    bits[bits.sum(axis=1) == 0, 0] = 1.0
    return bits


def sign_flip_p(d: Floats, threshold: float, *, up: bool) -> float:
    """One-sided p value of "the centre of d lies beyond the threshold" (above it if `up`, else below)."""
    x = (d - threshold) if up else (threshold - d)
    sums = _subset_sums(x)
    as_large = int((sums <= _ROUNDING * np.abs(x).sum()).sum())
    return (1 + as_large) / (len(sums) + 1)


def sign_flip_interval(d: Floats, alpha: float) -> tuple[float, float] | None:
    """The thresholds that neither one-sided test rejects at `alpha`; None where B is too small to reject any."""
    means = _subset_sums(d) / _sizes(len(d))
    rank = int(np.floor(alpha * (len(means) + 1) + 1e-9))
    if rank < 1:
        return None
    ends = np.partition(means, [rank - 1, len(means) - rank])
    return float(ends[rank - 1]), float(ends[len(means) - rank])

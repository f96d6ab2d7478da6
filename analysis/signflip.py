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


@lru_cache(maxsize=8)
def _subsets(blocks: int) -> Floats:
    """One row a subset (all non-empty ones, or a fixed random sample), 1.0 where the block is in it."""
    if blocks <= ENUMERATED:
        numbers = np.arange(1, 1 << blocks, dtype=np.uint64)
        return ((numbers[:, None] >> np.arange(blocks, dtype=np.uint64)) & np.uint64(1)).astype(np.float64)
    # raw bits, not a distribution method: the stream of PCG64 is stable between numpy versions
    rows = (1 << ENUMERATED) - 1
    words = -(-blocks // 64)
    raw = np.random.PCG64(_SEED).random_raw(rows * words).reshape(rows, words)
    bits = np.unpackbits(raw.astype("<u8").view(np.uint8), axis=1, bitorder="little")[:, :blocks].astype(np.float64)
    bits[bits.sum(axis=1) == 0, 0] = 1.0
    return bits


def sign_flip_p(d: Floats, threshold: float, *, up: bool) -> float:
    """One-sided p value of "the centre of d lies beyond the threshold" (above it if `up`, else below)."""
    x = (d - threshold) if up else (threshold - d)
    subsets = _subsets(len(d))
    tolerance = _ROUNDING * max(float(np.abs(x).max()), 1e-300) * len(d)
    as_large = int((subsets @ x <= tolerance).sum())
    return (1 + as_large) / (len(subsets) + 1)


def sign_flip_interval(d: Floats, alpha: float) -> tuple[float, float] | None:
    """The thresholds that neither one-sided test rejects at `alpha`; None where B is too small to reject any (2^−B >
    α)."""
    subsets = _subsets(len(d))
    rank = int(np.floor(alpha * (len(subsets) + 1) + 1e-9))
    if rank < 1:
        return None
    means = np.sort((subsets @ d) / subsets.sum(axis=1))
    return float(means[rank - 1]), float(means[-rank])

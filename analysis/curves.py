"""A distribution that is kept after a cell's events are closed: few points, so that memory does not grow with the
run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ranks = npt.NDArray[np.int64]

#: a cell keeps at most this many points of a distribution for the pooled curves
CURVE_POINTS = 4096


@dataclass(frozen=True)
class Curve:
    """A distribution: sorted values (s) and the number of samples each stands for."""

    values: Floats
    weights: Floats


def thin(ordered: Floats) -> Curve:
    """A sorted sample as at most `CURVE_POINTS` weighted points; exact if it has no more than that."""
    n = len(ordered)
    if n <= CURVE_POINTS:
        return Curve(ordered, np.ones(n))
    ends = (np.arange(1, CURVE_POINTS + 1) * n) // CURVE_POINTS
    return Curve(ordered[ends - 1], np.diff(ends, prepend=0).astype(np.float64))


@dataclass(frozen=True)
class Pool:
    """Several curves taken together: ascending values (s), and how many samples lie at or below each."""

    values: Floats
    below: Floats

    @property
    def n(self) -> int:
        """Samples in all."""
        return int(self.below[-1]) if len(self.below) else 0

    def at(self, rank: Ranks) -> Floats:
        """The samples of those ranks (from 1; lower and higher ones are taken for the first and the last), from at
        least one sample. Exact where no curve was thinned; else too high by at most n / `CURVE_POINTS` ranks of a
        thinned cell's n."""
        found: Floats = self.values[np.searchsorted(self.below, rank, side="left").clip(max=len(self.values) - 1)]
        return found


def pool(curves: Sequence[Curve]) -> Pool:
    """Pool the curves of several cells, each sample counting once."""
    values = np.concatenate([curve.values for curve in curves] or [np.empty(0)])
    weights = np.concatenate([curve.weights for curve in curves] or [np.empty(0)])
    order = np.argsort(values, kind="stable")
    return Pool(values[order], np.cumsum(weights[order]))

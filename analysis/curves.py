"""A distribution that is kept after a cell's events are closed: few points, so that memory does not grow with the
run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

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

"""Synthetic experiments: the two arms' values in every block, with a true effect that is known.

Each row of an array is an experiment, each column a block. Every set of experiments has a stream of its own, seeded by
`SEED` and its name, so that one more set changes none of the others.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

SEED = 20260923
#: spread of the log ratio over blocks, and of a difference in points
SPREAD, POINTS_SPREAD = 0.03, 0.01


@dataclass(frozen=True)
class Claim:
    """A threshold in the card's words."""

    value: float
    relative: bool
    direction: str

    @property
    def log(self) -> float:
        """The threshold as a log ratio."""
        return math.log(self.factor)

    @property
    def factor(self) -> float:
        """The threshold as a ratio candidate/baseline."""
        return 1 + self.sign * self.value

    @property
    def sign(self) -> int:
        """Up or down."""
        return 1 if self.direction.endswith("rise_by") else -1


def stream(*name: object) -> np.random.Generator:
    """The random stream of a set of experiments."""
    return np.random.default_rng([SEED, zlib.crc32(repr(name).encode())])


def noise(rng: np.random.Generator, kind: str, shape: tuple[int, int]) -> Floats:
    """Noise of mean 0 and standard deviation 1: normal, laplace or exponential (skewed)."""
    if kind == "normal":
        return rng.standard_normal(shape)
    if kind == "laplace":
        return rng.laplace(scale=math.sqrt(0.5), size=shape)
    if kind == "exponential":
        return rng.standard_exponential(shape) - 1
    raise ValueError(kind)


def log_pairs(
    rng: np.random.Generator, n: int, blocks: int, true: float, spread: float = SPREAD, kind: str = "normal"
) -> tuple[Floats, Floats]:
    """(baseline, candidate): the log ratio in a block is `true` + spread·noise; blocks themselves differ by 5%."""
    baseline = 10 * np.exp(0.05 * rng.standard_normal((n, blocks)))
    return baseline, baseline * np.exp(true + spread * noise(rng, kind, (n, blocks)))


def point_pairs(rng: np.random.Generator, n: int, blocks: int, true: float) -> tuple[Floats, Floats]:
    """(baseline, candidate) proportions about .8 whose difference is `true` + .01·noise."""
    baseline = 0.8 + 0.01 * rng.standard_normal((n, blocks))
    return baseline, baseline + true + POINTS_SPREAD * rng.standard_normal((n, blocks))


def zero_pairs(rng: np.random.Generator, n: int, blocks: int, factor: float) -> tuple[Floats, Floats]:
    """(baseline, candidate) of which blocks collapse to 0 with chance .2 in either arm, at least one in an experiment;
    else about 3. The candidate is `factor` times a copy of the baseline, so candidate − factor·baseline has mean 0."""
    found: list[tuple[Floats, Floats]] = []
    while sum(len(b) for b, _ in found) < n:
        both = [
            np.where(rng.random((n, blocks)) < 0.2, 0.0, 3 + 0.3 * rng.standard_normal((n, blocks))) for _ in range(2)
        ]
        some = (both[0] == 0).any(axis=1) | (both[1] == 0).any(axis=1)
        found.append((both[0][some], factor * both[1][some]))
    return np.concatenate([b for b, _ in found])[:n], np.concatenate([c for _, c in found])[:n]

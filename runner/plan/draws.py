"""Random draws that are stable for good: a raw PCG64 bit stream for each purpose, and inverse transforms.

numpy promises the raw stream of a seeded bit generator, not what its distribution methods make of it; so only raw
64-bit
words are taken from it, and every distribution is an inverse transform written here. A stream is seeded with the
SHA-256 of the plan's seed and the purpose's name, so streams are independent, and adding one moves no other.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

_NORMAL = NormalDist()
#: prompt token ids lie in this range: past the special tokens that vocabularies begin with, within any of 30,000 words
TOKEN_ID_RANGE = (1000, 30000)


class Stream:
    """The random draws for one purpose, e.g. `Stream(7, "arrivals", 3, 1)`."""

    def __init__(self, seed: int, *purpose: object) -> None:
        name = "/".join([str(seed), *map(str, purpose)])
        state = int.from_bytes(hashlib.sha256(name.encode()).digest(), "big")
        self._bits = np.random.PCG64(state)

    def raw(self, n: int) -> npt.NDArray[np.uint64]:
        """n raw 64-bit words."""
        return np.asarray(self._bits.random_raw(n), dtype=np.uint64)

    def uniforms(self, n: int) -> list[float]:
        """n numbers strictly between 0 and 1 (53 bits, centred in their cells so that neither end occurs)."""
        return [(int(word >> np.uint64(11)) + 0.5) * 2.0**-53 for word in self.raw(n)]

    def exponential_ns(self, n: int, rate: float) -> list[int]:
        """n gaps of a Poisson process of `rate` per second, each rounded to whole nanoseconds."""
        return [round(-math.log(u) / rate * 1e9) for u in self.uniforms(n)]

    def gammas(self, shape: float) -> Iterator[float]:
        """Numbers of a gamma distribution with this shape and scale 1, without end: the rejection method of Marsaglia
        and Tsang ("A simple method for generating gamma variables", ACM TOMS 26, 2000), which needs but normal and
        uniform numbers; a shape below 1 by way of shape + 1."""
        d = (shape if shape >= 1 else shape + 1) - 1 / 3
        c = 1 / math.sqrt(9 * d)
        while True:
            x, u, w = self.normals(1)[0], self.uniforms(1)[0], self.uniforms(1)[0]
            v = (1 + c * x) ** 3
            if v > 0 and math.log(u) < 0.5 * x * x + d - d * v + d * math.log(v):
                yield d * v if shape >= 1 else d * v * w ** (1 / shape)

    def normals(self, n: int) -> list[float]:
        """n standard normal numbers."""
        return [_NORMAL.inv_cdf(u) for u in self.uniforms(n)]

    def token_ids(self, n: int) -> npt.NDArray[np.int32]:
        """n prompt token ids, uniform over TOKEN_ID_RANGE."""
        low, high = TOKEN_ID_RANGE
        # The high 32 bits scaled to the range: no modulo of low-quality bits, and a bias below 1e-5.
        words = self.raw(n) >> np.uint64(32)
        return (low + ((words * np.uint64(high - low)) >> np.uint64(32))).astype(np.int32)

    def shuffled(self, items: list[int]) -> list[int]:
        """A uniformly random order of the items (Fisher-Yates)."""
        order = list(items)
        for i, u in zip(range(len(order) - 1, 0, -1), self.uniforms(max(len(order) - 1, 0)), strict=True):
            j = int(u * (i + 1))
            order[i], order[j] = order[j], order[i]
        return order


def zipf_cumulative(n: int, exponent: float) -> list[float]:
    """Cumulative probabilities of ranks 1..n with weights rank**-exponent (exponent 0: uniform)."""
    weights = [rank**-exponent for rank in range(1, n + 1)]
    total = math.fsum(weights)
    cumulative, running = [], 0.0
    for weight in weights:
        running += weight / total
        cumulative.append(running)
    cumulative[-1] = 1.0
    return cumulative

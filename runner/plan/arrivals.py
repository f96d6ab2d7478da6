"""When requests arrive in an open loop: each process as offsets in ns, from the plan's own random streams. Pure.

A process has a mean rate, the load, and what is random about it. Gaps are rounded to whole ns and integers summed, so
that no machine differs. Rates that change with time keep the process Poisson by a change of clock: points of a Poisson
process of rate 1 on the axis of the expected number of arrivals are carried back to the axis of time (Cinlar,
"Introduction to Stochastic Processes", 1975). Nothing is stretched afterwards to make a count come out: where the
window is a time, the count is random.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

from .draws import Stream

Key = tuple[int, int, int]
_S = 1_000_000_000
_AT_A_TIME = 256


def offsets(arrivals: dict[str, Any], rate: float, window: dict[str, Any], key: Key) -> Iterator[int]:
    """Offsets of the arrivals from the cell's start, ns, without end. `rate` is the load in requests per second; `key`
    is (seed, block, load point)."""
    return _PROCESSES[arrivals["process"]](arrivals, rate, window, key)


def _poisson(_: dict[str, Any], rate: float, __: dict[str, Any], key: Key) -> Iterator[int]:
    return itertools.accumulate(_exponential_ns(key, rate))


def _constant(_: dict[str, Any], rate: float, __: dict[str, Any], ___: Key) -> Iterator[int]:
    return itertools.accumulate(itertools.repeat(round(_S / rate)))


def _gamma(arrivals: dict[str, Any], rate: float, window: dict[str, Any], key: Key) -> Iterator[int]:
    """Independent gaps of a gamma distribution with shape k = burstiness and mean 1/rate: their coefficient of
    variation is 1/sqrt(k)."""
    shape = arrivals["burstiness"]
    if shape == "infinite":
        return _constant(arrivals, rate, window, key)
    gaps = Stream(key[0], "arrivals", *key[1:]).gammas(shape)
    return itertools.accumulate(round(gap / (shape * rate) * _S) for gap in gaps)


def _bursts(arrivals: dict[str, Any], rate: float, _: dict[str, Any], key: Key) -> Iterator[int]:
    """`size` requests at once; the bursts are a Poisson process of rate / size."""
    size = arrivals["size"]
    for at in itertools.accumulate(_exponential_ns(key, rate / size)):
        yield from itertools.repeat(at, size)


def _ramp(arrivals: dict[str, Any], rate: float, window: dict[str, Any], key: Key) -> Iterator[int]:
    """Poisson, its rate in a straight line from `from` x load at the cell's start to the load at the window's end."""
    low: float = arrivals["from"]
    length: float = sum(window[part]["seconds"] for part in ("warmup", "measure"))
    whole = rate * length * (low + 1) / 2  # expected arrivals until the ramp has reached the load

    def when(expected: float) -> float:
        """The time, s, by which so many arrivals are expected on the ramp."""
        if expected >= whole:
            return length + (expected - whole) / rate
        # The smaller root of rate (low t + (1 - low) t^2 / (2 length)) = expected, in the form that loses no digits.
        slope = (1 - low) / length
        return 2 * expected / rate / (low + math.sqrt(low * low + 2 * slope * expected / rate))

    return _clocked(when, key)


def _profile(arrivals: dict[str, Any], rate: float, _: dict[str, Any], key: Key) -> Iterator[int]:
    """Poisson, its rate level after level in equal parts of `period`, over and over: load x level (their mean is
    1)."""
    levels: list[float] = arrivals["levels"]
    period: float = arrivals["period"]
    part = period / len(levels)
    reached = [0.0, *itertools.accumulate(rate * level * part for level in levels)]

    def when(expected: float) -> float:
        """The time, s, by which so many arrivals are expected on the profile."""
        rounds, left = divmod(expected, reached[-1])
        step = next(i for i, level in enumerate(levels) if level and left <= reached[i + 1])
        return rounds * period + step * part + (left - reached[step]) / (rate * levels[step])

    return _clocked(when, key)


def _clocked(when: Callable[[float], float], key: Key) -> Iterator[int]:
    """Points of a Poisson process of rate 1, carried to the time at which so many arrivals are expected."""
    return (round(when(point / _S) * _S) for point in itertools.accumulate(_exponential_ns(key, 1.0)))


def _exponential_ns(key: Key, rate: float) -> Iterator[int]:
    stream = Stream(key[0], "arrivals", *key[1:])
    while True:
        yield from stream.exponential_ns(_AT_A_TIME, rate)


_PROCESSES: dict[str, Callable[[dict[str, Any], float, dict[str, Any], Key], Iterator[int]]] = {
    "poisson": _poisson,
    "constant": _constant,
    "gamma": _gamma,
    "bursts": _bursts,
    "ramp": _ramp,
    "profile": _profile,
}

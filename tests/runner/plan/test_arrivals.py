"""Arrival processes: each has the distribution it is named for, its mean rate, and is the same for good."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from benchcard.runner.plan.arrivals import offsets
from benchcard.runner.plan.draws import Stream
from benchcard.runner.plan.requests import plan_requests
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

WINDOW = {"warmup": {"seconds": 20.0}, "measure": {"seconds": 180.0}, "drain": 10.0}
FIXED = {"median": 8, "sigma": 0.0}


def arrive(arrivals: dict[str, Any], rate: float = 50.0, n: int = 20000, seed: int = 1) -> npt.NDArray[np.float64]:
    """The first n offsets in s."""
    return np.array(list(islice(offsets(arrivals, rate, WINDOW, (seed, 1, 1)), n))) / 1e9


@pytest.mark.parametrize("shape", [0.1, 0.5, 1.0, 2.5, 40.0])
def test_gamma_numbers_are_gamma(shape: float) -> None:
    numbers = list(islice(Stream(3, "gamma", shape).gammas(shape), 20000))
    assert stats.kstest(numbers, "gamma", args=(shape,)).pvalue > 0.01


@pytest.mark.parametrize("burstiness", [0.5, 1.0, 4.0])
def test_gamma_arrivals(burstiness: float) -> None:
    """The coefficient of variation of the gaps is 1/sqrt(burstiness), their mean 1/rate, and they are independent."""
    gaps = np.diff(arrive({"process": "gamma", "burstiness": burstiness}))
    assert stats.kstest(gaps, "gamma", args=(burstiness, 0, 1 / (burstiness * 50))).pvalue > 0.01
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 2.58 / np.sqrt(len(gaps))


def test_bursts() -> None:
    """Sixteen at once; the bursts are Poisson at a sixteenth of the rate."""
    times = arrive({"process": "bursts", "size": 16}, n=16 * 5000)
    starts, sizes = np.unique(times, return_counts=True)
    assert set(sizes) == {16}
    assert stats.kstest(np.diff(starts), "expon", args=(0, 16 / 50)).pvalue > 0.01
    assert len(times) / times[-1] == pytest.approx(50, rel=0.05)


def test_a_ramp() -> None:
    """From a fifth of the load to the load within 200 s, then the load: on the clock of expected arrivals it is
    Poisson with rate 1."""
    low, rate, length = 0.2, 50.0, 200.0
    times = arrive({"process": "ramp", "from": low}, rate)

    def expected(t: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        rising = rate * (low * t + (1 - low) * t**2 / (2 * length))
        whole = rate * length * (1 + low) / 2
        return np.where(t < length, rising, whole + rate * (t - length))

    assert stats.kstest(np.diff(expected(times)), "expon").pvalue > 0.01
    # 50 req/s x 200 s x 0.6 = 6000 expected on the ramp, with a standard deviation of 77
    assert abs((times < length).sum() - 6000) < 3 * 77.5
    assert times[-1] > length


def test_a_profile() -> None:
    """Half the load, none of it, two and a half times the load: 10 s each, over and over."""
    levels, period, rate = [0.5, 0.0, 2.5], 30.0, 50.0
    times = arrive({"process": "profile", "levels": levels, "period": period}, rate)
    part = ((times % period) // 10).astype(int)
    assert set(part) == {0, 2}
    rounds = times[-1] / period
    for index, level in ((0, 0.5), (2, 2.5)):
        mean = level * rate * 10 * rounds
        assert abs((part == index).sum() - mean) < 4 * np.sqrt(mean) + level * rate * 10
    inside = times % period - part * 10
    within = np.floor(times / period) * 1500 + np.where(part == 0, inside * 25, 250 + inside * 125)
    assert stats.kstest(np.diff(within), "expon").pvalue > 0.01


KEYS: dict[str, dict[str, Any]] = {
    "poisson": {}, "constant": {}, "gamma": {"burstiness": 0.5}, "bursts": {"size": 2}, "ramp": {"from": 0.2},
    "profile": {"levels": [0.5, 1.5], "period": 10.0},
}  # fmt: skip


@pytest.mark.parametrize("process", KEYS)
@given(seed=st.integers(0, 2**53 - 1), rate=st.floats(0.01, 5000))
def test_offsets_are_a_pure_function_and_never_go_back(process: str, seed: int, rate: float) -> None:
    arrivals = {"process": process} | KEYS[process]
    one, two = (list(islice(offsets(arrivals, rate, WINDOW, (seed, 2, 1)), 40)) for _ in range(2))
    assert one == two
    assert all(type(at) is int for at in one)
    assert one == sorted(one)
    assert one[0] >= 0


def test_they_stay_what_they_are() -> None:
    """Written down once: old plans must come out the same. (The ramp's first by hand: 0.50606 expected arrivals at 50
    req/s from a fifth of it: t = 2 x 0.0101212 / (0.2 + sqrt(0.04 + 2 x 0.8 / 200 x 0.0101212)) = 0.05058 s.)"""
    first = {
        process: list(islice(offsets({"process": process} | keys, 50.0, WINDOW, (1, 1, 1)), 3))
        for process, keys in KEYS.items()
    }
    assert first == {
        "poisson": [10121199, 20417220, 37005863],
        "constant": [20000000, 40000000, 60000000],
        "gamma": [11205131, 37618391, 38454197],
        "bursts": [20242397, 20242397, 40834439],
        "ramp": [50580409, 101982094, 184688213],
        "profile": [20242397, 40834439, 74011724],
    }


@pytest.mark.parametrize(("n_expected", "window"), [(None, WINDOW), (500, WINDOW | {"measure": {"requests": 500}})])
def test_what_is_fixed_and_what_is_random(n_expected: int | None, window: dict[str, Any]) -> None:
    """A window by time holds a random number of requests (Poisson: variance = mean); one by count a fixed one."""
    workload = {
        "arrivals": {"process": "poisson"}, "load_kind": "rate", "loads": [2.0], "window": window,
        "requests": {"lengths": {"input": FIXED, "output": FIXED, "correlation": 0.0}, "prefix": None},
    }  # fmt: skip
    counts = [
        sum(request.phase == "measure" for request in plan_requests({"workload": workload}, 5, block, 1))
        for block in range(1, 41)
    ]
    if n_expected is None:
        low, high = stats.chi2.ppf([0.005, 0.995], 39) / 39
        assert low < np.var(counts, ddof=1) / np.mean(counts) < high
        assert abs(np.mean(counts) - 360) < 3 * np.sqrt(360 / 40)
    else:
        assert set(counts) == {500}

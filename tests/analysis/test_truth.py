"""Does the analysis tell the truth? Thousands of synthetic experiments through the real code, fixed seeds.

Error bars are three binomial standard deviations of the number of experiments.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from benchcard.analysis.effect import paired
from benchcard.analysis.guards import guard
from benchcard.analysis.power import power

Floats = npt.NDArray[np.float64]
SPREAD = 0.03


def arms(d: Floats) -> tuple[list[float], list[float]]:
    return [1.0] * len(d), np.exp(d).tolist()


def three_sigma(p: float, n: int) -> float:
    return 3 * math.sqrt(p * (1 - p) / n)


@pytest.mark.parametrize("blocks", [6, 8, 16])
def test_the_interval_covers_and_the_threshold_is_not_passed_by_chance(blocks: int) -> None:
    n = 400 if blocks == 16 else 2000  # 2^16 sign assignments each
    random = np.random.default_rng(blocks)
    truth = math.log(1.05)
    covered = supported = 0
    for d in random.normal(truth, SPREAD, size=(n, blocks)):
        effect = paired(*arms(d), value=0.05, relative=True, direction="must_rise_by")
        assert effect.lower is not None
        assert effect.upper is not None
        covered += effect.lower <= truth <= effect.upper
        supported += effect.word == "supported"
    assert abs(covered / n - 0.95) <= three_sigma(0.95, n)
    assert supported / n <= 0.025 + three_sigma(0.025, n)


def test_two_equal_arms() -> None:
    n, random = 2000, np.random.default_rng(1)
    excluded = rises = 0
    for d in random.normal(0.0, SPREAD, size=(n, 8)):
        effect = paired(*arms(d), value=0.02, relative=True, direction="must_rise_by")
        assert effect.lower is not None
        assert effect.upper is not None
        excluded += not effect.lower <= 0 <= effect.upper
        rises += effect.word == "supported"
    assert excluded / n <= 0.05 + three_sigma(0.05, n)
    assert rises / n <= 0.005


@pytest.mark.parametrize("blocks", [8, 11])
def test_power_is_what_it_is_said_to_be(blocks: int) -> None:
    n, random = 1500, np.random.default_rng(blocks)
    found = sum(
        paired(*arms(d), value=0.05, relative=True, direction="must_rise_by").word == "supported"
        for d in random.normal(math.log(1.08), SPREAD, size=(n, blocks))
    )
    assert found / n == pytest.approx(power(math.log(1.08 / 1.05), SPREAD, blocks), abs=0.04)


def test_a_guard_at_its_margin_passes_one_time_in_twenty() -> None:
    n, random = 2000, np.random.default_rng(5)
    passed = sum(
        guard(*arms(d), margin=0.03, relative=True, direction="may_rise_by").word == "pass"
        for d in random.normal(math.log(1.03), SPREAD, size=(n, 8))
    )
    assert abs(passed / n - 0.05) <= three_sigma(0.05, n)


def test_case_56_samples_within_a_run_are_not_independent() -> None:
    """A/A: 6 runs an arm, run means N(100, 10), 1,000 requests N(run, 1) each. The block is the unit, so about 5% of
    the intervals exclude zero; taking the requests for independent would be wrong almost always."""
    n, random = 600, np.random.default_rng(56)
    alarms = naive = 0
    for _ in range(n):
        runs = random.normal(100, 10, size=(2, 6))
        requests = random.normal(runs[:, :, None], 1.0, size=(2, 6, 1000))
        means = requests.mean(axis=2)
        effect = paired(means[0].tolist(), means[1].tolist(), value=0.05, relative=True, direction="must_rise_by")
        assert effect.lower is not None
        assert effect.upper is not None
        alarms += not effect.lower <= 0 <= effect.upper
        pooled = requests.reshape(2, -1)
        error = math.sqrt(pooled[0].var(ddof=1) / 6000 + pooled[1].var(ddof=1) / 6000)
        naive += abs(pooled[1].mean() - pooled[0].mean()) > 1.96 * error
    assert alarms / n <= 0.05 + three_sigma(0.05, n)
    assert naive / n > 0.9


def test_case_56_an_advantage_of_running_first_cancels_under_random_order() -> None:
    n, random = 1000, np.random.default_rng(57)
    means, supported = [], 0
    for _ in range(n):
        runs = random.normal(100, 1, size=(2, 8))
        first = random.integers(0, 2, size=8)
        runs[first, np.arange(8)] *= 1.05
        effect = paired(runs[0].tolist(), runs[1].tolist(), value=0.05, relative=True, direction="must_rise_by")
        means.append(effect.mean)
        supported += effect.word == "supported"
    assert np.mean(means) == pytest.approx(0.0, abs=0.002)
    assert supported / n <= 0.025

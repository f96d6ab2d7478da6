"""Casebook 56: samples within a run are not independent, and the arm that runs first must gain nothing by it."""

from __future__ import annotations

import numpy as np
import pytest
from benchcard.analysis.effect import t_interval

from ..calibration import casebook
from ..calibration.draws import stream


def test_56_the_block_is_the_unit() -> None:
    """A/A: 6 runs an arm, run means N(100, 10), 1,000 requests N(run, 1) each: about 5% false alarms, not 95%."""
    blocks, pooled = casebook.false_alarms(2000)
    assert blocks.holds
    assert blocks.observed > 0.03
    assert pooled.observed == pytest.approx(0.95, abs=0.02)


def test_56_drawn_sums_are_those_of_drawn_requests() -> None:
    """Mean and variance of a run's requests, drawn directly, are distributed as those of 1,000 drawn one by one."""
    rng = np.random.default_rng(5)
    requests = rng.normal(0, 1, (3000, casebook.REQUESTS))
    means, variances = casebook.runs(stream("sums"), 250)
    assert variances.mean() == pytest.approx(requests.var(axis=1, ddof=1).mean(), abs=0.005)
    assert variances.std() == pytest.approx(requests.var(axis=1, ddof=1).std(), rel=0.08)
    assert means.std() == pytest.approx((100 + 1 / casebook.REQUESTS) ** 0.5, rel=0.05)


def test_56_a_gain_for_whichever_runs_first_cancels_in_the_planned_order() -> None:
    """Over 2,000 plans the candidate runs first in half of the blocks; 5% for whoever does leaves the mean at 0."""
    first = np.array([casebook.first_runs(seed, 6) for seed in range(2000)])
    assert first.mean() == pytest.approx(0.5, abs=4 * 0.5 / first.size**0.5)
    d = np.where(first, np.log(1.05), -np.log(1.05)).mean(axis=1)
    _, _, lower, upper = t_interval(d, 0.99)
    assert lower < 0 < upper
    randomized, fixed, *_ = casebook.order_rows(2000)
    assert randomized.holds
    assert fixed.observed > 0.08

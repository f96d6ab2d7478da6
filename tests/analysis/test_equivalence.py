"""Bounds on equivalent work, against the oracles of the methods and scipy's own intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchcard.analysis.equivalence import discordant, mean_of_items, no_event_bound, ratio_of_means, tost
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

AA = [0.004, -0.011, 0.007, 0.002, -0.006, 0.009, -0.003, 0.001]


def test_discordant_pairs() -> None:
    found = discordant(9, 5, 500)
    assert found.upper == pytest.approx(0.020645, abs=5e-7)
    assert found.observed == 4 / 500
    # the other side is the mirror image of the counts exchanged
    assert discordant(5, 9, 500).lower == pytest.approx(-0.020645, abs=5e-7)


def test_no_discordant_pair_has_the_exact_bound() -> None:
    assert [no_event_bound(n) < 0.01 for n in (298, 299)] == [False, True]
    assert discordant(0, 0, 299).upper == pytest.approx(1 - 0.05 ** (1 / 299))
    # Clopper–Pearson's bound as scipy has it
    exact = stats.binomtest(0, 40, alternative="less").proportion_ci(0.95, method="exact").high
    assert no_event_bound(40) == pytest.approx(exact)
    assert no_event_bound(0) == 1.0


def test_a_task_metric_paired_per_item() -> None:
    d = np.repeat([-1.0, 1.0, 0.0], [26, 18, 956])
    found = mean_of_items(d)
    assert found.observed == pytest.approx(-0.008)
    assert found.lower == pytest.approx(-0.01892, abs=5e-6)


def test_equivalence_of_a_mean() -> None:
    assert tost(AA, -math.log(1.01), math.log(1.01)) == pytest.approx(0.00249, abs=5e-6)
    # the larger of scipy's two one-sided tests, also off centre
    below = stats.ttest_1samp(AA, 0.01, alternative="less").pvalue
    above = stats.ttest_1samp(AA, -0.002, alternative="greater").pvalue
    assert tost(AA, -0.002, 0.01) == pytest.approx(max(below, above))


def test_equivalence_that_cannot_be_tested() -> None:
    assert tost([0.1], -1, 1) is None
    assert tost([0.1, 0.1, 0.1], -1, 1) is None


def test_a_ratio_of_means_has_the_bounds_at_which_one_sided_tests_turn() -> None:
    rng = np.random.default_rng(3)
    x = rng.gamma(4, 20, 200)
    y = 1.03 * x + rng.normal(0, 8, 200)
    found = ratio_of_means(x, y)
    assert found is not None
    assert found.observed == pytest.approx(y.mean() / x.mean() - 1)
    for bound, side in ((found.lower, "greater"), (found.upper, "less")):
        assert stats.ttest_1samp(y - (1 + bound) * x, 0, alternative=side).pvalue == pytest.approx(0.05)


def test_a_ratio_over_a_mean_that_may_be_zero_does_not_exist() -> None:
    assert ratio_of_means(np.array([1.0, -1, 2, -2, 0.5]), np.ones(5)) is None
    assert ratio_of_means(np.zeros(5), np.ones(5)) is None


def test_equal_items_are_equivalent_without_spread() -> None:
    x = np.arange(1.0, 41.0)
    found = ratio_of_means(x, x)
    assert found is not None
    assert (found.lower, found.observed, found.upper) == pytest.approx((0, 0, 0), abs=1e-7)


@given(st.integers(1, 2000), st.data())
def test_bounds_hold_what_was_seen_and_are_finite(n: int, data: st.DataObject) -> None:
    b = data.draw(st.integers(0, n))
    c = data.draw(st.integers(0, n - b))
    found = discordant(b, c, n)
    assert all(math.isfinite(x) for x in (found.lower, found.observed, found.upper))
    assert found.lower < (b - c) / (n + 2) + 1e-12
    assert found.upper > (b - c) / (n + 2) - 1e-12

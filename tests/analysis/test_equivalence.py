"""Bounds on equivalent work, against the oracles of the methods and scipy's own intervals."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from benchcard.analysis.equivalence import (
    Bounds,
    discordant,
    event_bound,
    mean_of_items,
    no_event_bound,
    ratio_of_means,
    tost,
)
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


def test_pairs_that_are_discordant_in_one_direction_have_the_exact_bound() -> None:
    """An A/A that never diverges is the usual case: then the share is compared with nothing that varies."""
    # Agresti and Min: 2/502 + 1.6449·√(3 − 4/502)/502 = .00965, below 1%; Clopper and Pearson: 1.25%
    assert discordant(2, 0, 500).upper == pytest.approx(0.01254, abs=5e-6)
    for events, n in ((1, 40), (2, 500), (39, 40), (40, 40)):
        exact = stats.binomtest(events, n, alternative="less").proportion_ci(0.95, method="exact").high
        assert event_bound(events, n) == pytest.approx(exact)
        assert discordant(events, 0, n).upper >= exact * (1 - 1e-9)
        assert discordant(0, events, n).lower <= -exact * (1 - 1e-9)


def test_one_lost_item_is_no_better_than_none() -> None:
    none, one = (mean_of_items(np.repeat([-1.0, 0.0], [lost, 100 - lost])) for lost in (0, 1))
    assert one.lower < none.lower < -0.029


def _passes_at_the_limit(bound: Callable[[int, int], float], n: int, limit: float, also: float) -> float:
    """The chance of a pass where the true difference is the limit, and so many more pairs differ either way: summed
    over all counts that pass, by the multinomial distribution."""
    found = 0.0
    for b in range(60):
        for c in range(min(20, n - b)):
            if bound(b, c) < limit:
                p = (limit + also, also, 1 - limit - 2 * also)
                found += float(stats.multinomial.pmf((b, c, n - b - c), n, p))
    return found


@pytest.mark.parametrize("also", [0.0, 0.002, 0.01])
@pytest.mark.parametrize(("n", "limit"), [(100, 0.03), (100, 0.05), (500, 0.01), (500, 0.02)])
def test_a_pass_at_the_limit_is_as_rare_as_it_is_said_to_be(n: int, limit: float, also: float) -> None:
    """5%, and 3 points for counts that are whole: without the exact bound 12%, by a t interval alone 19.5%."""

    def mean(b: int, c: int) -> Bounds:
        return mean_of_items(np.repeat([-1.0, 1.0, 0.0], [b, c, n - b - c]))

    assert _passes_at_the_limit(lambda b, c: discordant(b, c, n).upper, n, limit, also) <= 0.08
    assert _passes_at_the_limit(lambda b, c: -mean(b, c).lower, n, limit, also) <= 0.08


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

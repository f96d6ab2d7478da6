"""The effect, its word and its companions, against the oracles of the methods (numpy and scipy, computed apart)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchcard.analysis.effect import (
    Effect,
    bonferroni_interval,
    holm,
    paired,
    t_interval,
    t_quantile,
)
from benchcard.analysis.signflip import sign_flip_interval, sign_flip_p

A = [10, 10.2, 9.9, 10.1, 9.8, 10.05, 10.15, 9.95]
B = [11.1, 11.05, 10.95, 11.3, 10.6, 11.2, 11, 11.05]


def rise(value: float, baseline: list[float] = A, candidate: list[float] = B, *, relative: bool = True) -> Effect:
    return paired(baseline, candidate, value=value, relative=relative, direction="must_rise_by")


def test_the_worked_example() -> None:
    effect = rise(0.05)
    assert effect.scale == "log"
    assert effect.mean == pytest.approx(0.0961959, abs=5e-8)
    assert effect.stdev == pytest.approx(0.0141048, abs=5e-8)
    assert math.exp(effect.mean) == pytest.approx(1.10097, abs=5e-6)
    assert (effect.lower, effect.upper) == pytest.approx((0.0844039, 0.1079878), abs=5e-8)
    assert (math.exp(effect.lower or 0), math.exp(effect.upper or 0)) == pytest.approx((1.08807, 1.11403), abs=5e-6)
    assert effect.sign_flip_interval == pytest.approx((0.0802321, 0.1083228), abs=5e-8)
    assert effect.flags == ()


def test_a_threshold_below_the_interval_is_supported() -> None:
    effect = rise(0.05)
    assert effect.word == "supported"
    assert effect.t == pytest.approx(9.5062, abs=5e-5)
    assert effect.p == pytest.approx(1.492e-5, abs=5e-9)
    assert effect.sign_flip_p == 1 / 256


def test_a_threshold_inside_the_interval_is_inconclusive() -> None:
    effect = rise(0.10)
    assert (effect.word, effect.sign_flip_p) == ("inconclusive", 113 / 256)


def test_a_threshold_above_the_interval_is_falsified_although_there_is_an_effect() -> None:
    effect = rise(0.12)
    assert effect.word == "falsified"
    assert effect.lower is not None
    assert effect.lower > 0


def test_must_fall_by_is_the_mirror_image() -> None:
    # −9.2% (1/1.101 − 1) against falls of 5%, 9% and 15%
    words = [paired(B, A, value=v, relative=True, direction="must_fall_by") for v in (0.05, 0.09, 0.15)]
    assert [effect.word for effect in words] == ["supported", "inconclusive", "falsified"]
    assert words[0].threshold == pytest.approx(math.log(0.95))
    assert words[0].sign_flip_p == 1 / 256


def test_points_use_plain_differences() -> None:
    baseline, candidate = [0.90, 0.91, 0.89, 0.90, 0.92, 0.90], [0.95, 0.95, 0.95, 0.94, 0.96, 0.96]
    effect = rise(0.01, baseline, candidate, relative=False)
    assert (effect.scale, effect.threshold, effect.word) == ("difference", 0.01, "supported")
    assert effect.mean == pytest.approx(0.29 / 6)
    fall = paired(candidate, baseline, value=0.01, relative=False, direction="must_fall_by")
    assert (fall.threshold, fall.word) == (-0.01, "supported")


def test_a_zero_in_one_block_scales_all_blocks_and_drops_none() -> None:
    effect = rise(0.05, [0.0, *A[1:]], B)
    assert effect.scale == "scaled"
    assert effect.threshold == 0
    assert effect.d == pytest.approx([c - 1.05 * b for b, c in zip([0.0, *A[1:]], B, strict=True)])
    assert effect.word == "inconclusive"  # one wild block: the interval reaches below zero
    fall = paired(
        [4.0] * 8, [0.0, 0.1, 0.0, 0.2, 0.0, 0.1, 0.0, 0.0], value=0.5, relative=True, direction="must_fall_by"
    )
    assert (fall.scale, fall.d[1], fall.word) == ("scaled", pytest.approx(0.1 - 2.0), "supported")


def test_nothing_good_in_either_arm_is_inconclusive() -> None:
    effect = rise(0.05, [0.0] * 8, [0.0] * 8)
    assert (effect.scale, effect.word, effect.flags) == ("scaled", "inconclusive", ("degenerate",))


@pytest.mark.parametrize(("value", "word"), [(0.05, "supported"), (0.15, "falsified")])
def test_without_spread_the_sign_decides(value: float, word: str) -> None:
    effect = rise(value, [10.0] * 8, [11.0] * 8)
    assert (effect.word, effect.flags, effect.stdev, effect.t, effect.p) == (word, ("degenerate",), 0.0, None, None)


def test_one_block_has_no_interval_and_no_word() -> None:
    effect = rise(0.05, [10.0], [20.0])
    assert (effect.word, effect.stdev, effect.lower, effect.flags) == ("inconclusive", None, None, ("few_blocks",))
    assert effect.mean == pytest.approx(math.log(2))


def test_fewer_than_six_blocks_support_nothing() -> None:
    effect = rise(0.05, A[:5], B[:5])
    assert effect.word == "inconclusive"
    assert "few_blocks" in effect.flags
    assert effect.sign_flip_interval is None  # 1/32 > .025: no threshold can be rejected
    assert rise(0.05, A[:6], B[:6]).word == "supported"


def test_where_the_two_tests_disagree_the_flag_is_fragile() -> None:
    # one large block: the t interval reaches below the threshold of 0, every sign assignment but one lies lower
    d = [0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.30]
    effect = rise(0.0, [1.0] * 8, [math.exp(x) for x in d])
    assert effect.sign_flip_p == 1 / 256
    assert effect.word == "inconclusive"
    assert effect.flags == ("fragile", "one_block")


def test_an_effect_that_one_block_drives_is_flagged_and_keeps_its_word() -> None:
    # without .30 the others have mean .025, s .0170783, standard error .0064550 (7 blocks); the mean moves by .034375
    d = [0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.025, 0.30]
    effect = rise(0.0, [1.0] * 8, [math.exp(x) for x in d])
    assert "one_block" in effect.flags
    # with .12 it moves by .011875, less than two standard errors
    calm = rise(0.0, [1.0] * 8, [math.exp(x) for x in [*d[:-1], 0.12]])
    assert "one_block" not in calm.flags
    assert calm.word == "supported"
    # the mirror image has the same flag: the rule knows no direction
    assert "one_block" in rise(0.0, [math.exp(x) for x in d], [1.0] * 8).flags


def test_the_sign_flip_test_by_brute_force() -> None:
    d = np.array([0.4, -0.1, 0.25, 0.3, 0.05, 0.2, -0.02])
    for threshold in (0.0, 0.1, 0.2):
        x = d - threshold
        sums = [sum(v if bits >> i & 1 else -v for i, v in enumerate(x)) for bits in range(2**7)]
        assert sign_flip_p(d, threshold, up=True) == np.mean([s >= x.sum() - 1e-12 for s in sums])
        assert sign_flip_p(d, threshold, up=False) == np.mean([s <= x.sum() + 1e-12 for s in sums])


def test_the_sign_flip_interval_is_what_the_test_does_not_reject() -> None:
    d = np.log(np.array(B) / np.array(A))
    bounds = sign_flip_interval(d, 0.025)
    assert bounds is not None
    lower, upper = bounds
    assert sign_flip_p(d, lower - 1e-6, up=True) <= 0.025 < sign_flip_p(d, lower + 1e-6, up=True)
    assert sign_flip_p(d, upper + 1e-6, up=False) <= 0.025 < sign_flip_p(d, upper - 1e-6, up=False)


def test_beyond_sixteen_blocks_the_sign_flip_test_samples_with_a_fixed_seed() -> None:
    d = np.linspace(-0.05, 0.15, 20)
    signs = np.random.default_rng(1).choice([-1.0, 1.0], size=(200_000, 20))
    for threshold in (0.02, 0.03, 0.04):
        exact = np.mean(signs @ (d - threshold) >= (d - threshold).sum() - 1e-12)
        assert sign_flip_p(d, threshold, up=True) == pytest.approx(exact, abs=0.005)
    bounds, (_, _, lower, upper) = sign_flip_interval(d, 0.025), t_interval(d, 0.95)
    assert bounds == pytest.approx((lower, upper), abs=0.003)


def test_several_loads() -> None:
    assert holm([0.001, 0.02, 0.03, 0.2]) == pytest.approx([0.004, 0.06, 0.06, 0.2])
    assert holm([0.2, 0.001]) == pytest.approx([0.2, 0.002])
    assert t_quantile(1 - 0.025 / 3, 7) == pytest.approx(3.12755, abs=5e-6)
    d = np.log(np.array(B) / np.array(A))
    half = 3.12755 * 0.0141048 / math.sqrt(8)
    assert bonferroni_interval(d, 3) == pytest.approx((0.0961959 - half, 0.0961959 + half), abs=5e-7)


def test_the_aa_example() -> None:
    mean, stdev, _, upper = t_interval(np.array([0.004, -0.011, 0.007, 0.002, -0.006, 0.009, -0.003, 0.001]), 0.95)
    assert stdev == pytest.approx(0.0067175, abs=5e-8)
    assert upper - mean == pytest.approx(0.0056160, abs=5e-8)

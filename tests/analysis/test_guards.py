"""Guards, against the oracle of the methods."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from benchcard.analysis.guards import GuardResult, adjust, guard

G = [0.006, -0.002, 0.011, 0.004, 0.0, 0.009, 0.003, 0.001]


def judge(g: list[float], margin: float, direction: str = "may_rise_by") -> GuardResult:
    return guard([1.0] * len(g), [math.exp(x) for x in g], margin=margin, relative=True, direction=direction)


def test_within_the_margin() -> None:
    result = judge(G, 0.01)
    assert result.bound == pytest.approx(0.0069956, abs=5e-8)
    assert result.p == pytest.approx(0.003522, abs=5e-7)
    assert result.word == "pass"


def test_across_the_margin() -> None:
    result = judge(G, 0.005)
    assert result.p == pytest.approx(0.276, abs=5e-4)
    assert result.word == "indeterminate"


def test_beyond_the_margin() -> None:
    assert judge([g + 0.02 for g in G], 0.01).word == "regressed"


def test_may_fall_by_is_the_mirror_image() -> None:
    # ln(1 − m) is a little further out than −ln(1 + m), so the words are compared, not the p values
    mirrored = [-g for g in G]
    assert judge(mirrored, 0.01, "may_fall_by").bound == pytest.approx(-0.0069956, abs=5e-8)
    words = [judge(mirrored, 0.01, "may_fall_by").word, judge([g - 0.02 for g in mirrored], 0.01, "may_fall_by").word]
    assert words == ["pass", "regressed"]


def test_points() -> None:
    errors = [0.0, 0.002, 0.0, 0.001, 0.0, 0.0, 0.001, 0.0]
    result = guard([0.0] * 8, errors, margin=0.005, relative=False, direction="may_rise_by")
    assert (result.scale, result.word) == ("difference", "pass")


@pytest.mark.parametrize(("candidate", "word"), [(0.0, "pass"), (0.004, "pass"), (0.005, "pass"), (0.02, "regressed")])
def test_every_block_the_same(candidate: float, word: str) -> None:
    result = guard([0.0] * 8, [candidate] * 8, margin=0.005, relative=False, direction="may_rise_by")
    assert (result.word, result.p) == (word, None)


def test_zero_errors_in_both_arms_have_not_risen() -> None:
    result = guard([0.0] * 8, [0.0] * 8, margin=0.05, relative=True, direction="may_rise_by")
    assert (result.scale, result.word) == ("scaled", "pass")


def test_fewer_than_five_blocks_carry_no_guard() -> None:
    result = judge(G[:4], 0.5)
    assert (result.word, result.reason) == ("indeterminate", "4 blocks; a guard needs 5")


def test_any_regressed_guard_must_survive_holm() -> None:
    barely = judge([g + 0.00915 for g in G], 0.01)  # alone beyond the margin, p between .025 and .05
    assert barely.word == "regressed"
    assert barely.p_regressed is not None
    assert 0.025 < barely.p_regressed < 0.05
    passed = judge(G, 0.01)
    alone, together = adjust([barely]), adjust([barely, passed])
    assert alone[0].word == "regressed"
    assert together[0].word == "indeterminate"
    assert together[0].reason == "beyond its margin alone, but not among 2 guards together (Holm)"
    assert together[1] == passed
    clear = replace(barely, p_regressed=1e-6)
    assert adjust([clear, passed])[0].word == "regressed"

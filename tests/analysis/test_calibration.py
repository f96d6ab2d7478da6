"""The calibration in small: some hundreds of experiments a row, so that a broken interval is noticed at once. `make
calibration` runs the thousands."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from benchcard.analysis import effect as effect_module

from ..calibration import effects, guards, verdicts
from ..calibration.draws import Claim, log_pairs, point_pairs, stream, zero_pairs
from ..calibration.table import Row, at_most, markdown, parsed, within

N = 1500
# a range without allowance is for thousands; here it is widened by what so few may stray (4 standard errors)
STRAY = 4 * (0.05 * 0.95 / N) ** 0.5


def held(rows: list[Row]) -> None:
    assert rows
    for row in rows:
        wide = row if row.low is None else dataclasses.replace(row, low=row.low - STRAY, high=row.high + STRAY)
        assert wide.holds, f"{row.group}: {row.what}: {row.observed:.3f}"


@pytest.mark.parametrize(("scale", "blocks"), [("ratio", 6), ("ratio", 8), ("points", 6), ("zero blocks", 6)])
def test_at_the_threshold_no_word_is_said_too_often(scale: str, blocks: int) -> None:
    for claim in effects.CLAIMS[scale]:
        held(effects.at_threshold(scale, claim, blocks, N))


def test_equal_arms_and_guards_at_their_margin() -> None:
    held(effects.same_system(8, N))
    held(guards.at_margin(Claim(0.03, True, "may_rise_by"), 6, N))
    held(verdicts.several(200, 6))
    held(verdicts.guarded(200, 6))


@pytest.mark.parametrize("setting", effects.POWERS[:1])
def test_power_is_what_the_plan_promises(setting: tuple[float, float, float, int]) -> None:
    (row,) = effects.detects(*setting, N)
    assert row.observed == pytest.approx((row.high + (row.low or 0)) / 2, abs=4 * (0.25 / N) ** 0.5)


def test_a_normal_quantile_in_place_of_t_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its interval covers 89% over 6 blocks."""
    monkeypatch.setattr(effect_module, "t_quantile", lambda p, df: {0.975: 1.959964}[round(p, 3)])
    rows = effects.at_threshold("ratio", effects.CLAIMS["ratio"][0], 6, N)
    for row in rows:
        with pytest.raises(AssertionError):
            held([row])


def test_the_experiments_have_the_truth_that_they_say() -> None:
    n = 4000
    b, c = log_pairs(stream("t"), n, 8, 0.05)
    assert np.log(c / b).mean() == pytest.approx(0.05, abs=5 * 0.03 / (8 * n) ** 0.5)
    assert np.log(c / b).std() == pytest.approx(0.03, rel=0.03)
    b, c = point_pairs(stream("t"), n, 8, -0.02)
    assert (c - b).mean() == pytest.approx(-0.02, abs=5 * 0.01 / (8 * n) ** 0.5)
    b, c = zero_pairs(stream("t"), n, 8, 1.05)
    assert (c - 1.05 * b).mean() == pytest.approx(0, abs=5 * 1.8 / (8 * n) ** 0.5)
    assert ((b == 0) | (c == 0)).any(axis=1).all()


def test_a_row_holds_within_its_allowance_and_no_further() -> None:
    # the binomial's P(X ≥ 93 | 2,500, .025) = 1.53e-4, P(X ≥ 94) = 0.99e-4
    assert [at_most("g", "w", count, 2500, 0.025).holds for count in (0, 62, 93, 94)] == [True, True, True, False]
    assert [within("g", "w", count, 1000, 0.93, 0.97).holds for count in (929, 930, 970, 971)] == [
        False,
        True,
        True,
        False,
    ]


def test_the_table_can_be_read_again() -> None:
    rows = [at_most("one", "a, b: c", 3, 1000, 0.025), within("two", "d", 955, 1000, 0.93, 0.97)]
    assert parsed(markdown(rows)) == rows

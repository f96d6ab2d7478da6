"""Steady state over blocks: what a load's drifts make of the verdict, its conditions and its rows.

TTFT in a cell of n counted requests is c + b·i ms for the i-th in order of schedule, 100 ms on average. Its 20 batch
means are equally spaced with their median at 100 ms, so the drift is (n − n/20)·b / 100 ms exactly. Over blocks the
drifts are the A/A example of eight (mean .000375, s .0067175, interval ± .0056160) plus a shift.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from benchcard.analysis.effect import t_interval
from benchcard.analysis.records import BundleError
from benchcard.analysis.steady import drift
from benchcard.analysis.steady_loads import word

from .bundles import MS, Cell, Row, ab_card, analyse, baseline_card, build

AA = (0.004, -0.011, 0.007, 0.002, -0.006, 0.009, -0.003, 0.001)
Shift = Callable[[str, int], float]


def nothing(_: str, __: int) -> float:
    return 0.0


def at(arm: str, point: int, shift: float) -> Shift:
    """A shift of one arm's drifts at one load point."""
    return lambda a, p: shift if (a, p) == (arm, point) else 0.0


def linear(shift: Shift) -> Callable[[Cell, list[Row]], list[Row]]:
    """TTFT as a straight line over the counted requests; an attempt that was bad stays bad, by its finish reason."""

    def rows(cell: Cell, events: list[Row]) -> list[Row]:
        counted = [row for row in events if row["phase"] == "measure"]
        n = len(counted)
        slope = 100 * (AA[(cell.block - 1) % 8] + shift(cell.arm, cell.load_point)) / (n - n / 20)
        for i, row in enumerate(counted):
            if row["first_token"] - row["scheduled"] > 500 * MS:
                row["finish_reason"] = "content_filter"
            moved = row["scheduled"] + round((100 + slope * (i - (n - 1) / 2)) * MS) - row["first_token"]
            row["chunk_times"] = [time + moved for time in row["chunk_times"]]
            for key in ("first_token", "first_answer_token", "last_token", "end"):
                row[key] += moved
        return events

    return rows


def card(declared: Row | None, **changes: Any) -> Row:
    """Windows of 10 s: 100 and 200 counted requests."""
    measure = {"warmup": {"seconds": 0.5}, "measure": {"seconds": 10.0}, "drain": 2.0}
    return ab_card(validity__steady_state=declared, workload__window=measure, **changes)


def good(_: int, arm: str, __: int) -> float:
    return 0.5 if arm == "baseline" else 0.75


def verdict_of(folder: Path, declared: Row | None, shift: Shift = nothing, **changes: Any) -> Row:
    return analyse(build(folder, card(declared, **changes), good=good, rows=linear(shift)))


def row_at(verdict: Row, arm: str, load: float) -> Row:
    (row,) = [row for row in verdict["steady_state"] if (row["arm"], row["load"]) == (arm, load)]
    return dict(row)


def steady_conditions(verdict: Row) -> dict[str, tuple[str, str]]:
    rows = [row for row in verdict["conditions"] if row["name"].startswith("steady state")]
    return {row["name"]: (row["value"], row["source"]) for row in rows}


def codes(verdict: Row) -> list[str]:
    return [row["code"] for row in verdict["because"]]


BOTH = {"at": [10.0, 20.0], "drift_within": 0.1}


@pytest.mark.parametrize(
    ("bounds", "wanted"),
    [
        ((-0.05, 0.05), "steady"),
        ((0.02, 0.099), "steady"),
        ((-0.05, 0.1), "not established"),
        ((-0.2, 0.2), "not established"),
        ((0.1, 0.2), "not established"),
        ((0.11, 0.2), "drifts"),
        ((-0.2, -0.11), "drifts"),
        ((-0.2, -0.1), "not established"),
    ],
)
def test_the_word_of_an_interval(bounds: tuple[float, float], wanted: str) -> None:
    assert word(bounds, 0.1) == wanted


@pytest.mark.parametrize("true", [0.1, -0.1, 0.0])
def test_the_words_are_right_as_often_as_they_say(true: float) -> None:
    """2000 synthetic loads of 8 cells of 100 lognormal requests (CV .3) through the real code. At the limit either word
    is wrong, and comes no more often than 2.5% + three standard errors; without a drift the interval leaves zero out in
    5%."""
    draws = np.random.default_rng(20260923).lognormal(0, 0.3, (2000, 8, 100))
    values = draws * (1 + true * (np.arange(100) / 95 - 99 / 190))
    words, outside = [], 0
    for cells in values:
        drifts = np.array([found.value for cell in cells if (found := drift(cell)) is not None])
        _, _, lower, upper = t_interval(drifts, 0.95)
        words.append(word((lower, upper), 0.1))
        outside += not lower < 0 < upper
    if true:
        for wrong in ("drifts", "steady"):
            assert words.count(wrong) / 2000 <= 0.025 + 3 * np.sqrt(0.025 * 0.975 / 2000)
    else:
        assert abs(outside / 2000 - 0.05) <= 3 * np.sqrt(0.05 * 0.95 / 2000)
        assert words.count("drifts") == 0


def test_steady_within(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, BOTH)
    assert verdict["verdict"] == "supported"
    row = row_at(verdict, "candidate", 20.0)
    assert (row["declared"], row["within"], row["word"], row["blocks"], row["reason"]) == (True, 0.1, "steady", 8, None)
    assert row["mean"] == pytest.approx(0.000375, abs=1e-6)
    assert row["stdev"] == pytest.approx(0.0067175, abs=1e-6)
    assert row["interval"] == pytest.approx([-0.005241, 0.005991], abs=1e-6)
    assert [cell["drift"] for cell in row["cells"]] == pytest.approx(list(AA), abs=1e-6)
    assert {cell["requests"] for cell in row["cells"]} == {200}
    # −0.5241% and +0.5991%
    arm = "TTFT drifts by 0.0% (95% interval −0.5% to +0.6%, 8 blocks)"
    assert steady_conditions(verdict) == {
        f"steady state at {load} req/s": (f"steady within 10% (baseline: {arm}; candidate: {arm})", "observed")
        for load in (10, 20)
    }


def test_a_load_that_drifts_is_invalid(tmp_path: Path) -> None:
    """12.0375% ± .5616%."""
    verdict = verdict_of(tmp_path, BOTH, at("candidate", 2, 0.12))
    said = (
        "no steady state: TTFT of the candidate at 20 req/s drifts by +12.0% (95% interval +11.5% to +12.6%, 8 blocks) "
        "over the window, wholly outside the ±10% of the card"
    )
    assert verdict["verdict"] == "invalid"
    assert verdict["because"][0] == {"code": "not_steady", "text": said}
    assert verdict["sentence"].endswith(f"enable-prefix-caching=true (instead of false): {said}: invalid.")
    (effect,) = [effect for effect in verdict["effects"] if effect["claimed"]]
    assert (effect["word"], effect["interval"] is None) == (None, False)
    assert "the load is invalid" in effect["reason"]
    assert {(row["word"], row["reason"]) for row in verdict["guards"]} == {("indeterminate", effect["reason"])}
    assert not [code for code in codes(verdict) if code.startswith("claim_")]
    # no cell check, and no block is replaced for it
    assert all(block["used"] for block in verdict["blocks"] if not block["spare"])
    assert all(check["passed"] for check in verdict["validity"])
    value, source = steady_conditions(verdict)["steady state at 20 req/s"]
    assert value.startswith("no steady state within 10% (baseline: ")
    assert source == "observed"


def test_a_fall_is_a_drift(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, BOTH, at("baseline", 2, -0.12))
    assert verdict["verdict"] == "invalid"
    assert (
        "of the baseline at 20 req/s drifts by −12.0% (95% interval −12.5% to −11.4%" in verdict["because"][0]["text"]
    )


def test_a_load_on_which_nothing_stands_may_drift(tmp_path: Path) -> None:
    """Neither the claim nor a guard is at 10 req/s: that load is invalid, the verdict is not."""
    verdict = verdict_of(tmp_path, BOTH, at("candidate", 1, 0.12))
    assert verdict["verdict"] == "supported"
    assert row_at(verdict, "candidate", 10.0)["word"] == "drifts"
    assert steady_conditions(verdict)["steady state at 10 req/s"][0].startswith("no steady state within 10%")


def test_a_guard_stands_on_its_load_too(tmp_path: Path) -> None:
    guard = {
        "metric": "tpot.p50", "direction": "may_rise_by", "margin": {"value": 0.03, "scale": "relative"}, "at": [10.0],
    }  # fmt: skip
    verdict = verdict_of(tmp_path, BOTH, at("candidate", 1, 0.12), guards=[guard])
    assert verdict["verdict"] == "invalid"
    assert codes(verdict)[0] == "not_steady"


def test_a_reversal_stands_on_its_loads(tmp_path: Path) -> None:
    """Goodput falls at 10 req/s and rises at 20: without the drift at 10 the verdict is mixed; with it, invalid."""

    def turns(_: int, arm: str, point: int) -> float:
        return 0.5 if arm == "baseline" else (0.3, 0.75)[point - 1]

    words = []
    for name, shift in (("rest", nothing), ("drift", at("baseline", 1, 0.12))):
        bundle = build(tmp_path / name, card(BOTH), good=turns, rows=linear(shift))
        words.append(analyse(bundle)["verdict"])
    assert words == ["mixed", "invalid"]


def test_an_interval_across_the_limit_is_a_condition(tmp_path: Path) -> None:
    """9.6375% ± .5616%: 9.0759% to 10.1991%."""
    verdict = verdict_of(tmp_path, BOTH, at("candidate", 2, 0.096))
    assert verdict["verdict"] == "supported"
    assert row_at(verdict, "candidate", 20.0)["word"] == "not established"
    value, source = steady_conditions(verdict)["steady state at 20 req/s"]
    assert value == (
        "steady state not established within 10% (baseline: TTFT drifts by 0.0% (95% interval −0.5% to +0.6%, "
        "8 blocks); candidate: TTFT drifts by +9.6% (95% interval +9.1% to +10.2%, 8 blocks))"
    )
    assert source == "unknown"


def test_no_bound_looks_like_a_limit_that_it_is_not(tmp_path: Path) -> None:
    """9.3975% ± .5616%: the upper bound, 9.9591%, would be 10.0%."""
    verdict = verdict_of(tmp_path, BOTH, at("candidate", 2, 0.0936))
    value, _ = steady_conditions(verdict)["steady state at 20 req/s"]
    assert value.startswith("steady within 10%")
    assert "candidate: TTFT drifts by +9.40% (95% interval +8.84% to +9.96%, 8 blocks)" in value


def test_a_load_that_is_not_named_is_a_finite_window(tmp_path: Path) -> None:
    """It may drift as it likes; the drift is shown, without a word."""
    verdict = verdict_of(tmp_path, {"at": [10.0], "drift_within": 0.1}, at("candidate", 2, 0.5))
    assert verdict["verdict"] == "supported"
    row = row_at(verdict, "candidate", 20.0)
    assert (row["declared"], row["within"], row["word"], row["reason"]) == (False, None, None, None)
    assert row["mean"] == pytest.approx(0.500375, abs=1e-6)
    found = steady_conditions(verdict)
    assert found["steady state at 20 req/s"] == (
        "not declared there: the measured window is a finite window", "declared",
    )  # fmt: skip
    assert found["steady state at 10 req/s"][1] == "observed"


@pytest.mark.parametrize("old", [False, True], ids=["null", "a card from before the key"])
def test_nothing_declared(tmp_path: Path, old: bool) -> None:
    wanted = card(None)
    if old:
        del wanted["validity"]["steady_state"]
    verdict = analyse(build(tmp_path, wanted, good=good, rows=linear(at("baseline", 2, 0.5))))
    assert verdict["verdict"] == "supported"
    assert steady_conditions(verdict) == {
        "steady state": ("not declared: the measured window is a finite window at every load", "declared")
    }
    assert {row["word"] for row in verdict["steady_state"]} == {None}


def test_too_few_requests(tmp_path: Path) -> None:
    """Windows of 5 s hold 50 requests at 10 req/s: twice the window holds 100."""
    bundle = build(tmp_path, ab_card(validity__steady_state=BOTH), good=good, rows=linear(at("candidate", 1, 0.5)))
    verdict = analyse(bundle)
    assert verdict["verdict"] == "supported"
    row = row_at(verdict, "candidate", 10.0)
    assert (row["word"], row["mean"], row["interval"]) == ("not established", None, None)
    assert row["reason"] == (
        "8 of 8 cells have fewer than 100 requests with a TTFT, which a drift needs (fewest: 50; a window 2 times as "
        "long would hold about as many)"
    )
    value, source = steady_conditions(verdict)["steady state at 10 req/s"]
    assert value == (f"steady state not established within 10% (baseline: {row['reason']}; candidate: {row['reason']})")
    assert source == "unknown"
    assert row_at(verdict, "candidate", 20.0)["word"] == "steady"


def test_a_block_without_a_drift_is_not_dropped(tmp_path: Path) -> None:
    """One cell loses a request of its hundred to a failure; the other seven blocks do not answer for it."""

    def rows(cell: Cell, events: list[Row]) -> list[Row]:
        events = linear(at("candidate", 2, 0.5))(cell, events)
        if (cell.block, cell.arm, cell.load_point) == (3, "candidate", 1):
            lost = next(row for row in events if row["phase"] == "measure")
            lost |= {"outcome": "http_error", "chunk_times": [], "chunk_tokens": [], "chunk_kinds": []}
            lost |= {"chunk_bytes": [], "first_token": None, "first_answer_token": None, "last_token": None}
        return events

    verdict = analyse(build(tmp_path, card({"at": [10.0], "drift_within": 0.1}), good=good, rows=rows))
    row = row_at(verdict, "candidate", 10.0)
    assert (row["word"], row["blocks"], row["interval"]) == ("not established", 8, None)
    assert row["cells"][2]["undefined"] == {"http_error": 1}
    assert row["cells"][2]["reason"] == "99 requests with a TTFT; a drift needs 100"
    value, _ = steady_conditions(verdict)["steady state at 10 req/s"]
    assert value.endswith(
        "candidate: 1 of 8 cells has fewer than 100 requests with a TTFT, which a drift needs (fewest: 99; a window "
        "1.1 times as long would hold about as many), 1 attempt without a first token left out)"
    )


def test_too_few_blocks(tmp_path: Path) -> None:
    """A baseline of three repeats: an interval, and no word. A drift is not judged by it either."""
    window = {"warmup": {"requests": 4}, "measure": {"requests": 100}, "drain": 2.0}
    declared = {"at": [1.0], "drift_within": 0.1}
    wanted = baseline_card(workload__window=window, validity__steady_state=declared)
    found = analyse(build(tmp_path, wanted, rows=linear(at("baseline", 1, 0.5))))
    assert found["valid"] is True
    row = row_at(found, "baseline", 1.0)
    assert (row["word"], row["reason"]) == ("not established", "3 blocks; a word needs 6")
    # mean of .004, −.011 and .007 is 0, s .009644, t(.975, 2) = 4.3027: ± .023957
    assert row["interval"] == pytest.approx([0.5 - 0.023957, 0.5 + 0.023957], abs=2e-6)


@pytest.mark.parametrize(
    ("declared", "reason"),
    [(None, "one block has no spread"), ({"at": [1.0], "drift_within": 0.1}, "1 block; a word needs 6")],
)
def test_one_block_has_no_interval(tmp_path: Path, declared: Row | None, reason: str) -> None:
    window = {"warmup": {"requests": 4}, "measure": {"requests": 100}, "drain": 2.0}
    wanted = baseline_card(workload__window=window, validity__steady_state=declared, method__blocks=1)
    row = row_at(analyse(build(tmp_path, wanted, rows=linear(nothing))), "baseline", 1.0)
    assert (row["interval"], row["stdev"], row["reason"]) == (None, None, reason)
    assert row["mean"] == pytest.approx(0.004, abs=1e-6)


def test_a_baseline_that_drifts_is_invalid(tmp_path: Path) -> None:
    window = {"warmup": {"requests": 4}, "measure": {"requests": 100}, "drain": 2.0}
    wanted = baseline_card(
        workload__window=window, validity__steady_state={"at": [4.0], "drift_within": 0.1}, method__blocks=6
    )
    found = analyse(build(tmp_path, wanted, rows=linear(at("baseline", 2, 0.5))))
    assert found["valid"] is False
    assert [row["code"] for row in found["because"]] == ["not_steady", "complete"]
    assert "TTFT of the baseline at concurrency 4 drifts by +50.1%" in found["because"][0]["text"]
    assert set(steady_conditions(found)) == {"steady state at concurrency 4", "steady state at concurrency 1"}


def test_an_incomplete_run_establishes_nothing(tmp_path: Path) -> None:
    bundle = build(tmp_path, card(BOTH), good=good, rows=linear(at("candidate", 2, 0.5)), skip=lambda c: c.block > 7)
    verdict = analyse(bundle)
    assert codes(verdict) == ["incomplete"]
    assert {(row["word"], row["reason"]) for row in verdict["steady_state"]} == {
        ("not established", "the run is invalid")
    }


def test_the_series_has_the_batch_means(tmp_path: Path) -> None:
    """200 requests: the b-th part is of ten, 10b − 10 … 10b − 1, whose mean position is 10b − 5.5."""
    bundle = build(tmp_path, card(None), good=good, rows=linear(nothing))
    analyse(bundle)
    series = pl.read_parquet(bundle / "series" / "steady.parquet")
    assert series.height == 8 * 2 * 2 * 20
    mine = series.filter((pl.col("block") == 2) & (pl.col("arm") == "candidate") & (pl.col("load") == 20.0))
    assert mine["index"].to_list() == [10 * b - 5.5 for b in range(1, 21)]
    # drift −1.1%: 98.9% of the way from 100.55 to 99.45 ms lie between the first and the last batch mean
    assert mine["ttft_s"].to_list() == pytest.approx([0.10055 - 0.0011 * b / 19 for b in range(20)], abs=1e-8)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"at": [15.0], "drift_within": 0.1}, "validity.steady_state: at names load 15.0; the workload has 10.0, 20.0"),
        ({"at": [10.0], "drift_within": 0.0}, "validity.steady_state: drift_within is 0.0; wanted above 0"),
        ({"at": [10.0]}, "validity.steady_state: drift_within is missing"),
    ],
)
def test_a_card_that_is_none_is_refused(tmp_path: Path, declared: Row, said: str) -> None:
    from benchcard.analysis.card import check_card

    with pytest.raises(BundleError) as caught:
        check_card(card(declared), "card")
    assert said in str(caught.value)

"""The joint chance of claim and guards: by hand, by brute force, and its bounds."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from benchcard.analysis.joint import at_least_one, joint, together
from benchcard.analysis.planned_power import condition_rows, planned_power
from benchcard.analysis.power import power
from benchcard.analysis.records import BundleError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from .bundles import process

CHANCES = st.lists(st.floats(0, 1), min_size=1, max_size=6)


def ask(spreads: list[float | None], guards: list[float | None] = [], **changes: Any) -> dict[str, Any]:  # noqa: B006
    """A claim of +5% at 8% true, at loads 1, 2, …, and guards of 2% on tpot.p50."""
    question: dict[str, Any] = {
        "blocks": 8, "confidence": 0.95, "chance": 0.8, "seconds_a_block": 60.0,
        "claim": {
            "metric": "goodput", "scope": "every_load", "direction": "must_rise_by",
            "threshold": {"value": 0.05, "scale": "relative"}, "expect": 0.08,
            "at": [{"load": load, "spread": s, "reason": None} for load, s in enumerate(spreads, 1)],
        },
        "guards": [
            {"metric": "tpot.p50", "load": load, "direction": "may_rise_by",
             "margin": {"value": 0.02, "scale": "relative"}, "spread": s, "reason": None}
            for load, s in enumerate(guards, 1)
        ],
    }  # fmt: skip
    claim = changes.pop("claim", {})
    return joint({**question, "claim": question["claim"] | claim, **changes})


@pytest.mark.parametrize(("blocks", "chance"), [(8, 0.627), (10, 0.753), (11, 0.801)])
def test_one_load_is_the_oracle(blocks: int, chance: float) -> None:
    found = ask([0.03], blocks=blocks)
    assert found["joint"]["power"] == pytest.approx(chance, abs=5e-4)
    assert (found["blocks_needed"], found["seconds_needed"]) == (11, 660.0)
    assert found["power_needed"] == pytest.approx(0.801, abs=5e-4)
    assert (found["complete"], found["reason"]) == (True, None)


def test_blocks_that_do_not_multiply_are_added_once() -> None:
    assert ask([0.03], seconds_beside=100.0)["seconds_needed"] == 760.0


def test_a_pilots_spread_is_planned_with_at_its_upper_bound() -> None:
    at = [{"load": 1.0, "spread": 0.03, "spread_df": 7, "reason": None}]
    (part,) = ask([], claim={"at": at})["parts"]
    assert part["estimate"] == 0.03
    assert part["spread"] == pytest.approx(0.04060, abs=5e-6)
    assert part["smallest_detectable"] == pytest.approx(0.04693, abs=5e-6)
    assert part["smallest_effect"] == pytest.approx(1.05 * math.exp(0.04693) - 1, abs=1e-5)


def test_every_load_multiplies() -> None:
    found = ask([0.03, 0.03])["joint"]
    assert found["power"] == pytest.approx(0.627**2, abs=1e-3)
    assert found["lower"] == pytest.approx(2 * 0.627 - 1, abs=1e-3)
    assert found["upper"] == pytest.approx(0.627, abs=5e-4)


def brute(distance: float, spread: float, blocks: int, alpha: float) -> float:
    """Share of 200,000 synthetic experiments whose one-sided t test succeeds; the critical value is itself found by
    drawing t as normal / sqrt(chi-squared / df)."""
    draws = np.random.default_rng(5)
    normal, chi = draws.standard_normal(2_000_000), draws.chisquare(blocks - 1, 2_000_000)
    critical = np.quantile(normal / np.sqrt(chi / (blocks - 1)), 1 - alpha)
    d = draws.normal(distance, spread, (200_000, blocks))
    t = d.mean(axis=1) / (d.std(axis=1, ddof=1) / math.sqrt(blocks))
    return float((t > critical).mean())


def test_power_of_claim_guard_and_some_load_by_brute_force() -> None:
    """A guard is one-sided at 5%, a claim at 2.5%, a claim at some of two loads at 1.25%."""
    claim = brute(math.log(1.08 / 1.05), 0.03, 8, 0.025)
    guard = brute(math.log(1.02), 0.02, 8, 0.05)
    corrected = brute(math.log(1.08 / 1.05), 0.03, 8, 0.0125)
    parts = {part["kind"]: part["power"] for part in ask([0.03], [0.02])["parts"]}
    assert parts == {"claim": pytest.approx(claim, abs=0.005), "guard": pytest.approx(guard, abs=0.005)}
    found = ask([0.03, 0.03], claim={"scope": "some_load"})
    assert [part["power"] for part in found["parts"]] == [pytest.approx(corrected, abs=0.005)] * 2
    assert found["joint"]["power"] == pytest.approx(1 - (1 - corrected) ** 2, abs=0.01)
    assert found["joint"]["lower"] == pytest.approx(corrected, abs=0.005)


def test_what_is_unknown_is_named_and_left_out() -> None:
    found = ask([0.03], [None])
    assert not found["complete"]
    assert found["reason"] == "not known, and not in the joint chance: the spread of tpot.p50 at 1"
    assert found["joint"]["upper"] == pytest.approx(0.627, abs=5e-4)
    unknown = ask([None], claim={"at": [{"load": 1.0, "spread": None, "reason": "zero in some block"}]})
    assert (unknown["joint"], unknown["blocks_needed"], unknown["reason"]) == (None, None, "zero in some block")
    assert ask([0.03], claim={"expect": None})["reason"] == "the card expects no effect (power.expect)"


def test_an_effect_on_the_threshold_needs_no_number_of_blocks() -> None:
    found = ask([0.03], claim={"expect": 0.05})
    assert found["blocks_needed"] is None
    assert found["reason"] == "no number of blocks up to 1,000 gives the chance wanted"


def test_the_command_answers_a_whole_card() -> None:
    question = {
        "blocks": 8,
        "claim": {
            "metric": "ttft.p50", "scope": "loads", "direction": "must_fall_by", "expect": 0.08,
            "threshold": {"value": 0.05, "scale": "relative"}, "at": [{"load": 1.0, "spread": 0.03}],
        },
    }  # fmt: skip
    done = process("power", stdin=json.dumps(question))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["joint"]["power"] == pytest.approx(power(math.log(0.95 / 0.92), 0.03, 8))
    with pytest.raises(BundleError):
        joint({"blocks": 1, "claim": {}})


@given(CHANCES)
@example([1e-06])
def test_products_lie_within_the_bounds(chances: list[float]) -> None:
    for product, lower, upper in (together(chances), at_least_one(chances)):
        assert 0 <= lower <= product <= upper <= 1
    assert together(chances)[2] == min(chances)
    assert at_least_one(chances)[1] == max(chances)


@settings(deadline=None, max_examples=50)
@given(st.floats(0.005, 0.2), st.floats(0.005, 0.2), st.integers(6, 60))
def test_more_blocks_never_hurt(claim: float, guard: float, blocks: int) -> None:
    few, more = (ask([claim], [guard], blocks=n)["joint"]["power"] for n in (blocks, blocks + 1))
    assert more >= few - 1e-9


def card(**power: Any) -> dict[str, Any]:
    threshold = {"value": 0.05, "scale": "relative"}
    claim = {"metric": "goodput", "direction": "must_rise_by", "threshold": threshold, "scope": "loads", "at": [8.0]}
    declared = {"expect": 0.08, "chance": 0.8, "spread": None, "override": None} | power
    return {
        "claim": claim, "guards": [], "method": {"blocks": 8}, "analysis": {"confidence": 0.95},
        "power": declared if power else None,
    }  # fmt: skip


def test_what_the_verdict_says_of_it() -> None:
    assert planned_power(card())["known"] is False
    assert condition_rows(card()) == [("power", "the spread was not known when this was planned", "unknown")]
    assert condition_rows(card(spread=0.03, override="the window is booked")) == [
        (
            "power",
            "planned with a spread of 3.00% (declared): a joint chance of 63% at the effect expected",
            "declared",
        ),
        ("power override", "the window is booked", "declared"),
    ]
    row = {"kind": "claim", "metric": "goodput", "population": None, "load": 8.0, "stdev": 0.03, "df": 7}
    found = planned_power(card(spread={"from": {"differences": [row]}}))
    assert (found["known"], found["spread"], found["spread_df"], found["spread_source"]) == (True, 0.03, 7, "pilot")
    assert found["joint_chance"] == pytest.approx(power(math.log(1.08 / 1.05), 0.04060, 8), abs=1e-3)
    other = planned_power(card(spread={"from": {"differences": []}}))
    assert (other["known"], other["reason"]) == (False, "the pilot has no spread of goodput")

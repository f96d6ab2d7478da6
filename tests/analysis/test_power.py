"""What can be detected, against the oracles of the methods."""

from __future__ import annotations

import json
import math

import pytest
from benchcard.analysis.power import answer, blocks_needed, power, smallest_detectable, upper_spread
from benchcard.analysis.records import BundleError

from .bundles import process

FIVE_PERCENT = {"value": 0.05, "scale": "relative"}


@pytest.mark.parametrize(
    ("blocks", "smallest"), [(5, 0.05046), (6, 0.04304), (8, 0.03468), (10, 0.02988), (16, 0.02248)]
)
def test_smallest_detectable_effect(blocks: int, smallest: float) -> None:
    assert smallest_detectable(0.03, blocks) == pytest.approx(smallest, abs=5e-6)


def test_a_pilots_spread_is_taken_at_its_upper_bound() -> None:
    assert upper_spread(0.03, 7) == pytest.approx(0.04060, abs=5e-6)
    assert smallest_detectable(upper_spread(0.03, 7), 8) == pytest.approx(0.04693, abs=5e-6)


@pytest.mark.parametrize(("blocks", "chance"), [(8, 0.627), (10, 0.753), (11, 0.801)])
def test_power_of_a_true_8_percent_against_5(blocks: int, chance: float) -> None:
    assert power(math.log(1.08 / 1.05), 0.03, blocks) == pytest.approx(chance, abs=5e-4)


def test_blocks_needed() -> None:
    assert blocks_needed(math.log(1.08 / 1.05), 0.03) == 11
    assert blocks_needed(1.0, 0.03) == 6  # never fewer than the sign-flip test can speak with
    assert blocks_needed(0.0, 0.03) is None
    assert blocks_needed(1e-6, 0.03) is None


def test_one_block_detects_nothing_and_no_spread_detects_all() -> None:
    assert smallest_detectable(0.03, 1) is None
    assert (power(0.01, 0.0, 8), power(-0.01, 0.0, 8)) == (1.0, 0.0)


def test_the_command_answers_in_json() -> None:
    question = {"blocks": 8, "spread": 0.03, "threshold": FIVE_PERCENT, "direction": "must_rise_by", "expect": 0.08}
    done = process("power", stdin=json.dumps(question))
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["smallest_detectable"] == pytest.approx(0.03468, abs=5e-6)
    assert found["smallest_effect"] == pytest.approx(1.05 * math.exp(0.03468) - 1, abs=1e-5)
    assert found["power"] == pytest.approx(0.627, abs=5e-4)
    assert (found["blocks_needed"], found["reason"]) == (11, None)


def test_a_fall_and_points() -> None:
    fall = answer({"blocks": 8, "spread": 0.03, "threshold": FIVE_PERCENT, "direction": "must_fall_by", "expect": 0.08})
    assert fall["smallest_effect"] == pytest.approx(1 - 0.95 * math.exp(-0.034681), abs=1e-5)
    assert fall["power"] == pytest.approx(power(math.log(0.95 / 0.92), 0.03, 8))
    points = answer({"blocks": 8, "spread": 0.01, "threshold": {"value": 0.02, "scale": "points"}, "expect": 0.03})
    assert points["smallest_effect"] == pytest.approx(0.02 + 0.01156, abs=1e-5)


def test_an_unknown_spread_is_said_and_not_guessed() -> None:
    found = answer({"blocks": 8, "spread": None, "threshold": FIVE_PERCENT})
    assert found["smallest_detectable"] is None
    assert found["reason"] == "the spread of the A/B differences is not known"


def test_an_expectation_inside_the_threshold_needs_no_number_of_blocks() -> None:
    found = answer({"blocks": 8, "spread": 0.03, "threshold": FIVE_PERCENT, "expect": 0.04})
    assert found["blocks_needed"] is None
    assert "not beyond the threshold" in found["reason"]


@pytest.mark.parametrize("question", [{}, {"blocks": 1, "spread": 0.1}, {"blocks": 8, "confidence": 2}])
def test_a_bad_question_is_refused(question: dict[str, object]) -> None:
    with pytest.raises(BundleError):
        answer(question)
    assert process("power", stdin=json.dumps(question)).returncode == 2


def test_no_json_at_all() -> None:
    done = process("power", stdin="blocks: 8")
    assert done.returncode == 2
    assert done.stderr.startswith("error: stdin: not JSON")
    assert len(done.stderr.splitlines()) == 1

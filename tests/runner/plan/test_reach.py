"""Outcomes that no data could bring, and the change that mends the card: whole texts."""

from __future__ import annotations

import math
from typing import Any

import pytest
from benchcard.runner.plan.reach import OutOfReach, out_of_reach, room


def card(
    direction: str = "must_rise_by", metric: str = "goodput", scale: str = "relative", **more: Any
) -> dict[str, Any]:
    claim = {"metric": metric, "direction": direction, "threshold": {"value": 0.05, "scale": scale}, "scope": "loads"}
    return {
        "claim": claim | more, "power": None, "workload": {"load_kind": "rate", "loads": [8.0, 16.0]},
    }  # fmt: skip


def found(at: dict[float, list[float]], values: list[float | None] | None = None, **row: Any) -> dict[str, Any]:
    """A claim at 8 req/s; `at` gives the baseline's share of its ceiling at each load."""
    claim = {
        "kind": "claim", "metric": "goodput", "load": 8.0, "blocks": 3, "mean": 0.01, "reason": None,
        "baseline": [7.9, 8.0, 8.1] if values is None else values,
    }  # fmt: skip
    return {
        "differences": [claim | row],
        "baseline": [{"load": load, "share_of_ceiling": shares} for load, shares in at.items()],
    }


def test_room_is_what_is_left_below_the_ceiling() -> None:
    assert room(card(), [0.8, 0.8]) == pytest.approx(0.25)
    assert room(card(), [0.5, 0.8]) == pytest.approx(math.sqrt(1 / 0.4) - 1)
    assert room(card(), [0.0, 0.8]) == math.inf
    assert room(card(scale="points"), [0.9, 0.94]) == pytest.approx(0.08)
    assert room(card(), []) is None
    assert room(card(), [0.9, None]) is None


def test_a_ceiling_and_another_load_with_room() -> None:
    assert out_of_reach(card(), found({8.0: [0.99, 0.98, 1.0], 16.0: [0.6, 0.62, 0.61]}), "the pilot") == [
        OutOfReach(
            "the claim is out of reach at 8 req/s: in the pilot the baseline already met every objective in 98.0% to "
            "100.0% of the requests, so goodput can rise by 1% at most, and must rise by more than 5%",
            "claim.at: [16 req/s], where it did so in 60.0% to 62.0%",
        )
    ]


def test_a_ceiling_and_no_other_load() -> None:
    (one,) = out_of_reach(card(), found({8.0: [0.96, 0.96, 0.96]}), "virtual time")
    assert one.mend == "a higher load, tighter objectives, or a threshold below 4.2%"
    assert out_of_reach(card(), found({8.0: [0.95, 0.95, 0.95]}), "virtual time") == []  # 1/.95 = 1.053


def test_at_some_load_one_with_room_is_enough() -> None:
    both = found({8.0: [1.0, 1.0, 1.0], 16.0: [0.6, 0.6, 0.6]})
    both["differences"].append(both["differences"][0] | {"load": 16.0})
    assert out_of_reach(card(scope="some_load"), both, "the pilot") == []
    assert len(out_of_reach(card(), both, "the pilot")) == 1


def test_nothing_falls_below_zero() -> None:
    (one,) = out_of_reach(card("must_fall_by", "error_rate", "points"), found({}, [0.0, 0.03, 0.0]), "the pilot")
    assert one.seen == (
        "the claim is out of reach at 8 req/s: in the pilot error_rate of the baseline was 1 pt on average, so it "
        "cannot fall by more than 5 pt"
    )
    (one,) = out_of_reach(card("must_fall_by", "ttft.p50"), found({}, [0.0, 0.0]), "the pilot")
    assert "was 0 in every block, and nothing can fall below that" in one.seen
    assert out_of_reach(card("must_fall_by", "ttft.p50"), found({}, [0.1, 0.0]), "the pilot") == []


def test_a_rise_from_nothing_cannot_be_falsified() -> None:
    (one,) = out_of_reach(card(), found({8.0: [0.0, 0.0]}, [0.0, 0.0]), "the pilot")
    assert one.seen == (
        "nothing could falsify the claim at 8 req/s: in the pilot goodput of the baseline was 0 in every block, and no "
        "candidate can have less than 5% more than that"
    )


def test_what_is_undefined_in_every_block() -> None:
    nothing: dict[str, Any] = {"mean": None, "reason": "undefined in block 1 (baseline)"}
    (one,) = out_of_reach(card(metric="ttfa.p50"), found({}, [None, None], **nothing), "the pilot")
    assert one.seen == (
        "neither outcome can come at 8 req/s: in the pilot ttfa.p50 was undefined in every block "
        "(undefined in block 1 (baseline))"
    )
    guard = found({}, [None, None], kind="guard", metric="itl.p50", **nothing)
    (one,) = out_of_reach(card(), guard, "the pilot")
    assert one.seen.startswith("the guard on itl.p50 at 8 req/s can never pass: in the pilot it was undefined")

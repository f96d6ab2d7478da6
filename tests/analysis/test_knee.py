"""The knee: bounds against scipy's and by hand, the rule over the loads, and what a run says."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from benchcard.analysis import knee
from benchcard.analysis.cells import read_cells
from benchcard.analysis.read import read_bundle
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from .bundles import ab_card, analyse, baseline_card, build

GOOD = [1200, 2396, 3584, 4632, 4740, 4080]
LOADS = [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]


def sweep(good: list[int]) -> list[knee.Point]:
    return [knee.point(load, [k], [round(600 * load)], 0.99) for load, k in zip(LOADS, good, strict=True)]


def test_the_worked_example() -> None:
    points = sweep(GOOD)
    assert [round(at.lower or 0, 5) for at in points[:4]] == [0.99751, 0.99619, 0.99326, 0.96032]
    found = knee.find(points, 5.0)
    assert (found.word, found.interval) == ("bracketed", (6.0, 8.0))
    assert found.headroom == pytest.approx(1 / 6)


def test_blocks_that_vary_weigh_less() -> None:
    """s² of 896, 898, 893, 897 of 900 is 14/3 / 900²; p(1 − p)/900 with p = 3584/3600."""
    at = knee.point(6.0, [896, 898, 893, 897], [900] * 4, 0.99)
    p = 3584 / 3600
    assert at.deff == pytest.approx((14 / 3 / 900**2) / (p * (1 - p) / 900))
    assert (round(at.deff or 0, 4), round(at.n_eff or 0), round(at.lower or 0, 5)) == (1.1719, 3072, 0.99302)
    assert (at.passes, at.reason) == (True, None)


def test_blocks_that_vary_less_than_chance_weigh_no_more() -> None:
    assert knee.design_effect([895, 896, 896, 895], [900] * 4) == (1.0, None)


@settings(max_examples=80, deadline=None)
@given(n=st.integers(1, 3000), share=st.floats(0, 1))
def test_bounds_are_clopper_and_pearsons(n: int, share: float) -> None:
    good = round(n * share)
    lower, upper = knee.clopper_pearson(good, n)
    exact = stats.binomtest(good, n, alternative="greater").proportion_ci(0.95, method="exact")
    assert lower == pytest.approx(exact.low, abs=1e-9)
    exact = stats.binomtest(good, n, alternative="less").proportion_ci(0.95, method="exact")
    assert upper == pytest.approx(exact.high, abs=1e-9)


@pytest.mark.parametrize(
    ("good", "attempted", "deff", "passes", "reason"),
    [
        ([100, 100, 100], [100] * 3, 1.0, True, None),
        ([0, 0, 0], [100] * 3, 1.0, False, None),
        ([300], [300], 1.0, True, "one block: how much blocks vary is not known"),
        ([90, 0], [90, 0], 1.0, False, "too few attempts: it takes 299 to show it, all of them good"),
        ([99, 99], [100, 100], 1.0, False, "too few attempts: it takes 299 to show it, all of them good"),
        # shares 1 and .9: stdev^2 .005 over .95 * .05 / 200 is 21.05; 400 / 21.05 = 19
        (
            [200, 180],
            [200, 200],
            pytest.approx(400 / 19),
            False,
            "too few attempts (400 count as 19, as much as the blocks vary): it takes 299 to show it, all of them good",
        ),
        ([198, 198], [200, 200], 1.0, False, "its upper bound reaches the target too"),
        ([], [], None, None, "no valid block"),
        ([0, 0], [0, 0], None, None, "no counted attempts"),
    ],
)
def test_points_that_are_hard(
    good: list[int], attempted: list[int], deff: float | None, passes: bool | None, reason: str | None
) -> None:
    """.95 of 298 all good is .98999..., of 299 .99003 (.05^(1/n))."""
    at = knee.point(5.0, good, attempted, 0.99)
    assert (at.deff, at.passes, at.reason) == (deff, passes, reason)


def point(load: float, passes: bool | None) -> knee.Point:
    return knee.Point(load, 100, 99, 0.99, 1.0, 100.0, 0.9, 1.0, passes, "why" if passes is None else None)


@pytest.mark.parametrize(
    ("passes", "word", "interval", "headroom", "reason"),
    [
        ((True, True, False), "bracketed", (2.0, 3.0), 0.5, None),
        ((True, True, True), "not reached", (3.0, None), 2 / 3, None),
        ((False, False, False), "below the lowest load", (0.0, 1.0), None, None),
        ((True, False, True), "not monotone", None, None, "load 2 does not pass, but load 3 above it does"),
        ((False, True, None), "not monotone", None, None, "load 1 does not pass, but load 2 above it does"),
        ((True, None, True), "undefined", None, None, "nothing can be said at load 2: why"),
        ((True, False, None), "bracketed", (1.0, 2.0), 0.0, None),
        ((True,), "undefined", None, None, "one load was run; a knee needs at least two"),
        ((), "undefined", None, None, "one load was run; a knee needs at least two"),
    ],
)
def test_the_rule(
    passes: tuple[bool | None, ...],
    word: str,
    interval: tuple[float, float | None] | None,
    headroom: float | None,
    reason: str | None,
) -> None:
    found = knee.find([point(float(i), at) for i, at in enumerate(passes, start=1)], 1.0)
    assert (found.word, found.interval, found.reason) == (word, interval, reason)
    assert found.headroom == (None if headroom is None else pytest.approx(headroom))


@given(passes=st.lists(st.booleans(), min_size=2, max_size=8))
def test_a_knee_needs_every_lower_load_and_no_higher_one(passes: list[bool]) -> None:
    found = knee.find([point(float(i), at) for i, at in enumerate(passes, start=1)], None)
    monotone = all(a or not b for a, b in pairwise(passes))
    assert (found.word == "not monotone") == (not monotone)
    assert found.headroom is None
    if monotone:
        k = sum(passes)
        assert found.interval == (float(k), None if k == len(passes) else k + 1.0)


def test_a_run(tmp_path: Path) -> None:
    """All 400 good at 10 req/s (.05^(1/400) = .99254), 60 of 100 in each block at 20 req/s."""
    card = ab_card()
    card["workload"]["operating_point"] = 10.0
    found = analyse(build(tmp_path, card, good=lambda block, arm, load: 1.0 if load == 1 else 0.6))["knee"]
    assert list(found) == ["baseline", "candidate"]
    arm = found["candidate"]
    assert {key: arm[key] for key in arm if key != "points"} == {
        "target": 0.99, "confidence": 0.95, "word": "bracketed", "interval": [10.0, 20.0], "headroom": 0.0,
        "operating_point": 10.0, "reason": None,
    }  # fmt: skip
    first, second = arm["points"]
    assert first["lower"] == pytest.approx(0.05 ** (1 / 400))
    assert first | {"lower": 0} == {
        "load": 10.0, "attempted": 400, "good": 400, "attainment": 1.0, "deff": 1.0, "n_eff": 400.0, "lower": 0,
        "upper": 1.0, "passes": True, "reason": None,
    }  # fmt: skip
    assert (second["good"], second["attempted"], second["passes"]) == (480, 800, False)


def test_a_run_without_objectives_or_target_or_blocks(tmp_path: Path) -> None:
    card = baseline_card()
    card["objectives"] = None
    found = analyse(build(tmp_path / "none", card))["knee"]["baseline"]
    assert (found["word"], found["points"]) == ("undefined", [])
    assert found["reason"] == "the card has no objectives, so no request can be called good"
    card = ab_card()
    del card["analysis"]["attainment"]
    found = analyse(build(tmp_path / "old", card))["knee"]["baseline"]
    assert (found["word"], found["reason"]) == ("undefined", "the card states no target for attainment")
    found = analyse(build(tmp_path / "short", ab_card(), skip=lambda cell: cell.block > 5))["knee"]["baseline"]
    assert (found["word"], found["interval"], found["reason"]) == ("undefined", None, "the run is invalid")


def test_a_closed_loop_has_its_knee_in_concurrency(tmp_path: Path) -> None:
    card = baseline_card()
    card["objectives"] = {"success": True, "ttft": {"at_most": 0.6}}
    loads = card["workload"]["loads"]
    found = analyse(build(tmp_path, card))["knee"]["baseline"]
    assert [at["load"] for at in found["points"]] == loads == sorted(loads)
    assert found["word"] in ("not reached", "below the lowest load")
    assert found["points"][0]["good"] == found["points"][0]["attempted"]


def test_nothing_is_said_of_a_load_that_is_invalid(tmp_path: Path) -> None:
    reading = read_cells(read_bundle(build(tmp_path, good=lambda block, arm, load: 1.0 if load == 1 else 0.6)))
    arm = knee.knee_rows(reading, {2})["candidate"]
    assert (arm["word"], arm["interval"]) == ("undefined", None)
    assert arm["reason"] == "nothing can be said at load 20: the load is invalid, since TTFT drifts there"
    assert [at["passes"] for at in arm["points"]] == [True, None]

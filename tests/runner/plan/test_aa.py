"""A/A blocks in the plan: every one once, at random places fixed by the seed, and nothing else moved by them."""

from __future__ import annotations

import copy
import itertools
from pathlib import Path
from typing import Any

import pytest
from benchcard.runner.plan.blocks import Block, plan_blocks
from benchcard.runner.plan.duration import plan_duration, require_budget, require_size
from benchcard.runner.plan.plan import make_plan
from benchcard.runner.plan.salt import salt_of
from benchcard.schema.card import load_card
from benchcard.schema.errors import InputError
from hypothesis import given, settings
from hypothesis import strategies as st

from ..cards import small_card

CARD: dict[str, Any] = {
    "arms": {"baseline": {"server": None}, "candidate": {"server": None}},
    "system": {"engine": {"kind": "simulated"}, "launch": {"restart": "each_arm_in_block"}},
    "workload": {"loads": [10.0, 20.0, 30.0]},
    "method": {"blocks": 8, "spare_blocks": 2},
}


def with_aa(aa: dict[str, Any] | None, blocks: int = 8, spares: int = 2, restart: str = "never") -> dict[str, Any]:
    card = copy.deepcopy(CARD)
    card["method"] = {"blocks": blocks, "spare_blocks": spares, "aa": aa}
    card["system"]["launch"]["restart"] = restart
    return card


@given(
    seed=st.integers(0, 2**53 - 1), blocks=st.integers(6, 20), among=st.integers(5, 20), spares=st.integers(0, 3),
    at=st.lists(st.sampled_from([10.0, 20.0, 30.0]), min_size=1, unique=True),
    restart=st.sampled_from(["never", "each_cell", "each_arm_in_block"]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_aa_blocks_are_mixed_in_and_move_nothing(
    seed: int, blocks: int, among: int, spares: int, at: list[float], restart: str
) -> None:
    aa = {"blocks": among, "at": at, "within": {"value": 0.01, "scale": "relative"}}
    card = with_aa(aa, blocks, spares, restart)
    found = plan_blocks(card, seed)
    assert found == plan_blocks(card, seed)
    without = plan_blocks(with_aa(None, blocks, spares, restart), seed)
    assert [block for block in found if not block.aa] == without
    assert [block.as_json() for block in found if not block.aa] == [block.as_json() for block in without]
    own = [block for block in found if block.aa]
    assert [block.spare for block in own] == [False] * among + [True] * (spares > 0)
    assert [block.spare for block in found] == sorted(block.spare for block in found)
    numbers = [block.block for block in found]
    assert sorted(numbers) == list(range(1, len(found) + 1))
    cells = [cell for block in own for cell in block.cells]
    points = sorted([10.0, 20.0, 30.0].index(load) + 1 for load in at)
    assert {(cell.block, cell.arm, cell.load_point) for cell in cells} == {
        (block.block, arm, point) for block in own for arm in ("baseline", "baseline_aa") for point in points
    }
    assert len(cells) == 2 * len(own) * len(at)
    names = [cell.cell for block in found for cell in block.cells]
    assert len(set(names)) == len(names)
    assert all(cell.cell.startswith("a") for cell in cells)
    if restart == "each_arm_in_block":
        assert all(_changes(block) == 1 for block in own)


def _changes(block: Block) -> int:
    arms = [cell.arm for cell in block.cells]
    return sum(a != b for a, b in itertools.pairwise(arms))


def test_places_and_first_arms_are_random() -> None:
    """Over 400 seeds, of 8 A/B and 6 A/A blocks: each place holds an A/A block as often as another (6/14, ±4 standard
    errors), and either run of the baseline comes first as often."""
    aa = {"blocks": 6, "at": [20.0], "within": {"value": 0.01, "scale": "relative"}}
    plans = [plan_blocks(with_aa(aa), seed) for seed in range(400)]
    for place in range(14):
        assert abs(sum(plan[place].aa for plan in plans) - 400 * 6 / 14) < 4 * (400 * 6 / 14 * 8 / 14) ** 0.5
    first = sum(block.cells[0].arm == "baseline" for plan in plans for block in plan if block.aa)
    assert abs(first - 1400) < 4 * (2800 / 4) ** 0.5


@pytest.fixture
def cards(tmp_path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The small card at two loads, without A/A blocks and with them."""
    path = small_card(tmp_path, loads="20 req/s, 40 req/s")
    plain = load_card(path).resolved
    path.write_text(path.read_text().replace("{blocks: 6,", "{aa: {blocks: 5}, blocks: 6,"))
    return plain, load_card(path).resolved


def test_the_other_blocks_have_the_same_requests(cards: tuple[dict[str, Any], dict[str, Any]]) -> None:
    plain, mixed = (make_plan(card, "sha256:x") for card in cards)
    assert {key: mixed.requests[key] for key in plain.requests} == plain.requests
    assert {key: mixed.prompt_digests[key] for key in plain.requests} == plain.prompt_digests
    # 6 + 2 other blocks before them; the claim's load, 40 req/s, is the second; 5 and a spare
    assert set(mixed.requests) - set(plain.requests) == {(block, 2) for block in range(9, 15)}
    own = [digest for key, rows in mixed.prompt_digests.items() if key[0] > 8 for digest in rows]
    assert not set(own) & {digest for rows in plain.prompt_digests.values() for digest in rows}
    assert mixed.as_json()["blocks"] != plain.as_json()["blocks"]
    assert {"aa" in block for block in plain.as_json()["blocks"]} == {False}


def test_a_card_resolved_before_has_the_same_plan(cards: tuple[dict[str, Any], dict[str, Any]]) -> None:
    old = copy.deepcopy(cards[0])
    del old["method"]["aa"]
    assert make_plan(old, "sha256:x").digest() == make_plan(cards[0], "sha256:x").digest()


def test_duration_size_and_budget_count_them(cards: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Each cell .6 s, its drain 5 s. 6 + 2 blocks of 4 cells; 5 + 1 A/A blocks of 2."""
    plain, mixed = (plan_duration(card) for card in cards)
    assert (plain.load, plain.spares, plain.drain) == pytest.approx((14.4, 4.8, 160.0))
    assert (mixed.load, mixed.spares, mixed.drain) == pytest.approx((20.4, 6.0, 220.0))
    tight = cards[1] | {"decision": {"budget": 200.0}}
    require_budget(cards[0] | {"decision": {"budget": 200.0}}, plain)
    with pytest.raises(InputError, match=r"A/A blocks, spare blocks and worst-case drains included"):
        require_budget(tight, mixed)
    require_size(cards[1])


def test_prompts_are_salted_where_both_runs_are_one_server(cards: tuple[dict[str, Any], dict[str, Any]]) -> None:
    plan = make_plan(cards[1], "sha256:x")
    (first, second) = next(block for block in plan.blocks if block.aa).cells
    assert salt_of(plan, first) is None
    servers = {arm: {"server": {"url": f"http://{arm}/v1"}} for arm in ("baseline", "candidate")}
    plan.card["arms"] = servers
    assert {salt_of(plan, first), salt_of(plan, second)} == {f"11/{first.cell}", f"11/{second.cell}"}
    plan.card["method"]["aa"] = None
    assert salt_of(plan, first) is None

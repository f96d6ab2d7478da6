"""The stages of a run: A/A across the servers, at home, exchanged; and where spares and A/A blocks fall."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchcard.runner.audit.procedure import order
from benchcard.runner.plan.blocks import plan_blocks
from benchcard.runner.plan.plan import PILOT, Plan
from benchcard.runner.plan.salt import shared_server
from benchcard.runner.plan.stages import stages, with_spares
from benchcard.schema.card import load_card

from ..outside import two_servers

COMMAND = ", command: {before: [a], after: [b], within: 1 min}"


def plan_of(folder: Path, method: str, source: str = "card", seed: int = 3) -> Plan:
    card = load_card(two_servers(folder, "http://a/v1", "http://b/v1", method=method)).resolved
    return Plan(card, "", seed, source, plan_blocks(card, seed), {}, {})


def test_one_stage_without_any_of_it(tmp_path: Path) -> None:
    (stage,) = stages(plan_of(tmp_path, ""))
    assert (stage.name, dict(stage.places)) == ("home", {"baseline": "baseline", "candidate": "candidate"})
    assert (stage.blocks, stage.command) == ((1, 2, 3, 4, 5, 6), None)


def test_a_swap_with_aa_blocks_among_the_others(tmp_path: Path) -> None:
    """A/A blocks stay where they are drawn, and run where the baseline is then."""
    plan = plan_of(tmp_path, ", aa: {blocks: 5}, swap: {after_block: 3, command: [./swap.sh]}")
    home, swapped = stages(plan)
    assert home.blocks + swapped.blocks == tuple(b.block for b in plan.blocks if not b.spare)
    assert home.blocks[-1] == 3
    assert [n for n in home.blocks if n <= 6] == [1, 2, 3]
    assert [n for n in swapped.blocks if n <= 6] == [4, 5, 6]
    assert dict(home.places) == {"baseline": "baseline", "candidate": "candidate", "baseline_aa": "baseline"}
    assert dict(swapped.places) == {"baseline": "candidate", "candidate": "baseline", "baseline_aa": "candidate"}
    assert (swapped.command, swapped.within) == (["./swap.sh"], 1800.0)
    assert shared_server(plan.card)


def test_aa_across_stands_first(tmp_path: Path) -> None:
    method = f", aa: {{blocks: 5, across: servers{COMMAND}}}, swap: {{after_block: 3, command: [./swap.sh]}}"
    plan = plan_of(tmp_path, method)
    aa, home, swapped = stages(plan)
    assert [block.aa for block in plan.blocks] == [True] * 5 + [False] * 7 + [True]
    assert dict(aa.places) == {"baseline": "baseline", "baseline_aa": "candidate"}
    assert (aa.command, aa.within) == (["a"], 60.0)
    assert (home.command, home.blocks, swapped.blocks) == (["b"], (1, 2, 3), (4, 5, 6))
    assert dict(swapped.places) == {"baseline": "candidate", "candidate": "baseline"}
    assert not shared_server(plan.card)


def test_the_same_blocks_with_and_without(tmp_path: Path) -> None:
    """A swap changes no block, and A/A across the servers only where A/A blocks stand."""
    method = f", aa: {{blocks: 5, across: servers{COMMAND}}}, swap: {{after_block: 3, command: [./swap.sh]}}"
    with_, without = ([block for block in plan_of(tmp_path, m, seed=7).blocks if not block.aa] for m in (method, ""))
    assert with_ == without


def test_a_pilot_moves_nothing(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, ", swap: {after_block: 3, command: [./swap.sh]}", PILOT)
    assert len(stages(plan)) == 1


def test_a_spare_stays_on_its_side(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, ", swap: {after_block: 2, command: [./swap.sh]}")
    home, swapped = stages(plan)
    lines = [{"block": 1, "by": 7}, {"block": 5, "by": 8}, {"block": 7, "by": 9}]
    assert with_spares(home, lines) == [1, 2, 7, 9]
    assert with_spares(swapped, lines) == [3, 4, 5, 6, 8]


class Log:
    """What an audit's check of the order asks."""

    def __init__(self, plan: Plan, cells: list[str], replaced: list[dict[str, Any]]) -> None:
        self.plan, self.card = plan, plan.card
        self._lines = {
            "cell_started": [{"seq": 9 + n, "kind": "cell_started", "cell": cell} for n, cell in enumerate(cells)],
            "swapped": [{"seq": 1, "kind": "swapped"}],
            "block_replaced": [{"kind": "block_replaced", **line} for line in replaced],
            "run_ended": [{"kind": "run_ended", "why": "complete"}],
        }

    def lines(self, *kinds: str) -> list[dict[str, Any]]:
        return [line for kind in kinds for line in self._lines.get(kind, [])]


@pytest.mark.parametrize(("numbers", "fine"), [([1, 2, 7, 3, 4, 5, 6], True), ([1, 2, 3, 4, 5, 6, 7], False)])
def test_the_audit_wants_the_spare_on_its_side(tmp_path: Path, numbers: list[int], fine: bool) -> None:
    plan = plan_of(tmp_path, ", swap: {after_block: 2, command: [./swap.sh]}")
    cells = {block.block: [cell.cell for cell in block.cells] for block in plan.blocks}
    log = Log(plan, [cell for number in numbers for cell in cells[number]], [{"block": 1, "by": 7}])
    assert (list(order(log)) == []) is fine  # type: ignore[arg-type]

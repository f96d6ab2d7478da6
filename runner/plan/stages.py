"""The parts of a run in which each arm keeps its server: A/A across the servers first, then the arms at home, then,
with a swap, each at the other's. Pure.

A place is named by the arm whose `server` it is on the card. A spare runs in the stage of the block that it replaces,
so that the sides of a swap stay as they were planned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .blocks import BASELINE, BASELINE_AA, Block, arms_run, declared_arm
from .plan import Plan

CANDIDATE = "candidate"


@dataclass(frozen=True)
class Stage:
    """Blocks that run with the arms at the same places. `places`: each arm that runs -> the arm whose server it is
    asked at. `command`: what is run to get there, None where nothing is; `within`: how long that may take, s. `blocks`:
    the planned ones, by number."""

    name: str
    places: Mapping[str, str]
    blocks: tuple[int, ...]
    command: Sequence[str] | None = None
    within: float = 0.0


def is_across(card: dict[str, Any]) -> bool:
    """Whether A/A blocks run at the servers of both arms."""
    return bool((card["method"].get("aa") or {}).get("across"))


def stages(plan: Plan) -> list[Stage]:
    """The stages of a plan in their order; most plans have one."""
    card, method = plan.card, plan.card["method"]
    planned = [block for block in plan.blocks if not block.spare]
    ran = {cell.arm for block in planned for cell in block.cells}
    home = {arm: declared_arm(arm) for arm in arms_run(card) if arm in ran}
    across = is_across(card) and any(block.aa for block in planned)
    swap = None if plan.is_pilot else method.get("swap")
    found = []
    if across:
        command = method["aa"]["command"] or {}
        at = {BASELINE: BASELINE, BASELINE_AA: CANDIDATE}
        first = tuple(block.block for block in planned if block.aa)
        within = float(command.get("within", 0.0))
        found.append(Stage("aa", at, first, command.get("before"), within))
        home = {arm: place for arm, place in home.items() if arm != BASELINE_AA}
        planned = [block for block in planned if not block.aa]
        found.append(Stage("home", home, _before(planned, swap), command.get("after"), within))
    else:
        found.append(Stage("home", home, _before(planned, swap)))
    if swap:
        other = {BASELINE: CANDIDATE, CANDIDATE: BASELINE}
        there = {arm: other[place] for arm, place in home.items()}
        rest = tuple(block.block for block in planned)[len(found[-1].blocks) :]
        found.append(Stage("swapped", there, rest, swap["command"], swap["within"]))
    return found


def _before(planned: Sequence[Block], swap: Mapping[str, Any] | None) -> tuple[int, ...]:
    """The blocks up to the one after which the arms exchange places; all without a swap."""
    last = len(planned)
    if swap:
        numbers = [index for index, block in enumerate(planned, start=1) if not block.aa]
        last = numbers[min(swap["after_block"], len(numbers)) - 1]
    return tuple(block.block for block in planned[:last])


def with_spares(stage: Stage, replaced: Iterable[Mapping[str, Any]]) -> list[int]:
    """The stage's blocks and, after them, the spares that replaced one of them; `replaced`: the log's lines."""
    order = list(stage.blocks)
    for line in replaced:
        if line["block"] in order:
            order.append(line["by"])
    return order

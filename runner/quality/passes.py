"""The passes of the gates: which arms are asked, what each is asked, and how long that may take. Pure."""

from __future__ import annotations

from typing import Any

from ..plan.blocks import BASELINE, BASELINE_AA, Cell
from ..plan.plan import Plan

CANDIDATE = "candidate"


def gates_of(card: dict[str, Any], arm: str) -> list[int]:
    """The card's gates (from 0) that ask an arm; the baseline's second pass is for A/A, which greedy outputs need."""
    rows = card.get("quality") or []
    return [index for index, row in enumerate(rows) if arm != BASELINE_AA or row["gate"] == "greedy_divergence"]


def passes(card: dict[str, Any]) -> list[str]:
    """The arms in the order in which they are asked: the baseline on both sides of the candidate."""
    return [arm for arm in (BASELINE, CANDIDATE, BASELINE_AA) if gates_of(card, arm)]


def askings(card: dict[str, Any], arm: str) -> int:
    """How many requests a pass counts."""
    return sum(card["quality"][index]["prompts"] * card["quality"][index]["repeats"] for index in gates_of(card, arm))


def longest_seconds(card: dict[str, Any]) -> float:
    """What all gates take at the worst: each gate its `within` and the last request's timeout, in each pass. Server
    starts come on top."""
    last = card["workload"]["client"]["timeout_total"]
    return float(sum(card["quality"][index]["within"] + last for arm in passes(card) for index in gates_of(card, arm)))


def place_of(plan: Plan, arm: str) -> Cell:
    """The pass as a cell, for whoever starts its server: in a block of its own after all others, the baseline's second
    pass in another one, so that it is started anew where arms are restarted. The second pass is the baseline."""
    last = max((block.block for block in plan.blocks), default=0)
    again = arm == BASELINE_AA
    started = BASELINE if again else arm
    return Cell(f"quality-{arm}", last + (2 if again else 1), started, 1, float(plan.card["workload"]["loads"][0]))

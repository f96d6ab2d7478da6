"""How long a plan takes, by its own numbers. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...schema.errors import InputError
from ..people import people_time
from .blocks import Block


@dataclass(frozen=True)
class Duration:
    """Seconds. `load`: warm-up, window and pauses of the planned blocks; `spares`: the same of the spare blocks;
    `drain`: what
    the drains add at the worst. None where the system's speed decides (a closed loop bounded by count)."""

    load: float | None
    spares: float | None
    drain: float


def plan_duration(card: dict[str, Any], blocks: list[Block]) -> Duration:
    """The time that the plan's cells take; server starts come on top."""
    pause = card["method"]["pause_between_cells"]
    drain = card["workload"]["window"]["drain"]
    planned: list[float | None] = []
    spares: list[float | None] = []
    for block in blocks:
        for cell in block.cells:
            seconds = cell_seconds(card, cell.load)
            (spares if block.spare else planned).append(None if seconds is None else seconds + pause)
    return Duration(_sum(planned), _sum(spares), drain * sum(len(block.cells) for block in blocks))


def require_budget(card: dict[str, Any], duration: Duration) -> None:
    """Refuse a plan that can outgrow the budget of its decision: load, spare blocks and worst-case drains."""
    budget = card["decision"]["budget"]
    needed = (duration.load or 0.0) + (duration.spares or 0.0) + duration.drain
    if needed > budget:
        raise InputError(
            f"the plan may need {people_time(needed)} (spare blocks and worst-case drains included; server starts come "
            f"on top), and decision.budget is {people_time(budget)}: take fewer loads or blocks, a shorter window or "
            "client.timeout_total, or raise the budget"
        )


def cell_seconds(card: dict[str, Any], load: float) -> float | None:
    """Warm-up and window of a cell in seconds; None where the system's speed decides."""
    workload = card["workload"]
    seconds = 0.0
    for phase in ("warmup", "measure"):
        bound = workload["window"][phase]
        if "seconds" in bound:
            seconds += bound["seconds"]
        elif workload["load_kind"] == "rate":
            seconds += bound["requests"] / load
        else:
            return None
    return seconds


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None

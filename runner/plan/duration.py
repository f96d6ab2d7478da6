"""How long a plan takes, by its own numbers. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...schema.errors import InputError
from ..people import people_time
from ..quality.passes import longest_seconds
from .blocks import aa_spares

#: a plan is made as a whole, in memory
MOST_REQUESTS = 5_000_000


@dataclass(frozen=True)
class Duration:
    """Seconds. `load`: warm-up, window and pauses of planned blocks, A/A blocks included; `spares`: the same of spare
    blocks; `drain`: what the drains add at the worst. None where the system's speed decides (a closed loop bounded by
    count). `gates`: what the quality gates take at the worst, outside of the blocks."""

    load: float | None
    spares: float | None
    drain: float
    gates: float = 0.0


def plan_duration(card: dict[str, Any]) -> Duration:
    """The time that the plan's cells take; server starts come on top."""
    method, drain = card["method"], card["workload"]["window"]["drain"]
    load, spares, drains = 0.0, 0.0, 0.0
    for at, arms, blocks, spare in block_kinds(card):
        cells = [cell_seconds(card, rate) for rate in at for _ in range(arms)]
        known = [seconds + method["pause_between_cells"] for seconds in cells if seconds is not None]
        block = sum(known) if len(known) == len(cells) else math.nan
        load, spares = load + block * blocks, spares + block * spare
        drains += drain * len(cells) * (blocks + spare)
    if math.isnan(load):
        return Duration(None, None, drains, longest_seconds(card))
    return Duration(load, spares, drains, longest_seconds(card))


def block_kinds(card: dict[str, Any]) -> list[tuple[list[float], int, int, int]]:
    """(its loads, its arms, how many are planned, how many are spare) of each kind of block: A/B, and A/A where the
    card has it."""
    method = card["method"]
    kinds = [(card["workload"]["loads"], len(card["arms"]), method["blocks"], method["spare_blocks"])]
    aa = method.get("aa")
    return kinds + ([(aa["at"], 2, aa["blocks"], aa_spares(card))] if aa else [])


def require_size(card: dict[str, Any]) -> None:
    """Refuse a plan of more requests than can be planned, before planning them."""
    workload = card["workload"]
    if workload["load_kind"] != "rate":
        return
    count = 0.0
    for loads, _, blocks, spares in block_kinds(card):
        seconds = [(cell_seconds(card, load) or 0.0) + workload["window"]["drain"] for load in loads]
        count += sum(load * s for load, s in zip(loads, seconds, strict=True)) * (blocks + spares)
    if count > MOST_REQUESTS:
        raise InputError(f"the plan would hold about {count:.2g} requests; wanted at most {MOST_REQUESTS:,}")


def require_budget(card: dict[str, Any], duration: Duration) -> None:
    """Refuse a plan that can outgrow the budget of its decision: load, A/A and spare blocks, worst-case drains."""
    budget = card["decision"]["budget"]
    needed = (duration.load or 0.0) + (duration.spares or 0.0) + duration.drain + duration.gates
    if needed > budget:
        included = "A/A blocks, spare blocks" if card["method"].get("aa") else "spare blocks"
        included += ", quality gates" if duration.gates else ""
        raise InputError(
            f"the plan may need {people_time(needed)} ({included} and worst-case drains included; server starts come "
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

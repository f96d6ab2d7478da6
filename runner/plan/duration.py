"""How long a plan takes, by its own numbers. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...schema.errors import InputError
from ..people import people_time

#: a plan is made as a whole, in memory
MOST_REQUESTS = 5_000_000


@dataclass(frozen=True)
class Duration:
    """Seconds. `load`: warm-up, window and pauses of planned blocks; `spares`: the same of spare blocks; `drain`:
    what the drains add at the worst. None where the system's speed decides (a closed loop bounded by count)."""

    load: float | None
    spares: float | None
    drain: float


def plan_duration(card: dict[str, Any]) -> Duration:
    """The time that the plan's cells take; server starts come on top."""
    method, workload = card["method"], card["workload"]
    cells = [cell_seconds(card, load) for load in workload["loads"] for _ in card["arms"]]
    known = [seconds + method["pause_between_cells"] for seconds in cells if seconds is not None]
    block = sum(known) if len(known) == len(cells) else None
    blocks, spares = method["blocks"], method["spare_blocks"]
    drain = workload["window"]["drain"] * len(cells) * (blocks + spares)
    return Duration(None if block is None else block * blocks, None if block is None else block * spares, drain)


def require_size(card: dict[str, Any]) -> None:
    """Refuse a plan of more requests than can be planned, before planning them."""
    workload, method = card["workload"], card["method"]
    if workload["load_kind"] != "rate":
        return
    seconds = [(cell_seconds(card, load) or 0.0) + workload["window"]["drain"] for load in workload["loads"]]
    count = sum(load * s for load, s in zip(workload["loads"], seconds, strict=True))
    count *= method["blocks"] + method["spare_blocks"]
    if count > MOST_REQUESTS:
        raise InputError(f"the plan would hold about {count:.2g} requests; wanted at most {MOST_REQUESTS:,}")


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

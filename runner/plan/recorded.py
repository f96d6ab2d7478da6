"""Which recorded request each slot gets. Pure."""

from __future__ import annotations

from typing import Any

from ...schema.errors import InputError
from .draws import Stream
from .lengths import Key


def recorded_rows(card: dict[str, Any], key: Key, n: int, rows: int) -> list[int]:
    """The row of the file for each of n requests. reuse: never: one random order of the file, dealt out to all load
    points of all blocks like cards, so that no two have a row in common, whatever their numbers. in_each_block: each
    has a random order of its own, over and over. Raises InputError where the file is too short."""
    seed, block, point = key
    method, points = card["method"], len(card["workload"]["loads"])
    file = card["workload"]["requests"]["file"]
    if file["reuse"] == "in_each_block":
        order = Stream(seed, "rows", block, point).shuffled(list(range(rows)))
        return [order[index % rows] for index in range(n)]
    hands = (method["blocks"] + method["spare_blocks"]) * points
    if n * hands > rows:
        raise InputError(
            f"{file['path']['name']} holds {rows} requests, and block {block} needs {n} at load point {point}: that is "
            f"{n * hands} for {hands} cells of each arm that share none (drains included). Take a longer file, fewer "
            "blocks, a shorter window or client.timeout_total, or `reuse: in_each_block` with cache_state: reset"
        )
    order = Stream(seed, "rows").shuffled(list(range(rows)))
    mine = (block - 1) * points + point - 1
    return [order[index * hands + mine] for index in range(n)]

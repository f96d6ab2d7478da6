"""Blocks and cells in randomized order. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from .draws import Stream


@dataclass(frozen=True)
class Cell:
    """One arm at one load point in one block: the unit that is run."""

    cell: str
    block: int
    arm: str
    load_point: int
    load: float


@dataclass(frozen=True)
class Block:
    """Every cell once, in random order. A spare replaces a block with an invalid or killed cell."""

    block: int
    spare: bool
    loads: list[int]
    arms: list[str]
    cells: list[Cell]

    def as_json(self) -> dict[str, Any]:
        """The block in plan.json: its cells by id."""
        return {**asdict(self), "cells": [cell.cell for cell in self.cells]}


def plan_blocks(card: dict[str, Any], seed: int) -> list[Block]:
    """The planned blocks, then the spares. Order within a block:

    - servers that stay up, or restart for each cell: loads in random order, at each the arms back to back in random
      order (drawn for each load);
    - servers restarted for each arm in a block: arms in random order, each through the loads in the block's order.
    """
    method = card["method"]
    arms = list(card["arms"])
    loads = card["workload"]["loads"]
    by_arm = card["system"]["launch"]["restart"] == "each_arm_in_block" and card["system"]["engine"]["kind"] != "openai"
    blocks = []
    for number in range(1, method["blocks"] + method["spare_blocks"] + 1):
        stream = Stream(seed, "order", number)
        load_order = stream.shuffled(list(range(1, len(loads) + 1)))
        arm_order = [arms[i] for i in stream.shuffled(list(range(len(arms))))]
        if by_arm:
            pairs = [(arm, point) for arm in arm_order for point in load_order]
        else:
            pairs = list(_back_to_back(stream, arms, load_order))
        cells = [
            Cell(f"b{number:02d}-{arm}-l{point}", number, arm, point, float(loads[point - 1])) for arm, point in pairs
        ]
        blocks.append(Block(number, number > method["blocks"], load_order, arm_order, cells))
    return blocks


def _back_to_back(stream: Stream, arms: list[str], load_order: list[int]) -> Iterator[tuple[str, int]]:
    for point in load_order:
        for i in stream.shuffled(list(range(len(arms)))):
            yield arms[i], point

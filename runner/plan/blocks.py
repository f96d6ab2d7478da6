"""Blocks and cells in randomized order. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from .draws import Stream

BASELINE = "baseline"
#: the baseline's second run in an A/A block: a system of its own, started as the baseline is
BASELINE_AA = "baseline_aa"


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
    """Every cell once, in random order. A spare replaces a block with an invalid or killed cell. In an A/A block (`aa`)
    the baseline runs against itself; its spare replaces A/A blocks alone."""

    block: int
    spare: bool
    loads: list[int]
    arms: list[str]
    cells: list[Cell]
    aa: bool = False

    def as_json(self) -> dict[str, Any]:
        """The block in plan.json: its cells by id. `aa` stands there only where it is one."""
        row = {**asdict(self), "cells": [cell.cell for cell in self.cells]}
        return row if self.aa else {key: value for key, value in row.items() if key != "aa"}


def declared_arm(arm: str) -> str:
    """The arm of the card that an arm of the plan is: the second run of the baseline is the baseline."""
    return BASELINE if arm == BASELINE_AA else arm


def arms_run(card: dict[str, Any]) -> list[str]:
    """The arms that run, each a system of its own: the card's, and the baseline's second one where A/A blocks are."""
    return [*card["arms"], *([BASELINE_AA] if card["method"].get("aa") else [])]


def plan_blocks(card: dict[str, Any], seed: int) -> list[Block]:
    """The planned blocks, then the spares. Order within a block:

    - servers that stay up, or restart for each cell: loads in random order, at each the arms back to back in random
      order (drawn for each load);
    - servers restarted for each arm in a block: arms in random order, each through the loads in the block's order.

    A/A blocks are numbered after all others and mixed in at random places, from draws of their own: the other blocks
    are what they would be without, in requests and order. Across the servers of both arms they come first.
    """
    method = card["method"]
    points = list(range(1, len(card["workload"]["loads"]) + 1))
    planned, spare = method["blocks"], method["spare_blocks"]
    blocks = [_block(card, seed, "b", number, number, points) for number in range(1, planned + 1)]
    spares = [_block(card, seed, "b", n, n, points, spare=True) for n in range(planned + 1, planned + spare + 1)]
    aa = method.get("aa")
    if aa:
        at = [card["workload"]["loads"].index(load) + 1 for load in aa["at"]]
        count = aa["blocks"] + aa_spares(card)
        among = [
            _block(card, seed, "a", planned + spare + k, k, at, spare=k > aa["blocks"]) for k in range(1, count + 1)
        ]
        planned_aa = [block for block in among if not block.spare]
        # Across the servers of both arms they stand together: the candidate's has another configuration meanwhile.
        blocks = planned_aa + blocks if aa.get("across") else _mixed(blocks, planned_aa, seed)
        spares += [block for block in among if block.spare]
    return blocks + spares


def aa_spares(card: dict[str, Any]) -> int:
    """How many spare A/A blocks there are: one where the card has spares. Beyond it A/A blocks are fewer, which no
    verdict on the arms hangs on."""
    return 1 if card["method"]["spare_blocks"] else 0


def _block(
    card: dict[str, Any], seed: int, letter: str, number: int, name: int, points: list[int], *, spare: bool = False
) -> Block:
    """One block over these load points, its order drawn by its number."""
    aa = letter == "a"
    arms = [BASELINE, BASELINE_AA] if aa else list(card["arms"])
    system, loads = card["system"], card["workload"]["loads"]
    stream = Stream(seed, "order", number)
    load_order = stream.shuffled(points)
    arm_order = [arms[i] for i in stream.shuffled(list(range(len(arms))))]
    if system["launch"]["restart"] == "each_arm_in_block" and system["engine"]["kind"] != "openai":
        pairs = [(arm, point) for arm in arm_order for point in load_order]
    else:
        pairs = list(_back_to_back(stream, arms, load_order))
    cells = [
        Cell(f"{letter}{name:02d}-{arm}-l{point}", number, arm, point, float(loads[point - 1])) for arm, point in pairs
    ]
    return Block(number, spare, load_order, arm_order, cells, aa)


def _mixed(blocks: list[Block], among: list[Block], seed: int) -> list[Block]:
    """Both sequences as one, every mixture of them as likely as any other; each keeps its own order."""
    places = Stream(seed, "aa places").shuffled(list(range(len(blocks) + len(among))))
    queues = {False: iter(blocks), True: iter(among)}
    return [next(queues[place >= len(blocks)]) for place in places]


def _back_to_back(stream: Stream, arms: list[str], load_order: list[int]) -> Iterator[tuple[str, int]]:
    for point in load_order:
        for i in stream.shuffled(list(range(len(arms)))):
            yield arms[i], point

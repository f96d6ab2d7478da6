"""A bundle on disk -> plain records and polars frames. Nothing is computed here; what is missing or foreign is refused.

Every problem is a `BundleError` with one line: the file, the place in it, what was found and what would be right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from .card import AA_ARMS, check_card
from .columns import CLIENT_COLUMNS, EVENT_COLUMNS, HOST_COLUMNS, REQUEST_COLUMNS, SERVER_COLUMNS, START_COLUMNS
from .files import read_frame, read_json, read_log, read_row
from .records import BundleError, Record, need, require_version

#: format version of the plan that this analysis reads (1: first)
PLAN_VERSION = 1
#: format version of the instrument's certificate that this analysis reads (1: first)
CERTIFICATE_VERSION = 1


@dataclass(frozen=True)
class Cell:
    """One arm at one load point in one block, as plan.json names it."""

    cell: str
    block: int
    arm: str
    load_point: int
    load: float


@dataclass(frozen=True)
class Block:
    """A planned block and its cells in the order in which they were to run; `aa`: the baseline against itself."""

    block: int
    spare: bool
    cells: tuple[Cell, ...]
    aa: bool = False


@dataclass(frozen=True)
class Bundle:
    """A run directory. Small files are read at once; events and telemetry cell by cell, when asked for."""

    root: Path
    card: Record
    plan: Record
    log: tuple[Record, ...]
    blocks: tuple[Block, ...]

    @property
    def run(self) -> str:
        """The run's id, from the first `run_started` line of the attempt log."""
        for line in self.log:
            if line.get("kind") == "run_started":
                return str(need(line, "run", str, f"{self.root / 'attempts.jsonl'}: run_started"))
        raise BundleError(f"{self.root / 'attempts.jsonl'}: no run_started line; this run never began")

    @cached_property
    def requests(self) -> pl.DataFrame:
        """Every planned request (plan/requests.parquet)."""
        return read_frame(self.root / "plan" / "requests.parquet", REQUEST_COLUMNS)

    def planned(self, cell: Cell) -> pl.DataFrame:
        """The planned requests of a cell; both arms of a block share them."""
        return self.requests.filter((pl.col("block") == cell.block) & (pl.col("load_point") == cell.load_point))

    def has_events(self, cell: Cell) -> bool:
        """Whether the cell was finished: its event file stands under its final name."""
        return (self.root / "events" / f"{cell.cell}.parquet").is_file()

    def events(self, cell: Cell) -> pl.DataFrame:
        """The cell's attempts in the order of their index; times in ns since the run's epoch."""
        events = read_frame(self.root / "events" / f"{cell.cell}.parquet", EVENT_COLUMNS)
        return events if events["index"].is_sorted() else events.sort("index")

    def client(self, cell: Cell) -> Record | None:
        """The measuring client's view of itself over the cell, or None where it left none."""
        return read_row(self.root / "telemetry" / f"client-{cell.cell}.parquet", CLIENT_COLUMNS)

    def start(self, cell: Cell) -> Record | None:
        """The start of the server that was started for the cell, or None where no record of it is left."""
        path = self.root / "telemetry" / f"start-{cell.cell}.parquet"
        found = read_row(path, START_COLUMNS)
        for name in ("launched", "ready"):
            if found is not None and found[name] is None:
                raise BundleError(f"{path}: no time in {name}; only `looked` may have none")
        return found

    def server(self, cell: Cell) -> pl.DataFrame | None:
        """The server's metrics before and after the cell, or None where they were not read."""
        path = self.root / "telemetry" / f"server-{cell.cell}.parquet"
        return read_frame(path, SERVER_COLUMNS) if path.is_file() else None

    def host(self, cell: Cell) -> pl.DataFrame | None:
        """The samples of the machine over the cell's load, or None where nobody looked."""
        path = self.root / "telemetry" / f"host-{cell.cell}.parquet"
        return read_frame(path, HOST_COLUMNS) if path.is_file() else None

    def quality(self, gate: str, columns: Mapping[str, Any]) -> pl.DataFrame | None:
        """A quality gate's table of items, or None where the gate was not run."""
        path = self.root / "quality" / f"{gate}.parquet"
        return read_frame(path, columns) if path.is_file() else None

    def certificate(self, number: int | None) -> Record | None:
        """The instrument's certificate of a sitting, or None where there is none."""
        path = self.root / "instrument" / f"{number}.json"
        if number is None or not path.is_file():
            return None
        found = read_json(path)
        require_version(found, "certificate_version", CERTIFICATE_VERSION, str(path))
        for index, point in enumerate(need(found, "points", list, str(path))):
            _check_point(point, f"{path}: points[{index}]")
        return found

    def certificates(self) -> list[Record]:
        """Every certificate of the instrument, one a sitting."""
        count = len(list((self.root / "instrument").glob("*.json")))
        found = (self.certificate(number) for number in range(1, count + 1))
        return [certificate for certificate in found if certificate is not None]

    def identity(self, arm: str) -> Record | None:
        """The observed identity of an arm, field by field, or None where there is none."""
        path = self.root / "identity" / f"{arm}.json"
        if not path.is_file():
            return None
        return _fields(path)[0]

    @property
    def identity_version(self) -> int:
        """Format version of the identity files: 2 holds whole configurations, and what each cell's look found."""
        found = [read_json(path) for path in sorted((self.root / "identity").glob("*.json"))]
        versions = [file.get("identity_version", 1) for file in found]
        return max((version for version in versions if isinstance(version, int)), default=1)

    def cells_looked_at(self) -> list[Cell]:
        """The cells before which the server was looked at again, in plan order."""
        cells = (cell for block in self.blocks for cell in block.cells)
        return [cell for cell in cells if self._look(cell).is_file()]

    def look(self, cell: Cell) -> tuple[Record, list[str]]:
        """What a look before a cell found to be other than at the arm's first, field by field; and the fields that were
        gone."""
        return _fields(self._look(cell))

    def _look(self, cell: Cell) -> Path:
        return self.root / "identity" / "cells" / f"{cell.cell}.json"


def _fields(path: Path) -> tuple[Record, list[str]]:
    """The fields of an identity file, and the names under `gone`."""
    found = read_json(path)
    fields = need(found, "fields", dict, str(path))
    gone = [str(name) for name in need(found, "gone", list, str(path))] if "gone" in found else []
    return {str(name): field for name, field in fields.items() if isinstance(field, dict)}, gone


def read_bundle(root: Path) -> Bundle:
    """Open a run directory. Raises `BundleError` if a file is missing, broken, foreign or of a newer format."""
    if not root.is_dir():
        raise BundleError(f"{root}: no such directory; wanted a run directory (with card.resolved.json and plan.json)")
    card = read_json(root / "card.resolved.json")
    check_card(card, str(root / "card.resolved.json"))
    plan = read_json(root / "plan.json")
    require_version(plan, "plan_version", PLAN_VERSION, str(root / "plan.json"))
    where = str(root / "plan.json")
    if need(plan, "card_id", str, where) != card["id"]:
        raise BundleError(f"{where}: the plan is of card {plan['card_id']!r}, but card.resolved.json is {card['id']!r}")
    for key, wanted in (("card_digest", str), ("seed", int), ("cells", list), ("blocks", list)):
        need(plan, key, wanted, where)
    blocks = _blocks(plan, where)
    _check_cells(blocks, card, where)
    return Bundle(root, card, plan, read_log(root / "attempts.jsonl"), blocks)


def _check_cells(blocks: tuple[Block, ...], card: Record, where: str) -> None:
    loads = card["workload"]["loads"]
    for within, cell in ((block, cell) for block in blocks for cell in block.cells):
        if cell.arm not in (AA_ARMS if within.aa and card["method"].get("aa") else card["arms"]):
            raise BundleError(f"{where}: cell {cell.cell} is of arm {cell.arm!r}, which the card does not have")
        if not 1 <= cell.load_point <= len(loads) or loads[cell.load_point - 1] != cell.load:
            raise BundleError(
                f"{where}: cell {cell.cell} is at load point {cell.load_point} ({cell.load:g}), not the card's"
            )


def _blocks(plan: Record, where: str) -> tuple[Block, ...]:
    cells: dict[str, Cell] = {}
    for row in plan["cells"]:
        name = need(row, "cell", str, f"{where}: cells")
        if name in cells:
            raise BundleError(f"{where}: cell {name!r} stands twice")
        place = f"{where}: cell {name}"
        cells[name] = Cell(
            name,
            need(row, "block", int, place),
            need(row, "arm", str, place),
            need(row, "load_point", int, place),
            float(need(row, "load", (int, float), place)),
        )
    blocks = []
    for row in plan["blocks"]:
        number = need(row, "block", int, f"{where}: blocks")
        names = need(row, "cells", list, f"{where}: block {number}")
        unknown = [name for name in names if name not in cells]
        if unknown:
            raise BundleError(f"{where}: block {number} names cell {unknown[0]!r}, which cells does not have")
        spare = need(row, "spare", bool, f"{where}: block {number}")
        blocks.append(Block(number, spare, tuple(cells[name] for name in names), row.get("aa") is True))
    return tuple(blocks)


def _check_point(point: Any, where: str) -> None:
    """A point of a certificate: loads are divided by, so they are above 0; an error may be null."""
    for key in ("peak_in_flight", "tokens_per_s", "requests_per_s"):
        if not 0 < need(point, key, (int, float), where) < float("inf"):
            raise BundleError(f"{where}: {key} is {point[key]!r}; wanted a number above 0")
    for key in ("lost", "tokens"):
        need(point, key, int, where)
    for key in ("ttft_p50_error", "ttft_p99_error", "itl_p99_error"):
        need(point, key, (int, float, type(None)), where)

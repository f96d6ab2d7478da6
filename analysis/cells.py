"""A cell's events -> its metrics, judgement, checks and latency curves. At most `AT_ONCE` cells are in memory.

Which blocks count is decided here too, from evidence only: every cell of the block has its events and passes its
checks; the first `method.blocks` such blocks in plan order are used (spares come last in the plan).
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import polars as pl

from .checks import CheckResult, check_cell
from .client_and_server import compare
from .compared import Compared
from .curves import Curve, thin
from .goodput import Judgement, judge
from .issued import Issued, issued
from .lengths import OutputLengths, PromptLengths, output_lengths, prompt_lengths, shorter_than_asked
from .metrics import Measured, Value, measure
from .populations import Part, measure_parts, own_objectives
from .quantities import Quantities, quantities
from .read import Block, Bundle, Cell
from .records import Record
from .reuse import CachedShare, cached_share
from .server_cell import ServerCell, read_server
from .start import Started, cold_start, facts
from .steady import SteadyCell, steady_cell
from .turns import Told, told
from .view import CellView
from .window import counted, measured_window, tokens_inside

#: quantities whose distribution goes into series/latency.parquet
CURVES = ("ttft", "tpot", "itl", "e2e")
#: cells that are measured at once; numpy and polars leave the interpreter to the other meanwhile
AT_ONCE = 2


@dataclass(frozen=True)
class CellResult:
    """What remains of a cell once its events are closed. `other_count` is the number of ok attempts whose chunks add up
    to another number of tokens than the server reports, `short` the number of ok attempts with fewer output tokens than
    were asked for, where the end of the output was to be ignored, `again` the number of counted attempts that took more
    than one try, `parts` the card's populations by name, none where it has none; `started` the start of its server
    where the card measures starts, `server` what the server told of itself, `compared` client against server."""

    cell: Cell
    checks: tuple[CheckResult, ...]
    values: dict[str, Value]
    judgement: Judgement
    window_s: float | None
    curves: dict[str, Curve]
    other_count: int
    short: int
    again: int
    prompts: PromptLengths
    outputs: OutputLengths
    issued: Issued
    cached: CachedShare
    told: Told | None
    steady: SteadyCell
    parts: dict[str, Part]
    started: Started | None = None
    server: ServerCell | None = None
    compared: tuple[Compared, ...] = ()

    def of(self, population: str | None) -> CellResult | Part:
        """The whole cell, or one of its populations."""
        return self if population is None else self.parts[population]

    @property
    def failed_checks(self) -> list[str]:
        """Names of the checks that the cell did not pass."""
        return [result.check.name for result in self.checks if not result.passed]


@dataclass(frozen=True)
class BlockResult:
    """A block, the cells of it that were run, whether it is used, and if not, why; `cause` is the first of the reasons,
    in the order of its cells."""

    block: Block
    cells: tuple[CellResult | None, ...]
    used: bool
    reason: str | None
    cause: str | None


@dataclass(frozen=True)
class Reading:
    """All that the rest of the analysis stands on. A/A blocks stand apart (`aa`), so that nothing said of the arms is
    made from them."""

    bundle: Bundle
    blocks: tuple[BlockResult, ...]
    valid_blocks: int
    aa: tuple[BlockResult, ...] = ()

    @property
    def wanted(self) -> int:
        """Blocks that the card asks for."""
        return int(self.bundle.card["method"]["blocks"])

    @property
    def complete(self) -> bool:
        """Enough blocks are valid."""
        return self.valid_blocks >= self.wanted

    def used(self, arm: str | None = None, load_point: int | None = None) -> list[CellResult]:
        """Cells of used blocks, in plan order of the blocks."""
        return [
            cell
            for block in self.blocks
            if block.used
            for cell in block.cells
            if cell is not None and arm in (None, cell.cell.arm) and load_point in (None, cell.cell.load_point)
        ]

    def checked(self) -> list[tuple[Cell, tuple[CheckResult, ...]]]:
        """Every cell that was run, with its checks; those of A/A blocks too."""
        blocks = (*self.blocks, *self.aa)
        return [(cell.cell, cell.checks) for block in blocks for cell in block.cells if cell is not None]


def read_cells(bundle: Bundle) -> Reading:
    """Measure every cell that was run and say which blocks are used."""
    method = bundle.card["method"]
    blocks = _results(bundle, [block for block in bundle.blocks if not block.aa], int(method["blocks"]))
    among = [block for block in bundle.blocks if block.aa]
    aa = _results(bundle, among, int(method["aa"]["blocks"])) if among else ()
    return Reading(bundle, blocks, sum(block.used for block in blocks), aa)


def _results(bundle: Bundle, planned: list[Block], wanted: int) -> tuple[BlockResult, ...]:
    """The first `wanted` valid blocks, in the order of the plan, are used."""
    blocks: list[BlockResult] = []
    valid = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(
            lambda cell: read_cell(bundle, cell) if bundle.has_events(cell) else None,
            [cell for block in planned for cell in block.cells],
        )
        results = iter(list(found))
    for block in planned:
        cells = tuple(itertools.islice(results, len(block.cells)))
        reasons = _unusable(bundle, block, cells)
        used = not reasons and valid < wanted
        if not reasons and not used:
            reasons = ["not needed: enough earlier blocks are valid"]
        valid += used
        blocks.append(BlockResult(block, cells, used, "; ".join(reasons) or None, reasons[0] if reasons else None))
    return tuple(blocks)


def _unusable(bundle: Bundle, block: Block, cells: tuple[CellResult | None, ...]) -> list[str]:
    """Why a block cannot count, in the order of its cells; a cell without events is named only where no other reason
    explains it, since a block is given up at its first fault."""
    if not block.cells:
        return ["the plan gives it no cells"]
    log = {str(line.get("cell")): line for line in bundle.log if line.get("kind") in ("cell_killed", "cell_failed")}
    reasons, silent = [], []
    for planned, cell in zip(block.cells, cells, strict=True):
        if planned.cell in log:
            reasons.append(_stopped(log[planned.cell]))
        elif cell is not None and cell.failed_checks:
            reasons.append(f"{planned.cell} failed {', '.join(cell.failed_checks)}")
        elif cell is None:
            silent.append(f"{planned.cell} has no events")
    if not reasons and len(silent) == len(block.cells):
        return ["spare, not run" if block.spare else "not run"]
    return reasons or silent


def _stopped(line: Record) -> str:
    """What the log says of a cell that never got its events."""
    why = f" ({line['why']})" if line.get("why") else ""
    return f"{line['cell']} {'was killed' if line['kind'] == 'cell_killed' else 'broke off'}{why}"


def read_cell(bundle: Bundle, cell: Cell) -> CellResult:
    """Measure one cell."""
    events, client = bundle.events(cell), bundle.client(cell)
    window = measured_window(client)
    attempts = counted(events)
    found = quantities(attempts)
    judgement = judge(attempts, found, bundle.card.get("objectives"), own_objectives(bundle.card))
    certificate = bundle.certificate(client["certificate"]) if client else None
    server = bundle.server(cell)
    cold = facts(bundle.start(cell), attempts, window) if cold_start(bundle.card) else None
    view = CellView(
        bundle.card, cell, events, attempts, bundle.planned(cell), client, window, certificate, server,
        None if cold is None else cold.start, read_server(server, client),
    )  # fmt: skip
    view = replace(view, compared=compare(view))
    measured = Measured(
        attempted=attempts.height,
        ok=int(found.ok.sum()),
        good=judgement.good,
        tokens=tokens_inside(events, window) if window else 0,
        window_s=window.seconds if window else None,
        quantities=found,
        cold=cold,
    )
    return CellResult(
        cell, check_cell(view), measure(measured), judgement, measured.window_s, _curves(found), _other_count(attempts),
        shorter_than_asked(attempts) if (bundle.card["workload"].get("sampling") or {}).get("ignore_eos") else 0,
        attempts.filter(pl.col("tries") > 1).height, prompt_lengths(attempts), output_lengths(attempts),
        issued(attempts), cached_share(events, attempts, server), told(view),
        steady_cell(attempts, found.each["ttft"], float(bundle.card["analysis"]["confidence"])),
        measure_parts(bundle.card, events, attempts, window), None if cold is None else cold.started, view.told,
        view.compared,
    )  # fmt: skip


def _other_count(attempts: pl.DataFrame) -> int:
    differs = pl.col("chunk_tokens").list.sum().cast(pl.Int64) != pl.col("output_tokens").cast(pl.Int64)
    return attempts.filter((pl.col("outcome") == "ok") & differs.fill_null(False)).height


def _curves(found: Quantities) -> dict[str, Curve]:
    return {name: thin(found.samples[name]) for name in CURVES}


def check_rows(result: CellResult) -> list[Record]:
    """A cell's checks as records: name, passed, observed, limit, unit, reason, meaning, advice."""
    return [
        {
            "name": found.check.name,
            "passed": found.passed,
            "observed": found.observed,
            "limit": found.limit,
            "unit": found.check.unit,
            "reason": found.reason,
            "meaning": found.check.meaning,
            "advice": found.check.advice,
        }
        for found in result.checks
    ]


def where(cell: Cell) -> Record:
    """The cell that a row is of."""
    return {
        "cell": cell.cell,
        "block": cell.block,
        "arm": cell.arm,
        "load_point": cell.load_point,
        "load": cell.load,
    }


def metric_rows(reading: Reading, units: dict[str, str]) -> list[Record]:
    """verdict.json's metrics: one row a metric and used cell."""
    return [
        {
            **where(result.cell),
            "metric": name,
            "unit": units[name],
            "value": value.value,
            "n": value.n,
            "undefined": value.undefined,
        }
        for result in reading.used()
        for name, value in result.values.items()
    ]

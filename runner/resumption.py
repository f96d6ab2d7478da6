"""Going on with a run that was stopped: what must hold, and what becomes of the cells that were cut off."""

from __future__ import annotations

from dataclasses import replace

from ..schema.digest import digest_file
from ..schema.errors import BundleError
from .attempts import AttemptLog
from .bundle import Bundle
from .files import read_json
from .measure import Session, salvage
from .plan.blocks import Cell
from .plan.plan import Plan


def check_resumable(bundle: Bundle, plan: Plan, log: AttemptLog) -> None:
    """Refuse to go on where the bundle is not the one that was started: another plan, or finished cells that
    changed."""
    started = log.of_kind("run_started")
    if not started or started[0]["plan_digest"] != plan.digest():
        raise BundleError(f"{bundle.root}: its plan is not the one that its log began with; nothing is run")
    if read_json(bundle.plan) != plan.as_json():
        raise BundleError(f"{bundle.plan}: differs from the plan made again from card and seed; nothing is run")
    if log.of_kind("run_ended"):
        raise BundleError(
            f"{bundle.root}: this run has ended, so there is nothing to resume; `benchcard report {bundle.root}` "
            "analyses and renders it again"
        )
    for line in log.of_kind("cell_ended"):
        path = bundle.events(line["cell"])
        if not path.exists() or digest_file(path) != line["events_sha256"]:
            raise BundleError(f"{bundle.events(line['cell'])}: not the file that the log says was written")


def close_killed_cells(session: Session, log: AttemptLog) -> None:
    """Log each cell that began and did not end as killed, with what its client's files still held of it."""
    for cell in killed_cells(session.plan, log):
        # A cell begun is never run again: its prompts may be in a cache.
        why = "the run was killed or interrupted while this cell ran"
        # Killed between its last file and the log's line: kept as evidence, but not as a cell that ended.
        events = session.bundle.events(cell.cell)
        if events.exists():
            events.rename(events.with_suffix(".parquet.killed"))
        log.append("cell_killed", cell=cell.cell, why=why, salvaged=salvage(sitting_of(session, log, cell), cell))


def killed_cells(plan: Plan, log: AttemptLog) -> list[Cell]:
    """The planned cells that began and whose end the log does not tell, in the order of the plan."""
    over = {line["cell"] for line in log.of_kind("cell_ended", "cell_killed")}
    begun = {line["cell"] for line in log.of_kind("cell_started")}
    return [cell for cell in plan.cells() if cell.cell in begun - over]


def sitting_of(session: Session, log: AttemptLog, cell: Cell) -> Session:
    """The sitting in which a cell was started: its times count from another epoch."""
    epoch = session.epoch_ns
    for line in log.of_kind("run_started", "run_resumed", "cell_started"):
        if line["kind"] != "cell_started":
            epoch = line["epoch_ns"]
        elif line["cell"] == cell.cell:
            break
    return replace(session, epoch_ns=epoch)

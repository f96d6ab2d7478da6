"""One cell, from the plan to its files: metrics before, load, metrics after, events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..schema.errors import InputError
from .bundle import Bundle
from .client.cell import CellLoad, discard, read_attempts, run_cell
from .client.load import LoadSpec
from .client.pool import Rules, Timeouts
from .client.record import CellContext, event_frame, event_row
from .client.requests import RequestFile
from .client.sizing import workers_of
from .client.spool import read_spool
from .client.wire import request_body, request_prefix, request_rest
from .client.worker import CellJob
from .engines.fleet import Running
from .engines.launch import model_name
from .engines.probe import Probe
from .files import write_parquet
from .plan.blocks import Cell
from .plan.plan import Plan
from .plan.requests import PlannedRequest, prompt_tokens, salted
from .progress import Progress
from .secrets import read_key
from .telemetry.record import client_frame, scrape, server_frame
from .tokens.words import Words

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Session:
    """What the cells of one sitting have in common: the bundle, the plan, the monotonic epoch of its times, and the
    number of the instrument's certificate."""

    bundle: Bundle
    plan: Plan
    epoch_ns: int
    certificate: int | None = None


def prepare_cell(card: dict[str, Any], running: Running) -> None:
    """What the card asks for before a cell begins. Raises SystemUnderTestError; nothing was measured then."""
    if card["workload"]["cache_state"] == "reset":
        probe = Probe(running.endpoint)
        try:
            probe.reset_prefix_cache()
        finally:
            probe.close()


def measure_cell(session: Session, cell: Cell, running: Running, progress: Progress) -> pl.DataFrame:
    """Run one cell and write its telemetry and events; returns the events. Event files are written last: a cell that
    has one is whole."""
    card = session.plan.card
    planned = session.plan.requests[cell.block, cell.load_point]
    job = _job(session, cell, running)
    probe = Probe(running.endpoint)
    try:
        samples = scrape(probe, "before")
        load = run_cell(job, progress.attempts)
        samples += scrape(probe, "after")
    finally:
        probe.close()
    context = _context(session, cell, [value.removeprefix("Bearer ") for value in running.endpoint.headers.values()])
    frame = event_frame(event_row(context, attempt) for attempt in read_attempts(job))
    _write(
        session, cell, load, frame, server_frame(cell.cell, session.epoch_ns, samples), counted_planned(card, planned)
    )
    discard(job)
    return frame


def salvage(session: Session, cell: Cell) -> int:
    """What the client had spooled of a cell when it was killed, kept as evidence beside the events of whole cells (it
    is no event file, and nothing counts it). `session` is the sitting that was killed. Returns the number of attempts;
    the cell's working files are removed."""
    folder = session.bundle.root / "events"
    spools = sorted(folder.glob(f".{cell.cell}.*.spool"))
    context = _context(session, cell, _secrets(session.plan.card))
    frame = event_frame(event_row(context, attempt) for spool in spools for attempt in read_spool(spool))
    if frame.height:
        write_parquet(session.bundle.events(cell.cell).with_suffix(".parquet.killed"), frame)
    for left_over in folder.glob(f".{cell.cell}.*"):
        left_over.unlink()
    return frame.height


def _secrets(card: dict[str, Any]) -> list[str] | None:
    """The keys of the card's servers; None if one cannot be read now."""
    servers = [arm["server"] for arm in card["arms"].values() if arm.get("server")]
    try:
        return [key for server in servers if (key := read_key(server["api_key"])) is not None]
    except InputError:
        return None


def _context(session: Session, cell: Cell, secrets: list[str] | None) -> CellContext:
    return CellContext(
        session.bundle.name,
        cell,
        session.epoch_ns,
        session.plan.card["workload"]["client"]["token_counts"],
        session.plan.requests[cell.block, cell.load_point],
        session.plan.prompt_digests[cell.block, cell.load_point],
        secrets,
        Words.from_card(session.plan.card, session.plan.inputs).tokenizer,
    )


def counted_planned(card: dict[str, Any], planned: list[PlannedRequest]) -> int | None:
    """How many attempts the plan puts into the measured window; None where the clients of a closed loop decide."""
    if card["workload"]["load_kind"] == "rate":
        return sum(1 for request in planned if request.phase == "measure")
    count: int | None = card["workload"]["window"]["measure"].get("requests")
    return count


def shared_server(card: dict[str, Any]) -> bool:
    """Whether both arms are one server, so that one would warm the other's prefix cache."""
    urls = [arm["server"]["url"] for arm in card["arms"].values() if arm.get("server")]
    return len(urls) != len(set(urls))


def _job(session: Session, cell: Cell, running: Running) -> CellJob:
    card = session.plan.card
    workload, client = card["workload"], card["workload"]["client"]
    planned = session.plan.requests[cell.block, cell.load_point]
    closed = workload["load_kind"] == "concurrency"
    think_time = workload["arrivals"].get("think_time", 0.0)
    timeouts = Timeouts(*(round(client[f"timeout_{kind}"] * 1e9) for kind in ("connect", "idle", "total")))
    return CellJob(
        running.target,
        request_prefix(running.target, workload["endpoint"]),
        Rules(timeouts, client["retries"], client["in_flight"]),
        LoadSpec(workload["window"], planned, int(cell.load) if closed else None, round(think_time * 1e9)),
        RequestFile.write(_working_file(session, cell, "requests"), _requests(session, cell, running)),
        _working_file(session, cell, "spool"),
        workers_of(card),
    )


def _working_file(session: Session, cell: Cell, suffix: str) -> Path:
    return session.bundle.root / "events" / f".{cell.cell}.{suffix}"


def _requests(session: Session, cell: Cell, running: Running) -> Iterator[bytes]:
    """The bytes of the cell's requests, in the order of the plan."""
    card, plan = session.plan.card, session.plan
    salt = f"{plan.seed}/{cell.cell}" if shared_server(card) else None
    words = Words.from_card(card, plan.inputs)
    for request in plan.requests[cell.block, cell.load_point]:
        tokens = salted(prompt_tokens(plan.seed, cell.block, cell.load_point, request), salt)
        body = request_body(card, model_name(card), tokens.tolist(), request.output_tokens, words)
        yield request_rest(running.target, f"{cell.cell}-{request.index}", body)


def _write(
    session: Session, cell: Cell, load: CellLoad, events: pl.DataFrame, server: pl.DataFrame, counted: int | None
) -> None:
    bundle = session.bundle
    write_parquet(bundle.telemetry("server", cell.cell), server)
    write_parquet(
        bundle.telemetry("client", cell.cell),
        client_frame(cell.cell, session.epoch_ns, load, counted, session.certificate),
    )
    write_parquet(bundle.events(cell.cell), events)

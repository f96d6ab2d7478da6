"""One cell, from the plan to its files: metrics before, load, metrics after, events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..schema.errors import InputError
from .bundle import Bundle
from .client.cell import CellLoad, read_attempts, run_cell
from .client.load import LoadSpec
from .client.pool import Rules, Timeouts
from .client.record import CellContext, event_frame, event_row
from .client.requests import RequestFile
from .client.sizing import workers_of
from .client.spool import read_spool
from .client.turns import pack_turn
from .client.wire import Body, Prompt, request_prefix, request_rest
from .client.worker import CellJob
from .engines.fleet import Running
from .engines.launch import is_cold_start, model_name
from .engines.probe import Probe
from .files import write_parquet
from .plan.blocks import Cell
from .plan.plan import Plan
from .plan.prompts import salted
from .plan.requests import PlannedRequest
from .plan.salt import salt_of
from .progress import Progress
from .secrets import read_key
from .telemetry.record import TELEMETRY_EVERY, client_frame, scrape, server_frame, start_frame, watch
from .telemetry.watch import watch_host
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


def measure_cell(session: Session, cell: Cell, running: Running, progress: Progress) -> pl.DataFrame:
    """Run one cell and write its telemetry and events; returns the events. Event files are written last: a cell that
    has one is whole."""
    card = session.plan.card
    planned = session.plan.requests[cell.block, cell.load_point]
    job = _job(session, cell, running)
    probe = Probe(running.endpoint)
    try:
        samples = scrape(probe, "before")
        with (
            watch(running.endpoint, float(card["outputs"].get("telemetry_every", TELEMETRY_EVERY))) as during,
            watch_host(card, running.process.pid if running.process else None) as host,
        ):
            load = run_cell(job, progress.attempts)
        samples += during + scrape(probe, "after")
    finally:
        probe.close()
    context = _context(session, cell, [value.removeprefix("Bearer ") for value in running.endpoint.headers.values()])
    frame = event_frame(event_row(context, attempt) for attempt in read_attempts(job))
    write_parquet(session.bundle.telemetry("host", cell.cell), host.frame(cell.cell, session.epoch_ns))
    if is_cold_start(card) and running.start is not None:
        path = session.bundle.telemetry("start", cell.cell)
        write_parquet(path, start_frame(cell.cell, session.epoch_ns, running.start))
    _write(
        session, cell, load, frame, server_frame(cell.cell, session.epoch_ns, samples), counted_planned(card, planned)
    )
    session.bundle.drop_unfinished(f"{cell.cell}.*")
    return frame


def salvage(session: Session, cell: Cell) -> int:
    """What the client had spooled of a cell when it was killed, kept as evidence beside the events of whole cells (it
    is no event file, and nothing counts it). `session` is the sitting that was killed. Returns the number of attempts;
    the cell's working files are removed."""
    spools = sorted(session.bundle.unfinished.glob(f"{cell.cell}.*.spool"))
    context = _context(session, cell, _secrets(session.plan.card))
    frame = event_frame(event_row(context, attempt) for spool in spools for attempt in read_spool(spool))
    if frame.height:
        write_parquet(session.bundle.events(cell.cell).with_suffix(".parquet.killed"), frame)
    session.bundle.drop_unfinished(f"{cell.cell}.*")
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
        session.plan.reusable(cell.block, cell.load_point),
        Words.from_card(session.plan.card, session.plan.inputs).tokenizer,
    )


def counted_planned(card: dict[str, Any], planned: list[PlannedRequest]) -> int | None:
    """How many attempts the plan puts into the measured window; None where the clients of a closed loop decide, or the
    answers that later turns wait for."""
    conversations = card["workload"]["requests"].get("conversations") is not None
    if card["workload"]["load_kind"] == "rate":
        if conversations:
            return None
        return sum(1 for request in planned if request.phase == "measure")
    count: int | None = card["workload"]["window"]["measure"].get("requests")
    return count


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
        RequestFile.write(session.bundle.working_file(f"{cell.cell}.requests"), _requests(session, cell, running)),
        session.bundle.working_file(f"{cell.cell}.spool"),
        workers_of(card),
        conversations=workload["requests"].get("conversations") is not None,
    )


def _requests(session: Session, cell: Cell, running: Running) -> Iterator[bytes]:
    """The bytes of the cell's requests, in the order of the plan."""
    card, plan = session.plan.card, session.plan
    body = body_of(plan)
    for request in plan.requests[cell.block, cell.load_point]:
        prompt, name = prompt_of(plan, cell, request), f"{cell.cell}-{request.index}"
        if card["workload"]["requests"].get("conversations") is not None:
            yield pack_turn(name, *body.parts(prompt, request.output_tokens, request.population, bool(request.turn)))
        else:
            whole = body.whole(prompt, request.output_tokens, request.population)
            yield request_rest(running.target, name, whole)


def body_of(plan: Plan) -> Body:
    """The bodies of a plan's requests."""
    populations = plan.card["workload"].get("populations") or {}
    samplings = [plan.card["workload"]["sampling"], *(own["sampling"] for own in populations.values())]
    files = [sampling["json_schema"] for sampling in samplings if sampling.get("json_schema") is not None]
    schemas = {file["sha256"]: plan.inputs.json(file) for file in files}
    return Body(plan.card, model_name(plan.card), schemas, Words.from_card(plan.card, plan.inputs))


def prompt_of(plan: Plan, cell: Cell, request: PlannedRequest) -> Prompt:
    """What a request says itself, as it is sent: with the arm's own salt where two arms share a server."""
    recorded = plan.prompts.recorded(request)
    if recorded is not None:
        return recorded.prompt
    tokens = plan.prompts.tokens((cell.block, cell.load_point), request)
    salt = None if request.turn else salt_of(plan, cell)
    return list(salted(tokens, salt).tolist())


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

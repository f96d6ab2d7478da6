"""Drives the real client against a server: a few planned requests in, event rows out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchcard.runner.client.cell import CellLoad, read_attempts, run_cell
from benchcard.runner.client.load import LoadSpec
from benchcard.runner.client.pool import Rules, Timeouts
from benchcard.runner.client.record import CellContext, event_row
from benchcard.runner.client.requests import RequestFile
from benchcard.runner.client.wire import Target, request_prefix, request_rest
from benchcard.runner.client.worker import CellJob, Progress
from benchcard.runner.plan.blocks import Cell
from benchcard.runner.plan.requests import PlannedRequest

MS = 1_000_000


def drive(
    port: int,
    folder: Path,
    offsets_ms: list[float] | None = None,
    *,
    concurrency: int | None = None,
    requests: int = 0,
    window: dict[str, Any] | None = None,
    timeouts_ms: tuple[float, float, float] = (2000, 5000, 10000),
    token_counts: str = "chunk",
    think_time_ms: float = 0,
    endpoint: str = "chat",
    retries: int = 0,
    in_flight: int | None = None,
    target: Target | None = None,
    progress: Progress | None = None,
    planned: list[PlannedRequest] | None = None,
    records: list[bytes] | None = None,
    **options: Any,
) -> tuple[list[dict[str, Any]], CellLoad]:
    """Open loop: one request at each offset. Closed loop: `requests` planned for `concurrency` clients. Returns the
    event rows by index (times in ns since 0) and the client's view of itself. `planned` and `records` (whole requests,
    or turns) take the place of requests of our own."""
    if planned is not None:
        requests = len(planned)
    elif offsets_ms is None:
        planned = [PlannedRequest(i, "", None, i % (concurrency or 1), None, 0, 5, 8) for i in range(requests)]
    else:
        planned = [PlannedRequest(i, "measure", round(at * MS), None, None, 0, 5, 8) for i, at in enumerate(offsets_ms)]
    counted = len(offsets_ms) if offsets_ms is not None else requests
    target = target or Target("127.0.0.1", port, False, "/v1")
    job = CellJob(
        target,
        request_prefix(target, endpoint),
        Rules(Timeouts(*(round(limit * MS) for limit in timeouts_ms)), retries, in_flight),
        LoadSpec(
            window or {"warmup": {"requests": 0}, "measure": {"requests": counted}, "drain": 1.0},
            planned,
            concurrency,
            round(think_time_ms * MS),
        ),
        RequestFile.write(
            folder / "requests",
            records or (request_rest(target, f"t-{i}", b'{"stream":true}') for i in range(len(planned))),
        ),
        folder / "cell.spool",
        **options,
    )
    load = run_cell(job, progress)
    context = CellContext(
        "run", Cell("b01-baseline-l1", 1, "baseline", 1, 1.0), 0, token_counts, planned, ["d"] * len(planned), []
    )
    rows = [event_row(context, attempt) for attempt in read_attempts(job)]
    for left_over in folder.glob("cell.*"):
        left_over.unlink()
    return sorted(rows, key=lambda row: row["index"]), load

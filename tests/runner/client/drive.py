"""Drives the real client against a server: a few planned requests in, event rows out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchcard.runner.client.cell import CellJob, CellLoad, run_cell
from benchcard.runner.client.load import LoadSpec
from benchcard.runner.client.pool import Timeouts
from benchcard.runner.client.record import CellContext, event_row
from benchcard.runner.client.spool import read_spool
from benchcard.runner.client.wire import Target, request_bytes
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
) -> tuple[list[dict[str, Any]], CellLoad]:
    """Open loop: one request at each offset. Closed loop: `requests` planned for `concurrency` clients. Returns the
    event rows by index (times in ns since 0) and the client's view of itself."""
    if offsets_ms is None:
        planned = [PlannedRequest(i, "", None, i % (concurrency or 1), None, 0, 5, 8) for i in range(requests)]
    else:
        planned = [PlannedRequest(i, "measure", round(at * MS), None, None, 0, 5, 8) for i, at in enumerate(offsets_ms)]
    counted = len(offsets_ms) if offsets_ms is not None else requests
    job = CellJob(
        Target("127.0.0.1", port, False, "/v1"),
        Timeouts(*(round(limit * MS) for limit in timeouts_ms)),
        LoadSpec(
            window or {"warmup": {"requests": 0}, "measure": {"requests": counted}, "drain": 1.0},
            planned,
            concurrency,
            round(think_time_ms * MS),
        ),
        [
            request_bytes(Target("127.0.0.1", port, False, "/v1"), endpoint, f"t-{i}", b'{"stream":true}')
            for i in range(len(planned))
        ],
        folder / "spool",
    )
    load = run_cell(job)
    context = CellContext(
        "run", Cell("b01-baseline-l1", 1, "baseline", 1, 1.0), 0, token_counts, planned, ["d"] * len(planned), []
    )
    rows = [event_row(context, attempt) for attempt in read_spool(job.spool)]
    return sorted(rows, key=lambda row: row["index"]), load

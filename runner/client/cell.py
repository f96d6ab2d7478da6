"""One cell's load, from the first request to the last counted reply, in an event loop of its own."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .attempt import Attempt
from .clock import paired_clocks
from .load import Load, LoadSpec
from .pool import Pool, Timeouts
from .spool import Spool
from .wire import Target

#: The schedule starts this long after the loop is ready, so that the first request is not late.
LEAD_NS = 20_000_000


@dataclass(frozen=True)
class CellJob:
    """Everything a cell's load needs. `requests_bytes[i]` is the whole HTTP request of planned request i."""

    target: Target
    timeouts: Timeouts
    load: LoadSpec
    requests_bytes: list[bytes]
    spool: Path


@dataclass(frozen=True)
class CellLoad:
    """The client's view of itself over a cell. Times are monotonic ns; wall times are Unix ns; cpu in ns."""

    load_start: int
    load_end: int
    window_start: int | None
    window_end: int | None
    wall_start: int
    wall_end: int
    cpu: int
    peak_in_flight: int
    plan_exhausted: bool


Progress = Callable[[int, int], None]


def run_cell(job: CellJob, progress: Progress | None = None) -> CellLoad:
    """Run the load of one cell and spool every attempt. `progress(ended, failed)` is called about once a second."""
    # A collection pauses the loop for tens of ms: what is alive now is set aside, and none runs until the cell is over.
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        return _run(_cell(job, progress))
    finally:
        gc.enable()
        gc.unfreeze()


def _run(main: Coroutine[Any, Any, CellLoad]) -> CellLoad:
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


async def _cell(job: CellJob, progress: Progress | None) -> CellLoad:
    spool = Spool(job.spool)
    loads: list[Load] = []
    failed = 0

    def on_done(attempt: Attempt) -> None:
        nonlocal failed
        failed += attempt.fault is not None
        spool.add(attempt)
        loads[0].done(attempt)

    pool = Pool(job.target, job.timeouts, on_done)
    reporter = None
    try:
        await pool.open()
        (mono, wall), cpu_start = paired_clocks(), time.process_time_ns()
        start, wall_start = mono + LEAD_NS, wall + LEAD_NS
        load = Load(job.load, lambda attempt: pool.send(attempt, job.requests_bytes[attempt.index]), start)
        loads.append(load)
        if progress is not None:
            reporter = asyncio.get_running_loop().create_task(_report(progress, lambda: (spool.count, failed)))
        await load.finished.wait()
        (end, wall_end), cpu_end = paired_clocks(), time.process_time_ns()
        pool.cancel_all()
        await asyncio.sleep(0)
        return CellLoad(
            start, end, *load.window, wall_start, wall_end, cpu_end - cpu_start, pool.peak_in_flight,
            load.plan_exhausted,
        )  # fmt: skip
    finally:
        if reporter is not None:
            reporter.cancel()
        for load in loads:
            load.stop()
        pool.close()
        spool.close()


async def _report(progress: Progress, state: Callable[[], tuple[int, int]]) -> None:
    while True:
        await asyncio.sleep(1.0)
        progress(*state())

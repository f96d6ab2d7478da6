"""One cell's load, from the first request to the last counted reply, by one worker in this process or by several."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .attempt import Attempt
from .board import Board
from .clock import paired_clocks
from .spool import read_spool
from .worker import CellJob, Progress, WorkerLoad, run_worker
from .workers import run_workers

#: The schedule starts this long after everything is ready, so that the first request is not late.
LEAD_NS = 20_000_000


@dataclass(frozen=True)
class CellLoad:
    """The client's view of itself over a cell. Times are monotonic ns; wall times are Unix ns; the rest ns or counts.

    `cpu`, `run_delay` and `loop_lags` (sorted) are the busiest, the most starved and the latest worker's;
    `peak_in_flight` is the sum of the workers' peaks; `reads` is how often a socket was read.
    """

    load_start: int
    load_end: int
    window_start: int | None
    window_end: int | None
    wall_start: int
    wall_end: int
    cpu: int
    peak_in_flight: int
    plan_exhausted: bool
    run_delay: int | None = None
    loop_lags: tuple[int, ...] = ()
    reads: int = 0
    workers: int = 1
    loop: str = ""
    timer: str = ""


def run_cell(job: CellJob, progress: Progress | None = None) -> CellLoad:
    """Run the load of one cell and spool every attempt. `progress(ended, failed)` is called about once a second."""
    if job.workers > 1:
        zero, wall, loads = run_workers(job, LEAD_NS * 5, progress)
        return _merged(zero, wall, loads)
    started: list[tuple[int, int]] = []

    async def start() -> int:
        """The cell's zero on the monotonic clock, ns; both clocks are read for it."""
        mono, wall = paired_clocks()
        started.append((mono + LEAD_NS, wall + LEAD_NS))
        return mono + LEAD_NS

    load = run_worker(job, 0, Board(job.load.window), start, progress)
    return _merged(*started[0], [load])


def read_attempts(job: CellJob) -> Iterator[Attempt]:
    """Every attempt of the cell, worker by worker, each worker's in the order in which they ended."""
    for worker in range(job.workers):
        yield from read_spool(job.spool_of(worker))


def _merged(zero: int, wall: int, loads: list[WorkerLoad]) -> CellLoad:
    starts = [load.window_start for load in loads if load.window_start is not None]
    ends = [load.window_end for load in loads if load.window_end is not None]
    delays = [load.run_delay for load in loads if load.run_delay is not None]
    last = max(loads, key=lambda load: load.load_end)
    return CellLoad(
        zero, last.load_end, min(starts, default=None), min(ends, default=None), wall, last.wall_end,
        cpu=max(load.cpu for load in loads),
        peak_in_flight=sum(load.peak_in_flight for load in loads),
        plan_exhausted=any(load.plan_exhausted for load in loads),
        run_delay=max(delays, default=None),
        loop_lags=tuple(sorted(max(loads, key=_p99).loop_lags)),
        reads=sum(load.reads for load in loads),
        workers=len(loads), loop=loads[0].loop, timer=loads[0].timer,
    )  # fmt: skip


def _p99(load: WorkerLoad) -> int:
    ordered = sorted(load.loop_lags)
    return ordered[-1 - len(ordered) // 100] if ordered else -1

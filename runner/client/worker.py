"""One worker's share of a cell, in an event loop of its own: in this process, or (workers.py) in one of several."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .attempt import Attempt
from .board import Board
from .clock import paired_clocks
from .load import Load, LoadSpec
from .pool import Pool, Rules
from .requests import RequestFile
from .spool import Spool
from .turns import Conversations
from .watch import Watch
from .wire import Target


@dataclass(frozen=True)
class CellJob:
    """Everything a cell's load needs. `prefix` is what every request begins with, a key perhaps; the rest lies in
    `requests` (`conversations`: as turns, see turns.py). The workers' spools are named after `spool`. `uvloop` and
    `timerfd` False do without them, as on a system that has none."""

    target: Target
    prefix: bytes = field(repr=False)
    rules: Rules
    load: LoadSpec
    requests: RequestFile
    spool: Path
    workers: int = 1
    uvloop: bool = True
    timerfd: bool = True
    conversations: bool = False

    def spool_of(self, worker: int) -> Path:
        """The spool of a worker."""
        return self.spool.with_name(f"{self.spool.stem}.{worker}{self.spool.suffix}")

    def board_path(self) -> Path:
        """The file of the board, where there are several workers."""
        return self.spool.with_suffix(".board")


@dataclass(frozen=True)
class WorkerLoad:
    """A worker's view of itself over its share. Times are monotonic ns (wall_end: Unix ns), cpu, run_delay and lags
    ns."""

    load_end: int
    wall_end: int
    window_start: int | None
    window_end: int | None
    cpu: int
    run_delay: int | None
    loop_lags: list[int]
    peak_in_flight: int
    reads: int
    plan_exhausted: bool
    loop: str
    timer: str


Progress = Callable[[int, int], None]
#: waits for the start signal and gives (offset zero in monotonic ns); called when everything is ready
Start = Callable[[], Coroutine[Any, Any, int]]


def run_worker(job: CellJob, worker: int, board: Board, start: Start, progress: Progress | None) -> WorkerLoad:
    """Run a worker's share of the load and spool every attempt. `progress(ended, failed)` is called about once a
    second."""
    # A collection pauses the loop for tens of ms: what is alive now is set aside, and none runs until the load is over.
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        return _run(_work(job, worker, board, start, progress), job.uvloop)
    finally:
        gc.enable()
        gc.unfreeze()


def _run(main: Coroutine[Any, Any, WorkerLoad], wanted: bool) -> WorkerLoad:
    if wanted:
        try:
            import uvloop
        except ImportError:
            return asyncio.run(main)
        return uvloop.run(main)
    return asyncio.run(main)


async def _work(job: CellJob, worker: int, board: Board, start: Start, progress: Progress | None) -> WorkerLoad:
    with contextlib.ExitStack() as stack:
        spool = Spool(job.spool_of(worker))
        stack.callback(spool.close)
        requests = job.requests.open()
        stack.callback(requests.close)
        turns = None
        if job.conversations:
            chat = b"/chat/completions " in job.prefix.partition(b"\r\n")[0]
            turns = Conversations(job.target, requests, job.load.requests, chat)
        session = _Session(worker, spool, turns)
        bytes_of = turns.request if turns is not None else requests.__getitem__
        pool = Pool(job.target, job.rules, lambda index: job.prefix + bytes_of(index), session.on_done)
        stack.callback(pool.close)
        await pool.open()
        options = {} if turns is None else {"goes_on": turns.goes_on}
        load = Load(job.load, pool.send, board, worker, job.workers, exact=job.timerfd, **options)
        stack.callback(load.stop)
        session.load = load
        zero = await start()
        load.begin(zero)
        watch = Watch(zero, load.check, job.timerfd)
        reporter = asyncio.get_running_loop().create_task(_report(progress, session)) if progress else None
        await load.finished.wait()
        cpu, run_delay = watch.stop()
        end, wall_end = paired_clocks()
        if reporter is not None:
            reporter.cancel()
        pool.cancel_all()
        await asyncio.sleep(0)
        return WorkerLoad(
            end, wall_end, *load.window, cpu, run_delay, watch.lags(*load.window), pool.peak_in_flight, session.reads,
            load.plan_exhausted, type(asyncio.get_running_loop()).__module__.partition(".")[0],
            "timerfd" if load.timer_exact else "event loop",
        )  # fmt: skip


class _Session:
    """Counts what ends, and hands it on."""

    def __init__(self, worker: int, spool: Spool, turns: Conversations | None) -> None:
        self._worker = worker
        self._spool = spool
        self._turns = turns
        self.load: Load | None = None
        self.failed = self.reads = 0

    @property
    def count(self) -> int:
        """How many attempts ended."""
        return self._spool.count

    def on_done(self, attempt: Attempt) -> None:
        """An attempt ended: count it, keep it, and tell the load."""
        if self._turns is not None:
            self._turns.take_in(attempt)
        self.failed += attempt.fault is not None
        self.reads += len(attempt.reads)
        attempt.worker = self._worker
        self._spool.add(attempt)
        if self.load is not None:
            self.load.done(attempt)


async def _report(progress: Progress, session: _Session) -> None:
    """In a thread: whoever reads the progress may stop reading (a terminal that is held), and the load must not."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(1.0)
        await loop.run_in_executor(None, progress, session.count, session.failed)

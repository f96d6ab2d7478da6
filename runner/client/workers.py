"""Several worker processes for one cell: one schedule, shared out by index, and one clock.

Each is a process of its own, since one event loop runs on one core. A worker says `ready` when it could start; when all
have, each is told the same moment of the monotonic clock, which every process of a machine reads alike. A worker whose
input ends (the runner was killed) stops: nothing outlives a run.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import pickle
import subprocess
import sys
import threading
from dataclasses import asdict
from queue import Empty, Queue

from ..descriptors import allow_many_descriptors
from .board import Board, write_board
from .clock import paired_clocks
from .worker import CellJob, Progress, WorkerLoad, run_worker

_Line = tuple[int, str]
#: how long a worker may take from its start until it could begin, s
_READY_WITHIN_S = 60


class WorkerDiedError(RuntimeError):
    """A worker process ended before its share was done."""


def run_workers(job: CellJob, lead_ns: int, progress: Progress | None) -> tuple[int, int, list[WorkerLoad]]:
    """Run a cell by `job.workers` processes: (offset zero in monotonic ns, the wall clock then, a view a worker)."""
    write_board(job.board_path(), job.workers)
    processes = [_spawn(worker) for worker in range(job.workers)]
    lines: Queue[_Line] = Queue()
    listeners = [
        threading.Thread(target=_listen, args=(worker, process, lines), daemon=True)
        for worker, process in enumerate(processes)
    ]
    for listener in listeners:
        listener.start()
    try:
        # Through a pipe, since a job may hold a key, and keys reach no file.
        description = base64.b64encode(pickle.dumps(job)).decode()
        for process in processes:
            _tell(process, description)
        return _conduct(processes, lines, lead_ns, progress)
    finally:
        for process in processes:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # a worker that died left what was told it in the pipe
                process.stdin.close()
        for process in processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for listener in listeners:
            listener.join()


def _spawn(worker: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", "-m", __spec__.name, str(worker)]
    # A group of its own: Ctrl-C is the runner's to handle.
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, start_new_session=True
    )


def _conduct(
    processes: list[subprocess.Popen[str]], lines: Queue[_Line], lead_ns: int, progress: Progress | None
) -> tuple[int, int, list[WorkerLoad]]:
    ready: set[int] = set()
    counts = dict.fromkeys(range(len(processes)), (0, 0))
    loads: dict[int, WorkerLoad] = {}
    zero = wall = 0
    while len(loads) < len(processes):
        try:
            worker, line = lines.get(timeout=None if len(ready) == len(processes) else _READY_WITHIN_S)
        except Empty:
            raise WorkerDiedError(
                f"a worker of the measuring client was not ready within {_READY_WITHIN_S} s"
            ) from None
        word, _, rest = line.partition(" ")
        if word == "ready":
            ready.add(worker)
            if len(ready) == len(processes):
                mono, wall = paired_clocks()
                zero, wall = mono + lead_ns, wall + lead_ns
                for process in processes:
                    _tell(process, str(zero))
        elif word == "progress":
            ended, failed = rest.split()
            counts[worker] = int(ended), int(failed)
            if progress is not None:
                progress(*(sum(numbers) for numbers in zip(*counts.values(), strict=True)))
        elif word == "over":
            loads[worker] = WorkerLoad(**json.loads(rest))
        elif worker not in loads:
            raise WorkerDiedError(f"worker {worker} of the measuring client ended before its share was done")
    return zero, wall, [loads[worker] for worker in sorted(loads)]


def _tell(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(f"{text}\n")
        process.stdin.flush()
    except BrokenPipeError:
        raise WorkerDiedError("a worker of the measuring client ended before the load began") from None


def _listen(worker: int, process: subprocess.Popen[str], lines: Queue[_Line]) -> None:
    assert process.stdout is not None
    with process.stdout as output:
        for line in output:
            lines.put((worker, line.rstrip("\n")))
    lines.put((worker, "end"))


def main(worker: int) -> None:
    """A worker process: its job is the first line of its input, from the runner that started it."""
    allow_many_descriptors()
    job: CellJob = pickle.loads(base64.b64decode(sys.stdin.readline()))
    board = Board(job.load.window, worker, job.workers, job.board_path())

    async def start() -> int:
        """Say that the worker is ready; the zero that the runner answers, on the monotonic clock, ns."""
        loop = asyncio.get_running_loop()
        signal: asyncio.Future[int] = loop.create_future()

        def told() -> None:
            """A line of the runner: the zero at first, and an end (or no more lines) stops the load."""
            line = sys.stdin.readline()
            if line and not signal.done():
                signal.set_result(int(line))
                return
            board.stop()
            loop.remove_reader(sys.stdin.fileno())
            if not signal.done():
                signal.cancel()

        loop.add_reader(sys.stdin.fileno(), told)
        print("ready", flush=True)
        return await signal

    def progress(ended: int, failed: int) -> None:
        """Tell the runner how many attempts ended and failed."""
        print("progress", ended, failed, flush=True)

    load = run_worker(job, worker, board, start, progress)
    print("over", json.dumps(asdict(load)), flush=True)


if __name__ == "__main__":
    # Told to stop, or left alone by its runner: nothing to say, and nobody to say it to.
    with contextlib.suppress(asyncio.CancelledError, BrokenPipeError, KeyboardInterrupt, EOFError):
        main(int(sys.argv[1]))
        sys.exit(0)
    sys.exit(1)

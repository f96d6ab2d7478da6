"""What the workers of a cell must agree on: whose turn is which in a closed loop, and when every counted attempt has
ended. A handful of integers in a file that each worker maps, so that they agree without asking a third."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
from collections.abc import Iterator, MutableSequence
from pathlib import Path
from typing import Any, cast

from ..plan.window import STATE_SIZE, Phases, fresh_state
from .clock import now_ns

_TAKEN, _STOPPED = STATE_SIZE, STATE_SIZE + 1
_FIRST_WORKER = STATE_SIZE + 2


class Board:
    """The board of one worker. Every process writes its own flag only, and takes turns under a lock of the file."""

    def __init__(self, window: dict[str, Any], worker: int = 0, workers: int = 1, path: Path | None = None) -> None:
        self._worker, self._workers = worker, workers
        self._file = None if path is None else path.open("r+b")
        self._slots: MutableSequence[int]
        if self._file is None:
            self._slots = _blank(workers)
        else:
            self._slots = cast("MutableSequence[int]", memoryview(mmap.mmap(self._file.fileno(), 0)).cast("q"))
        self.phases = Phases(window, self._slots)

    def take(self, scheduled_offset: int) -> tuple[int, str]:
        """The next turn of a closed loop: (monotonic ns at which it was taken, phase). Turns are taken one at a time,
        and their times follow their order."""
        with self._locked():
            now = now_ns()
            phase = self.phases.of(self._slots[_TAKEN], scheduled_offset)
            self._slots[_TAKEN] += 1
        return now, phase

    def ended(self) -> bool:
        """Note that this worker has nothing counted left; whether that holds for all."""
        self._slots[_FIRST_WORKER + self._worker] = 1
        return all(self._slots[_FIRST_WORKER + worker] for worker in range(self._workers))

    @property
    def stopped(self) -> bool:
        """Whether a worker has called the load off."""
        return bool(self._slots[_STOPPED])

    def stop(self) -> None:
        """Call the load off, for every worker."""
        self._slots[_STOPPED] = 1

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        if self._file is None:
            yield
            return
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)


def _blank(workers: int) -> list[int]:
    return [*fresh_state(), 0, 0, *[0] * workers]


def write_board(path: Path, workers: int) -> None:
    """A fresh board for so many workers."""
    path.write_bytes(b"".join(value.to_bytes(8, "little", signed=True) for value in _blank(workers)))

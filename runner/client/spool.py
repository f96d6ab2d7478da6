"""The spool: ended attempts go to a file soon, so memory is bounded by what is in flight. Parsed after the cell.

Writing one takes some tens of microseconds. Many streams tend to end together, and what is urgent then is the next
request; so ended attempts wait in a queue, which a timer empties a few at a time.
"""

from __future__ import annotations

import asyncio
import pickle
import struct
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from .attempt import Attempt

_LENGTH = struct.Struct("<I")
#: how often the queue is looked at, s, and how many attempts are written at a time
_EVERY_S = 0.002
_AT_A_TIME = 4


class Spool:
    """Appends attempts to a file; only this program writes it, and only this program reads it back in the same run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("wb", buffering=1 << 20)
        self._queue: deque[Attempt] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self.count = 0

    def add(self, attempt: Attempt) -> None:
        """Take an ended attempt; it is written soon."""
        self._queue.append(attempt)
        self.count += 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_EVERY_S, self._write_some)

    def close(self) -> None:
        """Write what is left and finish the file."""
        if self._timer is not None:
            self._timer.cancel()
        while self._queue:
            self._write(self._queue.popleft())
        self._file.close()

    def _write_some(self) -> None:
        for _ in range(min(_AT_A_TIME, len(self._queue))):
            self._write(self._queue.popleft())
        self._timer = asyncio.get_running_loop().call_later(_EVERY_S, self._write_some) if self._queue else None

    def _write(self, attempt: Attempt) -> None:
        record = pickle.dumps(attempt.state(), protocol=5)
        self._file.write(_LENGTH.pack(len(record)))
        self._file.write(record)


def read_spool(path: Path) -> Iterator[Attempt]:
    """The attempts of a spool, in the order in which they ended."""
    with path.open("rb", buffering=1 << 20) as file:
        while header := file.read(_LENGTH.size):
            yield Attempt.from_state(pickle.loads(file.read(_LENGTH.unpack(header)[0])))

"""The spool: ended attempts go to a file soon, so memory is bounded by what is in flight. Parsed after the cell.

Writing one takes some tens of microseconds. Many streams tend to end together, and what is urgent then is the next
request; so ended attempts wait in a queue, which a timer empties a few at a time. The file is handed to the system
about twice a second: a client that is killed loses no more than that.

A record is a head (lengths of what follows: metadata as JSON, number of reads), the times of the reads (int64), their
lengths (uint32), and their bytes.
"""

from __future__ import annotations

import asyncio
import json
import struct
from array import array
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from .attempt import Attempt

_HEAD = struct.Struct("<III")
#: how often the queue is looked at, s; how many attempts are written at a time (more where the queue is long)
_EVERY_S = 0.002
_AT_A_TIME = 4
_QUEUE_SHARE = 64
#: how many looks at the queue pass between two flushes of the file
_FLUSH_EVERY = 250


class Spool:
    """Appends attempts to a file; only this program writes it, and only this program reads it back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("wb", buffering=1 << 20)
        self._queue: deque[Attempt] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._looks = 0
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
            self._file.write(_record(self._queue.popleft()))
        self._file.close()

    def _write_some(self) -> None:
        for _ in range(min(len(self._queue), max(_AT_A_TIME, len(self._queue) // _QUEUE_SHARE))):
            self._file.write(_record(self._queue.popleft()))
        self._looks += 1
        if self._looks >= _FLUSH_EVERY:
            self._looks = 0
            self._file.flush()
        # One more look than there is work for, so that the last attempts are flushed too.
        more = bool(self._queue) or self._looks > 0
        self._timer = asyncio.get_running_loop().call_later(_EVERY_S, self._write_some) if more else None


def _record(attempt: Attempt) -> bytes:
    meta = json.dumps(attempt.scalars(), separators=(",", ":")).encode()
    data = b"".join(attempt.reads)
    lengths = array("I", map(len, attempt.reads))
    head = _HEAD.pack(len(meta), len(attempt.reads), len(data))
    return b"".join((head, meta, array("q", attempt.times).tobytes(), lengths.tobytes(), data))


def read_spool(path: Path) -> Iterator[Attempt]:
    """The attempts of a spool, in the order in which they ended. A record that a kill cut short ends it."""
    with path.open("rb", buffering=1 << 20) as file:
        while len(head := file.read(_HEAD.size)) == _HEAD.size:
            meta_size, count, data_size = _HEAD.unpack(head)
            body = file.read(meta_size + 12 * count + data_size)
            if len(body) < meta_size + 12 * count + data_size:
                return
            times, lengths = array("q"), array("I")
            at = meta_size + 8 * count
            times.frombytes(body[meta_size:at])
            lengths.frombytes(body[at : at + 4 * count])
            at += 4 * count
            reads = []
            for length in lengths:
                reads.append(body[at : at + length])
                at += length
            yield Attempt.restore(json.loads(body[:meta_size]), times.tolist(), reads)

"""The spool: ended attempts go to a file soon, so memory is bounded by what is in flight. Parsed after the cell.

Writing one takes some tens of microseconds. Many streams tend to end together, and what is urgent then is the next
request; so ended attempts wait in a queue, which a timer empties a few at a time. The file is handed to the system
about twice a second: a client that is killed loses no more than that.

A record is a head (size of the texts, number of reads, size of their bytes), the attempt's whole numbers (int64), its
texts (JSON), the times of the reads (int64), their lengths (uint32), and their bytes.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import struct
from array import array
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from operator import attrgetter
from pathlib import Path

from .attempt import NUMBERS, TEXTS, Attempt

_HEAD = struct.Struct("<III")
#: stands for None among the whole numbers
_NONE = -(1 << 63)
_NUMBERS_SIZE = 8 * len(NUMBERS)
_numbers = attrgetter(*NUMBERS)
_texts = attrgetter(*TEXTS)
#: how often the queue is looked at, s; how many attempts are written at a time (more where the queue is long)
_EVERY_S = 0.004
_AT_A_TIME = 8
_QUEUE_SHARE = 64
#: how many looks at the queue pass between two flushes of the file
_FLUSH_EVERY = 125


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
        if self._file.closed:
            # Interrupted: what the closing connections still report has no cell any more.
            return
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
    numbers = array("q", [_NONE if value is None else value for value in _numbers(attempt)])
    texts = _encoded(_texts(attempt))
    data = b"".join(attempt.reads)
    head = _HEAD.pack(len(texts), len(attempt.reads), len(data))
    lengths = array("I", map(len, attempt.reads))
    return b"".join((head, numbers.tobytes(), texts, array("q", attempt.times).tobytes(), lengths.tobytes(), data))


@lru_cache(maxsize=256)
def _encoded(texts: tuple[str | None, ...]) -> bytes:
    """Most attempts have one of a few sets of texts."""
    return json.dumps(texts).encode()


def read_spool(path: Path) -> Iterator[Attempt]:
    """The attempts of a spool, in the order in which they ended. A record that a kill cut short, or zeros that
    a crash of the machine left, end it."""
    with path.open("rb", buffering=1 << 20) as file:
        while len(head := file.read(_HEAD.size)) == _HEAD.size:
            texts_size, count, data_size = _HEAD.unpack(head)
            size = _NUMBERS_SIZE + texts_size + 12 * count + data_size
            body = file.read(size)
            if len(body) < size or texts_size == 0:
                return
            yield _restored(body, texts_size, count)


def _restored(body: bytes, texts_size: int, count: int) -> Attempt:
    numbers, times, lengths = array("q"), array("q"), array("I")
    ends = list(itertools.accumulate((_NUMBERS_SIZE, texts_size, 8 * count, 4 * count)))
    numbers.frombytes(body[: ends[0]])
    times.frombytes(body[ends[1] : ends[2]])
    lengths.frombytes(body[ends[2] : ends[3]])
    attempt = Attempt.__new__(Attempt)
    for name, value in zip(NUMBERS, numbers, strict=True):
        setattr(attempt, name, None if value == _NONE else value)
    attempt.reused, attempt.closed, attempt.resent = bool(attempt.reused), bool(attempt.closed), bool(attempt.resent)
    for name, text in zip(TEXTS, json.loads(body[ends[0] : ends[1]]), strict=True):
        setattr(attempt, name, text)
    starts = itertools.accumulate(lengths, initial=ends[3])
    attempt.times = times.tolist()
    attempt.reads = [body[at : at + length] for at, length in zip(starts, lengths, strict=False)]
    return attempt

"""The spool: ended attempts go to a file at once, so memory is bounded by what is in flight. Parsed after the cell."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator
from pathlib import Path

from .attempt import Attempt

_LENGTH = struct.Struct("<I")


class Spool:
    """Appends attempts to a file; only this program writes it, and only this program reads it back in the same run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("wb", buffering=1 << 20)
        self.count = 0

    def add(self, attempt: Attempt) -> None:
        """Append an ended attempt."""
        record = pickle.dumps(attempt.state(), protocol=5)
        self._file.write(_LENGTH.pack(len(record)))
        self._file.write(record)
        self.count += 1

    def close(self) -> None:
        """Finish the file."""
        self._file.close()


def read_spool(path: Path) -> Iterator[Attempt]:
    """The attempts of a spool, in the order in which they ended."""
    with path.open("rb", buffering=1 << 20) as file:
        while header := file.read(_LENGTH.size):
            yield Attempt.from_state(pickle.loads(file.read(_LENGTH.unpack(header)[0])))

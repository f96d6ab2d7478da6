"""The bytes of a cell's requests, made beforehand and kept in a file: mapped, they cost no memory of the client's own,
and worker processes share them."""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RequestFile:
    """Where the requests lie: request i is the bytes from `offsets[i]` to `offsets[i + 1]` of the file."""

    path: Path
    offsets: array[int]

    @classmethod
    def write(cls, path: Path, requests: Iterable[bytes]) -> RequestFile:
        """Write whole HTTP requests, in the order of the plan."""
        offsets = array("Q", [0])
        with path.open("wb", buffering=1 << 20) as file:
            for request in requests:
                file.write(request)
                offsets.append(offsets[-1] + len(request))
        return cls(path, offsets)

    def open(self) -> OpenRequests:
        """Map the file."""
        return OpenRequests(self)


class OpenRequests:
    """The mapped file."""

    def __init__(self, file: RequestFile) -> None:
        self._offsets = file.offsets
        with file.path.open("rb") as source:
            # An empty file cannot be mapped, and has no requests to give.
            self._map = mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) if file.offsets[-1] else None

    def __getitem__(self, index: int) -> bytes:
        assert self._map is not None
        return self._map[self._offsets[index] : self._offsets[index + 1]]

    def close(self) -> None:
        """Unmap it."""
        if self._map is not None:
            self._map.close()

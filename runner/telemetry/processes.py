"""Which processes are the server's and which the client's, looked at while they run (Linux)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from .host import Sample, process_tree

#: how a worker of the measuring client is called
_WORKER = b".client.workers"
#: new processes are looked for at the first looks, while workers start, and then at every so manieth: the list of all
#: processes of a large machine is long
FIRST, EVERY = 4, 5

Looked = dict[str, list[bytes]]


class Processes:
    """The server's process tree (from `server` on, where the run started it) and the client's: this process and its
    workers. `proc` is where Linux shows processes."""

    def __init__(self, server: int | None, client: int | None = None, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._client = os.getpid() if client is None else client
        self._known: set[str] = set()
        #: process -> pid of each of its members
        self._of: dict[str, set[int]] = {"client": {self._client}}
        if server is not None:
            self._of["server"] = {server}
        self._looks = 0

    def look(self) -> Looked:
        """/proc/<pid>/stat of each member, unparsed."""
        if self._looks < FIRST or self._looks % EVERY == 0:
            self._find_new()
        self._looks += 1
        return {name: list(self._stats(pids)) for name, pids in self._of.items()}

    def samples(self, looked: Looked) -> Iterator[Sample]:
        """What a look found, as samples."""
        ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
        for name, stats in looked.items():
            yield from process_tree(name, (text.decode("utf-8", "replace") for text in stats), ticks, page)

    def _find_new(self) -> None:
        listed = {name for name in os.listdir(self._proc) if name.isdigit()}
        new = listed - self._known
        self._known = listed
        parents = {int(name): parent for name in new if (parent := self._parent(int(name))) is not None}
        server = self._of.get("server", set())
        while children := {pid for pid, parent in parents.items() if parent in server} - server:
            server |= children
        self._of["client"] |= {
            pid for pid, parent in parents.items() if parent == self._client and self._is_worker(pid)
        }

    def _parent(self, pid: int) -> int | None:
        stat = _read(self._proc / str(pid) / "stat")
        return int(stat.rpartition(b")")[2].split()[1]) if stat else None

    def _is_worker(self, pid: int) -> bool:
        return _WORKER in _read(self._proc / str(pid) / "cmdline")

    def _stats(self, pids: set[int]) -> Iterator[bytes]:
        for pid in sorted(pids):
            stat = _read(self._proc / str(pid) / "stat")
            if stat:
                yield stat
            else:
                pids.discard(pid)


def _read(path: Path) -> bytes:
    """A file's bytes; none where the process has ended meanwhile."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""
    finally:
        os.close(descriptor)

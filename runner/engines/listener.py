"""Who listens on a port of this machine (Linux): so that an old server is not taken for the one that was started."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

#: state of a listening socket in /proc/net/tcp
_LISTEN = "0A"


def older_listener(port: int, pid: int) -> int | None:
    """The process that listens on the port and began before process `pid` did: it cannot be what `pid` started. None
    if there is none, or if the system does not say (no /proc, a process of another user)."""
    sockets = _listening(port)
    began = _start(pid)
    if not sockets or began is None:
        return None
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _holds(entry, sockets):
            theirs = _start(int(entry.name))
            if theirs is not None and theirs < began:
                return int(entry.name)
    return None


def _listening(port: int) -> set[str]:
    """Links under /proc/<pid>/fd of the sockets that listen on the port."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    found.add(f"socket:[{fields[9]}]")
    return found


def _holds(process: Path, sockets: set[str]) -> bool:
    with contextlib.suppress(OSError):
        for descriptor in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                if os.readlink(descriptor) in sockets:
                    return True
    return False


def _start(pid: int) -> int | None:
    """When a process began, in clock ticks since the machine did."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        # its name, in brackets, may hold anything
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return None

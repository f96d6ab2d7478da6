"""What the kernel tells of processes, through /proc. Every reader answers None or empty where it may not look."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True)
class Stat:
    """A process in brief. `started` and `cpu` are in clock ticks: since boot, and of CPU time used."""

    pid: int
    parent: int
    command: str
    started: int
    cpu: int


def stat(pid: int) -> Stat | None:
    """The line of /proc/PID/stat."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The command's name stands in parentheses and may hold any character.
    before, _, after = text.rpartition(")")
    rest = after.split()
    return Stat(pid, int(rest[1]), before.partition("(")[2], int(rest[19]), int(rest[11]) + int(rest[12]))


def processes() -> dict[int, Stat]:
    """Every process there is."""
    pids = (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())
    return {pid: found for pid in pids if (found := stat(pid)) is not None}


def below(root: int, among: dict[int, Stat]) -> list[int]:
    """A process and its descendants, those nearer to it first."""
    children: dict[int, list[int]] = {}
    for found in among.values():
        children.setdefault(found.parent, []).append(found.pid)
    order = [root] if root in among else []
    for pid in order:
        order += sorted(children.get(pid, []))
    return order


def command_line(pid: int) -> list[str]:
    """The arguments of a process, its program's name first."""
    return [part.decode("utf-8", "replace") for part in _parts(pid, "cmdline")]


def environment(pid: int) -> dict[str, str]:
    """The environment that a process was started with. A process that writes its own title over it has none to show."""
    pairs = (part.decode("utf-8", "replace").partition("=") for part in _parts(pid, "environ"))
    return {name: value for name, equals, value in pairs if equals and name}


def _parts(pid: int, file: str) -> list[bytes]:
    try:
        text = (PROC / str(pid) / file).read_bytes()
    except OSError:
        return []
    return text.removesuffix(b"\0").split(b"\0") if text else []


def mapped_files(pid: int) -> set[str]:
    """The files that are mapped into a process's memory, executable ones: the program and its shared libraries."""
    try:
        lines = (PROC / str(pid) / "maps").read_text(errors="replace").splitlines()
    except OSError:
        return set()
    fields = (line.split(maxsplit=5) for line in lines)
    return {part[5] for part in fields if len(part) == 6 and part[5].startswith("/") and "x" in part[1]}


def status(pid: int) -> dict[str, str]:
    """/proc/PID/status, by name."""
    try:
        lines = (PROC / str(pid) / "status").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def link(pid: int, name: str) -> str | None:
    """Where a link of /proc/PID points to."""
    try:
        return os.readlink(PROC / str(pid) / name)
    except OSError:
        return None


def seen_by(pid: int, path: str) -> Path:
    """A path as the process sees it: relative to its working directory, in its own file system (it may run in a
    container)."""
    whole = os.path.normpath(os.path.join(link(pid, "cwd") or os.sep, path))
    ours = link(pid, "ns/mnt") in (None, link(os.getpid(), "ns/mnt"))
    return Path(whole) if ours else PROC / str(pid) / "root" / whole.lstrip(os.sep)


def listening(port: int, pids: list[int]) -> int | None:
    """The first of these processes that listens on a TCP port."""
    for pid in pids:
        inodes = _listening_inodes(pid, port)
        if inodes and inodes & _sockets(pid):
            return pid
    return None


def _listening_inodes(pid: int, port: int) -> set[str]:
    found = set()
    for table in ("net/tcp", "net/tcp6"):
        try:
            lines = (PROC / str(pid) / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            part = line.split()
            if part[3] == "0A" and int(part[1].rpartition(":")[2], 16) == port:
                found.add(part[9])
    return found


def ports_of(pid: int) -> list[int]:
    """The TCP ports that a process listens on."""
    found, sockets = set(), _sockets(pid)
    for table in ("net/tcp", "net/tcp6"):
        try:
            lines = (PROC / str(pid) / table).read_text().splitlines()[1:]
        except OSError:
            continue
        parts = [line.split() for line in lines]
        found |= {int(p[1].rpartition(":")[2], 16) for p in parts if p[3] == "0A" and p[9] in sockets}
    return sorted(found)


def _sockets(pid: int) -> set[str]:
    """The inodes of a process's sockets."""
    try:
        entries = list((PROC / str(pid) / "fd").iterdir())
    except OSError:
        return set()
    found = set()
    for entry in entries:
        try:
            target = os.readlink(entry)
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(target[8:-1])
    return found

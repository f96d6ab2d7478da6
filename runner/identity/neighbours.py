"""Neighbours: the load of this host, and which other processes work on it. By their command's name only."""

from __future__ import annotations

import os
import time
from typing import Any

from . import procfs
from .fields import Fields, observed, volatile
from .procfs import Stat

#: the share of one processor over which a process counts as busy
BUSY = 0.05
#: CPU time is told in ticks of 10 ms: over less than this, s, one tick would be much
_SAMPLE_S = 0.25


class Neighbours:
    """Looks at the processes from time to time: each look tells what went on since the one before."""

    def __init__(self) -> None:
        self._at: int | None = None
        self._seen: dict[int, Stat] = {}

    def fields(self, ours: list[int]) -> Fields:
        """neighbours.*: `ours` are processes whose families (they and all below them) are no neighbours. The first look
        takes a quarter of a second; a later one tells of the time since the last."""
        if self._at is None or time.monotonic_ns() - self._at < _SAMPLE_S * 1e9:
            if self._at is None:
                self._look()
            time.sleep(max(0.0, _SAMPLE_S - (time.monotonic_ns() - (self._at or 0)) / 1e9))
        before, since = self._seen, self._at or 0
        self._look()
        seconds = ((self._at or 0) - since) / 1e9
        family = {pid for root in ours for pid in procfs.below(root, self._seen)}
        busy = busy_processes(before, self._seen, family, seconds, os.sysconf("SC_CLK_TCK"))
        return {
            "neighbours.load": volatile(observed([round(value, 2) for value in os.getloadavg()])),
            "neighbours.busy": volatile(observed({"seconds": round(seconds, 3), "processes": busy})),
        }

    def _look(self) -> None:
        self._at, self._seen = time.monotonic_ns(), procfs.processes()


def busy_processes(
    before: dict[int, Stat], now: dict[int, Stat], family: set[int], seconds: float, ticks: int
) -> list[dict[str, Any]]:
    """[{"command", "cpu"}], busiest first: those outside the family that used more than 5% of one processor between two
    looks that lie `seconds` apart. `cpu` is in processors; `ticks` of CPU time make a second. A process that began
    between them counts with all that it used."""
    found = []
    for pid, stat in now.items():
        if pid in family:
            continue
        old = before.get(pid)
        used = stat.cpu - (old.cpu if old is not None and old.started == stat.started else 0)
        share = used / ticks / seconds if seconds > 0 else 0.0
        if share > BUSY:
            found.append({"command": stat.command, "cpu": round(share, 2)})
    return sorted(found, key=lambda each: (-each["cpu"], each["command"]))

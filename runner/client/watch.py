"""The client's watch over itself while a load runs: how late its event loop is, and how much of a core it got.

A timer is due every 10 ms; how late it runs is how late a chunk's time may be taken, or a request sent. CPU time says
how busy the process was; the run delay (Linux) how long it was ready to run and had no core: a client that another
program starves looks idle by the first and not by the second.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Callable
from pathlib import Path

from ..alarm import Alarm
from .clock import now_ns

TICK_NS = 10_000_000
_SCHEDSTAT = Path("/proc/thread-self/schedstat")


def run_delay_ns() -> int | None:
    """How long this thread has waited for a core, ns since it began; None where the system does not say."""
    try:
        return int(_SCHEDSTAT.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None


class Watch:
    """Ticks from `start_ns` on, and calls `on_tick` each time."""

    def __init__(self, start_ns: int, on_tick: Callable[[], None], exact: bool = True) -> None:
        self._due = start_ns
        self._on_tick = on_tick
        self._times = array("q")
        self._lags = array("q")
        self._cpu, self._waited = time.process_time_ns(), run_delay_ns()
        self._alarm = Alarm(asyncio.get_running_loop(), self._tick, exact)
        self._alarm.set(self._due)

    def stop(self) -> tuple[int, int | None]:
        """Tick no more; (CPU time, run delay) since it began, ns."""
        self._alarm.close()
        waited = run_delay_ns()
        delay = None if waited is None or self._waited is None else waited - self._waited
        return time.process_time_ns() - self._cpu, delay

    def lags(self, start: int | None, end: int | None) -> list[int]:
        """How late each tick was, ns, of those due in the window (of all, where there is none)."""
        first, last = start or 0, end or 1 << 62
        return [lag for due, lag in zip(self._times, self._lags, strict=True) if first <= due < last]

    def _tick(self) -> None:
        now = now_ns()
        # Each tick that was due meanwhile was late, not only the first: a client that stood still for a second was late
        # a hundred times.
        while self._due <= now:
            self._times.append(self._due)
            self._lags.append(now - self._due)
            self._due += TICK_NS
        self._alarm.set(self._due)
        self._on_tick()

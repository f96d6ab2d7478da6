"""Time for the client: the monotonic clock, and a timer that fires on it to well under a millisecond.

libuv's timers tick in whole milliseconds, which would show as schedule lag of 1 ms; a Linux timerfd watched by the
event
loop fires within about 0.1 ms at the same CPU. Where there is no timerfd, `call_at` of the loop takes its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import time
from collections.abc import Callable

now_ns = time.monotonic_ns

_CLOCK_MONOTONIC = 1
_TFD_NONBLOCK = 0o4000
_TFD_CLOEXEC = 0o2000000
_TFD_TIMER_ABSTIME = 1


def paired_clocks() -> tuple[int, int]:
    """The monotonic and the wall clock (Unix ns) at the same moment: the tightest of a few tries."""
    best: tuple[int, int, int] | None = None
    for _ in range(8):
        before, wall, after = now_ns(), time.time_ns(), now_ns()
        if best is None or after - before < best[0]:
            best = (after - before, (before + after) // 2, wall)
    assert best is not None
    return best[1], best[2]


class _Timespec(ctypes.Structure):
    _fields_ = (("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("it_interval", _Timespec), ("it_value", _Timespec))


class Alarm:
    """Calls back once at a given time of the monotonic clock; set it again for the next."""

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._callback = callback
        self._handle: asyncio.TimerHandle | None = None
        self._fd = _timerfd()
        if self._fd is not None:
            self._spec = _Itimerspec()
            self._libc = ctypes.CDLL(None, use_errno=True)
            loop.add_reader(self._fd, self._readable)

    @property
    def exact(self) -> bool:
        """Whether a timerfd drives it (else the loop's millisecond timer)."""
        return self._fd is not None

    def set(self, when_ns: int) -> None:
        """Fire at `when_ns`; at once if that is past."""
        if self._fd is None:
            delay = max(0, when_ns - now_ns()) / 1e9
            self._handle = self._loop.call_later(delay, self._callback)
            return
        seconds, nanoseconds = divmod(max(when_ns, 1), 1_000_000_000)
        self._spec.it_value.tv_sec = seconds
        self._spec.it_value.tv_nsec = nanoseconds
        self._libc.timerfd_settime(self._fd, _TFD_TIMER_ABSTIME, ctypes.byref(self._spec), None)

    def close(self) -> None:
        """Never fire again."""
        if self._handle is not None:
            self._handle.cancel()
        if self._fd is not None:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = None

    def _readable(self) -> None:
        if self._fd is None:
            return
        with contextlib.suppress(BlockingIOError):
            os.read(self._fd, 8)
        self._callback()


def _timerfd() -> int | None:
    try:
        create = ctypes.CDLL(None, use_errno=True).timerfd_create
    except (OSError, AttributeError):
        return None
    fd = create(_CLOCK_MONOTONIC, _TFD_NONBLOCK | _TFD_CLOEXEC)
    return fd if fd >= 0 else None

"""A timer that rings at an absolute time of CLOCK_MONOTONIC, to the microsecond: a Linux timerfd.

The event loop's own timers tick in milliseconds, which is as long as a whole step of a sped-up engine.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from collections.abc import Callable

_TFD_NONBLOCK = os.O_NONBLOCK
_TFD_CLOEXEC = os.O_CLOEXEC
_TFD_TIMER_ABSTIME = 1


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class Timer:
    """Calls `ring` soon after each time it was armed for. Arming it again replaces the former time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = self._libc.timerfd_create(time.CLOCK_MONOTONIC, _TFD_NONBLOCK | _TFD_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._spec = _Itimerspec()
        self._reference = ctypes.byref(self._spec)
        self._loop = loop
        self._ring = ring
        loop.add_reader(self._fd, self._on_readable)

    def arm(self, at_ns: int) -> None:
        """Ring at that time of the monotonic clock; at once if it is past."""
        self._spec.value.seconds, self._spec.value.nanoseconds = divmod(max(at_ns, 1), 1_000_000_000)
        if self._libc.timerfd_settime(self._fd, _TFD_TIMER_ABSTIME, self._reference, None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def close(self) -> None:
        """Never ring again."""
        self._loop.remove_reader(self._fd)
        os.close(self._fd)

    def _on_readable(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:  # armed anew since it rang
            return
        self._ring()

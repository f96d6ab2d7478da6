"""A timer that fires at an absolute time of the monotonic clock, to about a tenth of a millisecond: a Linux timerfd.

libuv's timers tick in whole milliseconds, which would show as 1 ms of schedule lag in the client, and is as long as a
whole step of a sped-up engine. Where there is no timerfd, the loop's own timer takes its place.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from collections.abc import Callable

_TFD_TIMER_ABSTIME = 1


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class Alarm:
    """Calls `callback` soon after the time it was set for. Setting it again replaces the former time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._callback = callback
        self._handle: asyncio.TimerHandle | None = None
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._spec = _Itimerspec()
        self._reference = ctypes.byref(self._spec)
        self._fd = self._timerfd()
        if self._fd is not None:
            loop.add_reader(self._fd, self._readable)

    @property
    def exact(self) -> bool:
        """Whether a timerfd drives it (else the loop's millisecond timer)."""
        return self._fd is not None

    def set(self, when_ns: int) -> None:
        """Fire at `when_ns`; at once if that is past."""
        if self._fd is None:
            if self._handle is not None:
                self._handle.cancel()
            self._handle = self._loop.call_later(max(0, when_ns - time.monotonic_ns()) / 1e9, self._callback)
            return
        self._spec.value.seconds, self._spec.value.nanoseconds = divmod(max(when_ns, 1), 1_000_000_000)
        if self._libc.timerfd_settime(self._fd, _TFD_TIMER_ABSTIME, self._reference, None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")

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
        try:
            os.read(self._fd, 8)
        except BlockingIOError:  # set anew since it fired
            return
        self._callback()

    def _timerfd(self) -> int | None:
        create = getattr(self._libc, "timerfd_create", None)
        if create is None:
            return None
        fd: int = create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        return fd if fd >= 0 else None

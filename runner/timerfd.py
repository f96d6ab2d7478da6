"""Linux's timerfd: a file descriptor that becomes readable at an absolute time of the monotonic clock, to about a tenth
of a millisecond. (Python has it only since 3.13; the timeouts of epoll and libuv tick in whole milliseconds.)"""

from __future__ import annotations

import ctypes
import os
import time

_ABSTIME = 1


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class TimerFd:
    """One timer; setting it again replaces the former time."""

    def __init__(self, libc: ctypes.CDLL, fd: int) -> None:
        self.fd = fd
        self._settime = libc.timerfd_settime
        self._spec = _Itimerspec()
        self._reference = ctypes.byref(self._spec)

    @classmethod
    def create(cls) -> TimerFd | None:
        """A timer, or None where the system has no timerfd."""
        libc = ctypes.CDLL(None, use_errno=True)
        create = getattr(libc, "timerfd_create", None)
        if create is None:
            return None
        fd: int = create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        return cls(libc, fd) if fd >= 0 else None

    def set(self, when_ns: int) -> None:
        """Become readable at `when_ns`; at once if that is past."""
        self._spec.value.seconds, self._spec.value.nanoseconds = divmod(max(when_ns, 1), 1_000_000_000)
        if self._settime(self.fd, _ABSTIME, self._reference, None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def acknowledge(self) -> bool:
        """Take the expiry; False if it was set anew since it became readable."""
        try:
            os.read(self.fd, 8)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.fd)

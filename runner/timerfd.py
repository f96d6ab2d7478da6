"""Linux's timerfd: a file descriptor that becomes readable at an absolute time of the monotonic clock, to about a tenth
of a millisecond. (Python has it only since 3.13; the timeouts of epoll and libuv tick in whole milliseconds.)"""

from __future__ import annotations

import ctypes
import os
import struct
import time

_ABSTIME = 1
#: struct itimerspec: interval and first expiry, each in seconds and nanoseconds
_ITIMERSPEC = struct.Struct("@llll")


class TimerFd:
    """One timer; setting it again replaces the former time."""

    def __init__(self, libc: ctypes.PyDLL, fd: int) -> None:
        self.fd = fd
        self._settime = libc.timerfd_settime
        self._settime.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        self._spec = ctypes.create_string_buffer(_ITIMERSPEC.size)
        self._address = ctypes.addressof(self._spec)

    @classmethod
    def create(cls) -> TimerFd | None:
        """A timer, or None where the system has no timerfd."""
        # PyDLL: the call takes less than a microsecond, and giving up the interpreter's lock for it as much again.
        libc = ctypes.PyDLL(None, use_errno=True)
        create = getattr(libc, "timerfd_create", None)
        if create is None:
            return None
        fd: int = create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        return cls(libc, fd) if fd >= 0 else None

    def set(self, when_ns: int) -> None:
        """Become readable at `when_ns`; at once if that is past."""
        _ITIMERSPEC.pack_into(self._spec, 0, 0, 0, *divmod(max(when_ns, 1), 1_000_000_000))
        if self._settime(self.fd, _ABSTIME, self._address, None) != 0:
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

"""A timer that fires at an absolute time of the monotonic clock, to about a tenth of a millisecond: a Linux timerfd.

libuv's timers tick in whole milliseconds, which would show as 1 ms of schedule lag in the client, and is as long as a
whole step of a sped-up engine. Where there is no timerfd, the loop's own timer takes its place.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from .timerfd import TimerFd


class Alarm:
    """Calls `callback` soon after the time it was set for. Setting it again replaces the former time.

    `exact` False does without a timerfd, as on a system that has none.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None], exact: bool = True) -> None:
        self._loop = loop
        self._callback = callback
        self._handle: asyncio.TimerHandle | None = None
        self._timer = TimerFd.create() if exact else None
        if self._timer is not None:
            loop.add_reader(self._timer.fd, self._readable)

    @property
    def exact(self) -> bool:
        """Whether a timerfd drives it (else the loop's millisecond timer)."""
        return self._timer is not None

    def set(self, when_ns: int) -> None:
        """Fire at `when_ns`; at once if that is past."""
        if self._timer is not None:
            self._timer.set(when_ns)
            return
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._loop.call_later(max(0, when_ns - time.monotonic_ns()) / 1e9, self._callback)

    def close(self) -> None:
        """Never fire again."""
        if self._handle is not None:
            self._handle.cancel()
        if self._timer is not None:
            self._loop.remove_reader(self._timer.fd)
            self._timer.close()
            self._timer = None

    def _readable(self) -> None:
        if self._timer is not None and self._timer.acknowledge():
            self._callback()

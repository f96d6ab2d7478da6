"""Connections: as many as there are attempts in flight, kept alive between them, none held back by a limit."""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from .attempt import Attempt
from .clock import now_ns
from .connection import Connection
from .wire import Target

#: An idle connection older than this is not used again: servers close idle ones (uvicorn after 5 s), and a request that
#: crosses such a close would be lost through no fault of the system under test.
REUSE_WITHIN_NS = 2_000_000_000
#: How often open attempts are checked against their timeouts.
SWEEP_S = 0.05
_OWN_FAULTS = {errno.EADDRNOTAVAIL, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


@dataclass(frozen=True)
class Timeouts:
    """In ns. connect: until the connection stands; idle: without a byte; total: from the scheduled time."""

    connect: int
    idle: int
    total: int


class Pool:
    """Sends attempts and ends them. `on_done(attempt)` is called once for each, when it has ended."""

    def __init__(self, target: Target, timeouts: Timeouts, on_done: Callable[[Attempt], None]) -> None:
        self._target = target
        self._timeouts = timeouts
        self._on_done = on_done
        self._idle: list[Connection] = []
        self._busy: dict[Connection, Attempt] = {}
        self._connecting: dict[Attempt, asyncio.Task[None]] = {}
        self._tls = ssl.create_default_context() if target.tls else None
        self._address: tuple[str, int] = (target.host, target.port)
        self._sweep_handle: asyncio.TimerHandle | None = None
        self._closed = False
        self.peak_in_flight = 0

    async def open(self) -> None:
        """Resolve the host once, so that no attempt waits for a name server; start watching the timeouts."""
        loop = asyncio.get_running_loop()
        infos = await loop.getaddrinfo(self._target.host, self._target.port, type=1)
        self._address = (str(infos[0][4][0]), self._target.port)
        self._sweep()

    def send(self, attempt: Attempt, request: bytes) -> None:
        """Send on a kept-alive connection if one is fresh enough, else on a new one."""
        oldest = now_ns() - REUSE_WITHIN_NS
        while self._idle:
            connection = self._idle.pop()
            if connection.lost or connection.idle_since < oldest:
                connection.abort()
                continue
            attempt.reused = True
            self._start(connection, attempt, request)
            return
        self._connect_new(attempt, request)

    def _connect_new(self, attempt: Attempt, request: bytes) -> None:
        attempt.connect_start = now_ns()
        task = asyncio.get_running_loop().create_task(self._connect(attempt, request))
        self._connecting[attempt] = task
        self._note_peak()

    def cancel_all(self) -> None:
        """End every attempt under way as cancelled."""
        for task in list(self._connecting.values()):
            task.cancel()
        for connection in list(self._busy):
            connection.give_up("cancelled", "the cell was over")

    def close(self) -> None:
        """Close every connection; what is lost now is not sent again."""
        self._closed = True
        if self._sweep_handle is not None:
            self._sweep_handle.cancel()
        for connection in [*self._busy, *self._idle]:
            connection.abort()

    def _start(self, connection: Connection, attempt: Attempt, request: bytes) -> None:
        self._busy[connection] = attempt
        connection.send(attempt, request)
        self._note_peak()

    def _note_peak(self) -> None:
        self.peak_in_flight = max(self.peak_in_flight, len(self._busy) + len(self._connecting))

    async def _connect(self, attempt: Attempt, request: bytes) -> None:
        loop = asyncio.get_running_loop()
        host = self._target.host if self._tls else None
        fault, error = None, None
        try:
            left = self._timeouts.total - (now_ns() - attempt.scheduled)
            async with asyncio.timeout(min(self._timeouts.connect, max(left, 0)) / 1e9):
                _, connection = await loop.create_connection(
                    lambda: Connection(self._ended, self._forget), *self._address, ssl=self._tls, server_hostname=host
                )
        except TimeoutError:
            fault, error = "timeout_connect", "no connection within timeout_connect"
            if now_ns() - attempt.scheduled >= self._timeouts.total:
                fault, error = "timeout_total", "not complete within timeout_total"
        except asyncio.CancelledError:
            fault, error = "cancelled", "the cell was over"
        except OSError as exc:
            fault = "client_error" if exc.errno in _OWN_FAULTS else "connect_error"
            error = f"no connection: {exc.strerror or exc}"
        finally:
            self._connecting.pop(attempt, None)
        if fault is None:
            attempt.connect_end = now_ns()
            self._start(connection, attempt, request)
            return
        attempt.fault, attempt.error, attempt.end = fault, error, now_ns()
        self._on_done(attempt)

    def _ended(self, connection: Connection, attempt: Attempt) -> None:
        self._busy.pop(connection, None)
        if attempt.reused and attempt.closed and not attempt.reads and attempt.fault is None and not self._closed:
            # The server closed a connection that it had offered to keep, while the request was on its way: that says
            # nothing about the system under test. Once more, on a new connection; the delay stays in the latency.
            attempt.reused, attempt.closed, attempt.sent_again, attempt.error = False, False, True, None
            self._connect_new(attempt, connection.request)
            return
        if attempt.fault is None and attempt.end is not None and attempt.end - attempt.scheduled > self._timeouts.total:
            attempt.fault, attempt.error = "timeout_total", "not complete within timeout_total"
            connection.abort()
        if not connection.lost and attempt.fault is None:
            self._idle.append(connection)
        self._on_done(attempt)

    def _forget(self, connection: Connection) -> None:
        if connection in self._idle:
            self._idle.remove(connection)

    def _sweep(self) -> None:
        now = now_ns()
        for connection, attempt in list(self._busy.items()):
            if now - attempt.scheduled > self._timeouts.total:
                connection.give_up("timeout_total", "not complete within timeout_total")
            elif now - attempt.last_read > self._timeouts.idle:
                connection.give_up("timeout_idle", "nothing received for timeout_idle")
        self._sweep_handle = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

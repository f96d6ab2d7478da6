"""Connections: as many as there are attempts in flight, kept alive between them, none held back by a limit
that the card does not name."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from .address import first_that_accepts
from .attempt import Attempt
from .clock import now_ns
from .connection import Connection
from .faults import note_unconnected
from .wire import Target

#: An idle connection older than this is not used again: servers close idle ones (uvicorn after 5 s), and a request that
#: crosses such a close would be lost through no fault of the system under test.
REUSE_WITHIN_NS = 2_000_000_000
#: A kept-alive connection that is lost this soon after a request was put on it, with no byte of a reply, was closed
#: while the request was on its way. Later, the server had the request: that it closed is an answer, and not a good one.
RESEND_WITHIN_NS = 50_000_000
#: How often open attempts are checked against their timeouts: a fiftieth of the shortest, within these bounds, s.
SWEEP_SHARE, SWEEP_LEAST_S, SWEEP_MOST_S = 50, 0.01, 0.25
#: HTTP statuses after which a retry, where the card asks for any, may help; and the pause before it, s.
RETRY_STATUS = {408, 425, 429, 500, 502, 503, 504}
RETRY_PAUSE_S = 0.1
_OUT_OF_TIME = "not complete within timeout_total"


@dataclass(frozen=True)
class Timeouts:
    """In ns. connect: until the connection stands; idle: without a byte; total: from the scheduled time."""

    connect: int
    idle: int
    total: int


@dataclass(frozen=True)
class Rules:
    """What the card says of sending. `retries`: further tries after one that failed. `in_flight`: the most attempts
    under way at once; one that finds no slot waits, and its wait is in its latency. None: no limit."""

    timeouts: Timeouts
    retries: int = 0
    in_flight: int | None = None


class Pool:
    """Sends attempts and ends them. `request(index)` gives the bytes of a request; `on_done(attempt)` is called once
    for each attempt, when it has ended for good."""

    def __init__(
        self, target: Target, rules: Rules, request: Callable[[int], bytes], on_done: Callable[[Attempt], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._target = target
        self._rules = rules
        self._timeouts = timeouts = rules.timeouts
        self._request = request
        self._on_done = on_done
        self._held: deque[Attempt] = deque()
        self._idle: list[Connection] = []
        self._busy: dict[Connection, Attempt] = {}
        self._connecting: dict[Attempt, asyncio.Task[None]] = {}
        self._tls = ssl.create_default_context() if target.tls else None
        self._address: tuple[str, int] = (target.host, target.port)
        shortest = min(timeouts.idle, timeouts.total) / 1e9
        self._sweep_s = min(max(shortest / SWEEP_SHARE, SWEEP_LEAST_S), SWEEP_MOST_S)
        self._sweep_handle: asyncio.TimerHandle | None = None
        self._closed = False
        self.peak_in_flight = 0

    async def open(self) -> None:
        """Resolve the host once, so that no attempt waits for a name server; start watching the timeouts."""
        self._address = await first_that_accepts(self._target.host, self._target.port)
        self._sweep()

    def send(self, attempt: Attempt) -> None:
        """Send now, or hold until a slot is free where the card caps the attempts in flight."""
        if self._rules.in_flight is not None and self._in_flight() >= self._rules.in_flight:
            self._held.append(attempt)
        else:
            self._send(attempt)

    def cancel_all(self) -> None:
        """End every attempt under way as cancelled, and those that wait as unsent."""
        self._closed = True
        while self._held:
            self._end_unsent(self._held.popleft(), "unsent", "the cell was over before a slot was free")
        for attempt, task in list(self._connecting.items()):
            # Ended here, since a task that is cancelled before its first step never runs.
            task.cancel()
            del self._connecting[attempt]
            self._end_unsent(attempt, "cancelled", "the cell was over")
        for connection in list(self._busy):
            connection.give_up("cancelled", "the cell was over")

    def close(self) -> None:
        """Close every connection; what is lost now is not sent again."""
        self._closed = True
        if self._sweep_handle is not None:
            self._sweep_handle.cancel()
        for connection in [*self._busy, *self._idle]:
            connection.abort()

    def _send(self, attempt: Attempt) -> None:
        """Send on a kept-alive connection if one is fresh enough, else on a new one."""
        oldest = now_ns() - REUSE_WITHIN_NS
        while self._idle:
            connection = self._idle.pop()
            if connection.lost or connection.stray or connection.idle_since < oldest:
                connection.abort()
                continue
            attempt.reused = True
            self._start(connection, attempt)
            return
        self._connect_new(attempt)

    def _connect_new(self, attempt: Attempt, pause_s: float = 0.0) -> None:
        self._connecting[attempt] = self._loop.create_task(self._connect(attempt, pause_s))
        self._note_peak()

    def _start(self, connection: Connection, attempt: Attempt) -> None:
        self._busy[connection] = attempt
        connection.send(attempt, self._request(attempt.index))
        self._note_peak()

    def _in_flight(self) -> int:
        return len(self._busy) + len(self._connecting)

    def _note_peak(self) -> None:
        self.peak_in_flight = max(self.peak_in_flight, self._in_flight())

    async def _connect(self, attempt: Attempt, pause_s: float) -> None:
        host = self._target.host if self._tls else None
        try:
            if pause_s:
                await asyncio.sleep(pause_s)
            attempt.connect_start = now_ns()
            left = self._timeouts.total - (attempt.connect_start - attempt.scheduled)
            async with asyncio.timeout(min(self._timeouts.connect, max(left, 0)) / 1e9):
                _, connection = await self._loop.create_connection(
                    lambda: Connection(self._loop, self._ended, self._forget),
                    *self._address, ssl=self._tls, server_hostname=host,
                )  # fmt: skip
        except TimeoutError:
            attempt.fault, attempt.error = "timeout_connect", "no connection within timeout_connect"
            if now_ns() - attempt.scheduled >= self._timeouts.total:
                attempt.fault, attempt.error = "timeout_total", _OUT_OF_TIME
        except asyncio.CancelledError:
            return  # ended by cancel_all
        except OSError as error:
            note_unconnected(attempt, error)
        finally:
            self._connecting.pop(attempt, None)
        if attempt.fault is None:
            attempt.connect_end = now_ns()
            self._start(connection, attempt)
            return
        attempt.end = now_ns()
        self._settle(attempt)

    def _ended(self, connection: Connection, attempt: Attempt) -> None:
        self._busy.pop(connection, None)
        if self._crossed_a_close(attempt) and not self._closed:
            # The server closed a connection that it had offered to keep, while the request was on its way: that says
            # nothing about the system under test. Once more, on a new connection; the delay stays in the latency.
            attempt.again("kept_alive_lost")
            attempt.resent = True
            self._connect_new(attempt)
            return
        if attempt.fault is None and attempt.end is not None and attempt.end - attempt.scheduled > self._timeouts.total:
            attempt.fault, attempt.error = "timeout_total", _OUT_OF_TIME
            connection.abort()
        if not connection.lost and attempt.fault is None:
            self._idle.append(connection)
        self._settle(attempt)

    def _settle(self, attempt: Attempt) -> None:
        """An attempt's try is over: another one where the card asks for it, else the attempt has ended; then a slot is
        free."""
        if self._may_try_again(attempt):
            attempt.again(attempt.failure or (f"http_{attempt.status}" if attempt.status else "lost"))
            self._connect_new(attempt, RETRY_PAUSE_S)
            return
        self._on_done(attempt)
        cap = self._rules.in_flight
        while self._held and cap is not None and self._in_flight() < cap and not self._closed:
            self._send(self._held.popleft())

    def _crossed_a_close(self, attempt: Attempt) -> bool:
        unanswered = attempt.closed and not attempt.reads and attempt.fault is None
        if not (attempt.reused and unanswered) or attempt.sent is None or attempt.end is None:
            return False
        return attempt.end - attempt.sent <= RESEND_WITHIN_NS

    def _may_try_again(self, attempt: Attempt) -> bool:
        """The server gave no reply, or said that it was busy."""
        if attempt.tries - attempt.resent > self._rules.retries or self._closed:
            return False
        unanswered = attempt.fault == "connect_error" or (attempt.fault is None and attempt.closed)
        return (unanswered and not attempt.reads) or (attempt.fault is None and attempt.status in RETRY_STATUS)

    def _end_unsent(self, attempt: Attempt, fault: str, error: str) -> None:
        attempt.fault, attempt.error, attempt.end = fault, error, now_ns()
        self._on_done(attempt)

    def _forget(self, connection: Connection) -> None:
        if connection in self._idle:
            self._idle.remove(connection)

    def _sweep(self) -> None:
        now = now_ns()
        while self._held and now - self._held[0].scheduled > self._timeouts.total:
            error = "no slot under in_flight was free within timeout_total"
            self._end_unsent(self._held.popleft(), "timeout_total", error)
        for connection, attempt in list(self._busy.items()):
            if now - attempt.scheduled > self._timeouts.total:
                connection.give_up("timeout_total", _OUT_OF_TIME)
            elif now - attempt.last_heard > self._timeouts.idle:
                connection.give_up("timeout_idle", "nothing received for timeout_idle")
        self._sweep_handle = self._loop.call_later(self._sweep_s, self._sweep)

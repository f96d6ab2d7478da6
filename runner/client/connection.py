"""A connection to the server under test. `data_received` takes the time and keeps the bytes, no more.

To know when a reply is complete without parsing it on the measured path: the first read goes through httptools for the
status line and headers. A chunked body can only end at an empty line, so only a read that ends with one is worth
handing on; then everything kept so far is fed to the parser in one call, in C, and it says whether the message ended.
That is done after all sockets that were ready have been read: many streams tend to end together, and the others' times
must not wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import httptools

from .attempt import Attempt
from .clock import now_ns

if TYPE_CHECKING:
    OnEnd = Callable[["Connection", Attempt], None]

_EMPTY_LINE = b"\r\n\r\n"


class Connection(asyncio.Protocol):
    """One TCP (or TLS) connection; carries one attempt at a time and is kept alive between them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_end: OnEnd, on_idle_lost: Callable[[Connection], None]):
        self._call_soon = loop.call_soon
        self._on_end = on_end
        self._on_idle_lost = on_idle_lost
        self.transport: asyncio.Transport | None = None
        self.attempt: Attempt | None = None
        self.idle_since = 0
        self.lost = False
        self._idle()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """The measured path: take the time, keep the bytes."""
        self._time(now_ns())
        self._keep(data)
        if self._eager or len(data) < 4 or data.endswith(_EMPTY_LINE):
            self._call_soon(self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection ended: an attempt under way ends with it."""
        self.lost = True
        attempt = self.attempt
        if attempt is None:
            self._on_idle_lost(self)
            return
        if attempt.reads:
            self._look()  # what came just before the end may have completed the reply
        if self.attempt is None:
            return
        attempt.closed = True
        if exc is not None:
            attempt.error = f"connection lost: {exc}"
        self._finish(attempt, now_ns())

    # Called by the pool

    def send(self, attempt: Attempt, request: bytes) -> None:
        """Send a request whose reply belongs to `attempt`."""
        self.attempt = attempt
        self._time, self._keep = attempt.times.append, attempt.reads.append
        self._parser: httptools.HttpResponseParser | None = None
        self._fed = 0
        self._eager = True
        self._complete = self._keep_alive = False
        self._status: int | None = None
        assert self.transport is not None
        self.transport.write(request)
        attempt.sent = now_ns()

    def abort(self) -> None:
        """Close at once; an attempt under way ends."""
        if self.transport is not None and not self.lost:
            self.transport.abort()

    def give_up(self, fault: str, error: str | None = None) -> None:
        """End the attempt under way with an outcome that the client knows, and close."""
        attempt = self.attempt
        if attempt is not None:
            attempt.fault, attempt.error = fault, error
            self._finish(attempt, now_ns())
        self.abort()

    # Completion

    def _idle(self) -> None:
        """No attempt under way: what comes now belongs to nobody, and ends the connection."""
        self.attempt = None
        #: what came while no attempt was under way
        self.stray: list[object] = []
        self._time = self._keep = self.stray.append
        self._eager = True

    def _look(self) -> None:
        """Whether the reply is complete. A reply ended with its last read, whenever that is looked at."""
        attempt = self.attempt
        if attempt is None:
            if self.stray:
                self.abort()
            return
        pending = attempt.reads[self._fed :]
        if not pending or not (self._eager or b"".join(attempt.reads[-4:]).endswith(_EMPTY_LINE)):
            return
        if self._parser is None:
            self._parser = httptools.HttpResponseParser(self)
        self._fed = len(attempt.reads)
        try:
            self._parser.feed_data(b"".join(pending))
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if self._complete:
                self._keep_alive = False  # a whole reply, and something behind it that belongs to nobody
                self._end_complete(attempt)
                return
            attempt.error = f"unreadable reply: {error}"
            attempt.fault = "stream_error"
            self._finish(attempt, attempt.times[-1])
            self.abort()
            return
        if self._complete:
            self._end_complete(attempt)

    def _end_complete(self, attempt: Attempt) -> None:
        # What is to be known of this reply is asked now: ending it may begin the next on this connection.
        transport = None if self._keep_alive else self.transport
        self.lost = not self._keep_alive
        self._finish(attempt, attempt.times[-1])
        if transport is not None:
            transport.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        """httptools: a header of the reply."""
        if name.lower() == b"transfer-encoding" and b"chunked" in value.lower():
            self._eager = False

    def on_message_complete(self) -> None:
        """httptools: the reply is complete. Whether the connection may be kept is known only within this call."""
        assert self._parser is not None
        if 100 <= self._parser.get_status_code() < 200:
            return  # an interim reply (100, 103): the final one follows
        if not self._complete:
            self._complete = True
            self._status = self._parser.get_status_code()
            self._keep_alive = self._parser.should_keep_alive()

    def _finish(self, attempt: Attempt, at: int) -> None:
        if self._parser is not None and attempt.reads:
            attempt.status = self._status or self._parser.get_status_code() or None
        attempt.end = at
        self.idle_since = now_ns()
        self._idle()
        self._on_end(self, attempt)

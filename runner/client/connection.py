"""A connection to the server under test. `data_received` takes the time and keeps the bytes; little else happens here.

To know when a reply is complete without parsing it on the measured path: the first read goes through httptools for the
status line and headers. A chunked body can only end at an empty line, so only a read that ends with one is worth
handing on; then everything kept so far is fed to the parser in one call, in C, and it says whether the message ended.
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


class Connection(asyncio.Protocol):
    """One TCP (or TLS) connection; carries one attempt at a time and is kept alive between them."""

    def __init__(self, on_end: OnEnd, on_idle_lost: Callable[[Connection], None]) -> None:
        self._on_end = on_end
        self._on_idle_lost = on_idle_lost
        self.transport: asyncio.Transport | None = None
        self.attempt: Attempt | None = None
        self.request = b""
        self.idle_since = 0
        self.lost = False
        self._reset()

    def _reset(self) -> None:
        self._parser: httptools.HttpResponseParser | None = None
        self._fed = 0
        self._lazy = False
        self._tail = b""
        self._complete = False
        self._keep_alive = False

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """The measured path: take the time, keep the bytes."""
        now = now_ns()
        attempt = self.attempt
        if attempt is None:
            self.abort()
            return
        attempt.times.append(now)
        attempt.reads.append(data)
        attempt.last_read = now
        tail = data if len(data) >= 4 else self._tail + data
        self._tail = tail[-4:]
        if self._lazy and not tail.endswith(b"\r\n\r\n"):
            return
        self._feed(attempt, now)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection ended: an attempt under way ends with it."""
        self.lost = True
        attempt = self.attempt
        if attempt is None:
            self._on_idle_lost(self)
            return
        attempt.closed = True
        if exc is not None:
            attempt.error = f"connection lost: {exc}"
        self._finish(attempt, now_ns())

    # Called by the pool

    def send(self, attempt: Attempt, request: bytes) -> None:
        """Send a request whose reply belongs to `attempt`."""
        self._reset()
        self.attempt = attempt
        self.request = request
        assert self.transport is not None
        self.transport.write(request)
        attempt.sent = attempt.last_read = now_ns()

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

    def _feed(self, attempt: Attempt, now: int) -> None:
        if self._parser is None:
            self._parser = httptools.HttpResponseParser(self)
        pending = attempt.reads[self._fed :]
        self._fed = len(attempt.reads)
        try:
            self._parser.feed_data(b"".join(pending))
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            attempt.error = f"unreadable reply: {error}"
            attempt.fault = "stream_error"
            self._finish(attempt, now)
            self.abort()
            return
        if self._complete:
            if not self._keep_alive:
                self.lost = True
            self._finish(attempt, now)
            if not self._keep_alive and self.transport is not None:
                self.transport.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        """httptools: a header of the reply."""
        if name.lower() == b"transfer-encoding" and b"chunked" in value.lower():
            self._lazy = True

    def on_message_complete(self) -> None:
        """httptools: the reply is complete. Whether the connection may be kept is known only within this call."""
        assert self._parser is not None
        if 100 <= self._parser.get_status_code() < 200:
            return  # an interim reply (100, 103): the final one follows
        self._complete = True
        self._keep_alive = self._parser.should_keep_alive()

    def _finish(self, attempt: Attempt, now: int) -> None:
        self.attempt = None
        if self._parser is not None and attempt.reads:
            attempt.status = self._parser.get_status_code() or None
        attempt.end = now
        self.idle_since = now
        self._on_end(self, attempt)

"""HTTP/1.1 on one connection: requests in, replies out, kept alive. What a request means is the application's business.

Token chunks go straight to the socket when nothing is queued before them, so that the time taken after the write is the
time of the write, and not of a queue that the event loop empties later.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol, cast
from urllib.parse import parse_qsl, unquote

import httptools

#: a longer body is refused with 413, longer headers with 431
MAX_BODY = 64 * 2**20
MAX_HEADERS = 64 * 2**10

STREAM_HEADERS = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
)


@dataclass
class HttpRequest:
    """A complete request. `stamp_ns` is when its last byte was read; header names are lower case."""

    method: str = ""
    path: str = ""
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    stamp_ns: int = 0
    keep_alive: bool = True


class Application(Protocol):
    """What serves the requests of all connections."""

    connections: set[Connection]

    def stamp(self) -> int:
        """The time now, for a request that has just become complete."""

    def handle(self, connection: Connection, request: HttpRequest) -> None:
        """Serve a request: reply now, or later through the connection."""

    def disconnected(self, connection: Connection) -> None:
        """The client of a connection went away."""


class Connection(asyncio.Protocol):
    """One client. Requests are served one after the other, in their order, as HTTP/1.1 has it."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._fd = -1
        self._busy = self._serving = False
        self._waiting: deque[HttpRequest] = deque()
        self._current = HttpRequest()
        self._request = HttpRequest()
        self._url = b""
        self._body: list[bytes] = []
        self._size = 0
        self._refused = False

    # -- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        self._transport = cast(asyncio.Transport, transport)
        self._fd = transport.get_extra_info("socket").fileno()
        self._application.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client, or we, closed the connection."""
        self._transport = None
        self._application.connections.discard(self)
        self._application.disconnected(self)

    def data_received(self, data: bytes) -> None:
        """Bytes of requests."""
        if self._refused:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(HTTPStatus.NOT_IMPLEMENTED)
        except httptools.HttpParserError:
            self._refuse(HTTPStatus.BAD_REQUEST)

    # -- httptools

    def on_message_begin(self) -> None:
        """A request begins."""
        self._current = HttpRequest()
        self._url, self._body, self._size = b"", [], 0

    def on_url(self, url: bytes) -> None:
        """Part of the request's target."""
        self._url += url
        self._count(len(url), MAX_HEADERS, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self._count(len(name) + len(value), MAX_HEADERS, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        self._current.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """A client that asks before it sends a large body is told to go on."""
        self._size = 0
        if self._current.headers.get("expect", "").lower() == "100-continue":
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """Part of the body."""
        self._count(len(body), MAX_BODY, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        self._body.append(body)

    def on_message_complete(self) -> None:
        """The request is complete: this is when it arrives."""
        if self._refused:
            return
        request = self._current
        request.stamp_ns = self._application.stamp()
        request.method = self._parser.get_method().decode("latin-1")
        request.keep_alive = self._parser.should_keep_alive()
        request.body = b"".join(self._body)
        path, _, query = self._url.partition(b"?")
        request.path = unquote(path.decode("latin-1"))
        request.query = dict(parse_qsl(query.decode("latin-1")))
        self._waiting.append(request)
        self._serve()

    # -- replies

    def send(self, data: bytes) -> None:
        """Hand bytes to the socket, now; what it does not take is queued behind it."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if transport.get_write_buffer_size() == 0:
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:
                pass
            except OSError:  # the client is gone; connection_lost follows
                return
            if not data:
                return
        transport.write(data)

    def send_reply(
        self, body: bytes, status: int = 200, kind: str = "application/json", headers: dict[str, str] | None = None
    ) -> None:
        """Send a whole reply. `reply_ended` is the caller's to call."""
        lines = [
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            f"content-length: {len(body)}",
            f"content-type: {kind}",
        ]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        if not self._request.keep_alive:
            lines.append("connection: close")
        self.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    def reply_ended(self) -> None:
        """The reply is complete: serve the next request, or close."""
        self._busy = False
        if not self._request.keep_alive:
            self._waiting.clear()
            self.close()
        self._serve()

    def close(self) -> None:
        """Close the connection once all is sent."""
        if self._transport is not None:
            self._transport.close()

    def _serve(self) -> None:
        """Serve what waits, one at a time; a reply that ends at once does not call back into this."""
        if self._serving:
            return
        self._serving = True
        while self._waiting and not self._busy:
            self._busy = True
            self._request = self._waiting.popleft()
            self._application.handle(self, self._request)
        self._serving = False

    def _count(self, size: int, limit: int, status: HTTPStatus) -> None:
        self._size += size
        if self._size > limit:
            self._refuse(status)

    def _refuse(self, status: HTTPStatus) -> None:
        """Not a request we can read: say so and close."""
        if not self._refused:
            self._refused = True
            self._request.keep_alive = False
            if not self._busy:
                self.send_reply(b"", status)
            self.close()

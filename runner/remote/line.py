"""One connection to a server, for questions about the way to it. Small on purpose: what it adds to a time is added to
every time."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from ..client.sse import SseParser
from ..client.watch import run_delay_ns

#: how long an answer may take, s
_TIMEOUT_S = 60.0
#: what a connection may fail with
FAULTS = (OSError, HTTPException, ValueError)


@dataclass(frozen=True)
class Answer:
    """A whole reply: its headers by lower-case name, and the seconds from the first byte sent to the last byte read."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    seconds: float


@dataclass(frozen=True)
class Streamed:
    """A streamed reply. `events`: (monotonic ns of the read that completed it, its JSON) of each event. `seconds` as of
    an Answer. `waited`: seconds of them in which this program was ready to read and had no core; 0 where the system
    does not say."""

    status: int
    headers: Mapping[str, str]
    events: list[tuple[int, dict[str, Any]]]
    seconds: float
    waited: float = 0.0


class Line:
    """A connection, kept until it is closed. `headers` may hold a secret and is never shown."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        parts = urlsplit(url)
        kind: Any = HTTPConnection
        options: dict[str, Any] = {"timeout": _TIMEOUT_S}
        if parts.scheme == "https":
            kind, options = HTTPSConnection, {**options, "context": ssl.create_default_context()}
        self._http: HTTPConnection = kind(parts.hostname, parts.port, **options)
        self._headers = {"Accept-Encoding": "identity", **(headers or {})}

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, path: str) -> Answer:
        """GET a path. Raises one of FAULTS."""
        begun = time.perf_counter()
        self._http.request("GET", path, headers=self._headers)
        reply = self._http.getresponse()
        body = reply.read()
        return Answer(reply.status, _names(reply), body, time.perf_counter() - begun)

    def stream(self, path: str, body: bytes) -> Streamed:
        """POST a request whose reply is streamed, and note when each event was read. Raises one of FAULTS."""
        begun, delay = time.perf_counter(), run_delay_ns() or 0
        headers = {**self._headers, "Content-Type": "application/json", "Accept": "text/event-stream"}
        self._http.request("POST", path, body, headers)
        reply = self._http.getresponse()
        parser, events = SseParser(), []
        while piece := reply.read1(1 << 16):
            at = time.monotonic_ns()
            events += [(at, event) for text in parser.feed(piece) if (event := _json_object(text)) is not None]
        waited = max(0, (run_delay_ns() or 0) - delay) / 1e9
        return Streamed(reply.status, _names(reply), events, time.perf_counter() - begun, waited)


def page_path(url: str) -> str:
    """The path of an address."""
    return urlsplit(url).path or "/"


def _names(reply: HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in reply.getheaders()}


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None

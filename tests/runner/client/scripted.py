"""A server that sends exact bytes at exact times: the truth for the client's tests.

A script is what one request gets: a list of (milliseconds after the request was complete, bytes). Bytes None closes the
connection, RESET resets it. The server notes when it sent each piece (monotonic ns), and tests compare with that.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

RESET = "reset"
Piece = bytes | None | str
Script = Sequence[tuple[float, Piece]]

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunked(data: bytes) -> bytes:
    """One HTTP chunk."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def event(document: object) -> bytes:
    """A server-sent event."""
    text = document if isinstance(document, str) else json.dumps(document, ensure_ascii=False)
    return f"data: {text}\n\n".encode()


def content(text: str | None) -> bytes:
    """C(x) of the casebook."""
    return event({"choices": [{"index": 0, "delta": {"content": text}}]})


def delta(**fields: object) -> bytes:
    """An event with any delta."""
    return event({"choices": [{"index": 0, "delta": fields}]})


ROLE = delta(role="assistant", content="")
FIN = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
DONE = event("[DONE]")


def usage(tokens: int) -> bytes:
    """U(n) of the casebook."""
    return event({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": tokens}})


def stream(*pieces: tuple[float, bytes], end: bool = True) -> list[tuple[float, Piece]]:
    """A chunked event stream: its events at their times, the head with the first, the end with the last."""
    script: list[tuple[float, Piece]] = [(at, chunked(data)) for at, data in pieces]
    script[0] = (script[0][0], HEAD + chunked(pieces[0][1]))
    if end:
        at, last = script[-1]
        assert isinstance(last, bytes)
        script[-1] = (at, last + END)
    return script


@dataclass
class ScriptedServer:
    """Answers request n with `script(n)`. `requests` holds the bodies, `sent` the times of each reply's pieces."""

    script: Callable[[int], Script]
    requests: list[bytes] = field(default_factory=list)
    arrivals: list[int] = field(default_factory=list)
    sent: dict[int, list[int]] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None

    def __enter__(self) -> ScriptedServer:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.port = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        return self

    def __exit__(self, *exc: object) -> None:
        # shutdown() first: close() alone does not wake a thread that waits in accept() or recv().
        for connection in [self._listener, *self._connections]:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        for thread in self._threads:
            thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            if self.tls is not None:
                connection = self.tls.wrap_socket(connection, server_side=True)
                self._connections.append(connection)
            while self._one(connection):
                pass
        except OSError:
            pass

    def _one(self, connection: socket.socket) -> bool:
        received = b""
        while b"\r\n\r\n" not in received:
            data = connection.recv(65536)
            if not data:
                return False
            received += data
        head, _, body = received.partition(b"\r\n\r\n")
        length = int(
            next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")).split(b":")[1]
        )
        while len(body) < length:
            body += connection.recv(65536)
        start = time.monotonic_ns()
        with self._lock:
            number = len(self.requests)
            self.requests.append(body)
            self.arrivals.append(start)
            times = self.sent.setdefault(number, [])
        for at, piece in self.script(number):
            time.sleep(max(0.0, (start + at * 1e6 - time.monotonic_ns()) / 1e9))
            if piece is None:
                connection.close()
                return False
            if piece == RESET:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()
                return False
            assert isinstance(piece, bytes)
            # Before, not after: a client on another core may have read the piece before this thread goes on.
            times.append(time.monotonic_ns())
            connection.sendall(piece)
        return True

"""A server with known timing: the truth that the measuring client is held against.

One thread, epoll and a heap of due times, every reply made beforehand, so that one core can stream some hundred
thousand tokens a second. Each request waits `ttft` after its last byte, then gets a token every `itl`; `max_tokens`
says how many. What counts is not that the server keeps these times but that it logs the real ones: when each request
was whole, and when each token was handed to the socket (CLOCK_MONOTONIC ns, the clock of every process on this
machine).

    python -m benchcard.runner.instrument.truthserver --port 0 --ttft 20 --itl 2      (times in ms)

Its first line on stdout is `port N`. GET /log gives a line of JSON for each reply begun ({"id", "arrival", "times"});
GET /reset?ttft=MS&itl=MS&lockstep=0|1 clears the log and sets other times; in lockstep the first token waits for the
next multiple of `itl`, so that all streams get theirs at once, as from an engine that batches. It ends when stdin does.
"""

from __future__ import annotations

import argparse
import gc
import heapq
import json
import re
import select
import socket
import sys
import time
from urllib.parse import parse_qs, urlsplit

from ..descriptors import allow_many_descriptors
from ..timerfd import TimerFd
from .replies import document, reply_parts

_LENGTH = re.compile(rb"content-length:\s*(\d+)", re.I)
_ID = re.compile(rb"x-request-id:\s*([^\r\n]+)", re.I)
_TOKENS = re.compile(rb'"max_(?:completion_)?tokens"\s*:\s*(\d+)')
_now = time.monotonic_ns


class _Connection:
    """A client: what it has sent, and the reply under way."""

    __slots__ = ("active", "chunk", "last", "left", "read_at", "received", "serial", "socket", "times", "unsent")

    def __init__(self, client: socket.socket) -> None:
        self.socket = client
        self.received = b""
        self.unsent = b""
        self.active = False
        self.serial = 0
        self.left = 0
        self.read_at = 0
        self.chunk = b""
        self.last = b""
        self.times: list[int] = []


class TruthServer:
    """Serves until stdin ends. Times in ns."""

    def __init__(self, port: int, ttft: int, itl: int) -> None:
        self._ttft, self._itl, self._lockstep = ttft, itl, False
        self._listener = socket.create_server(("127.0.0.1", port), backlog=65535)
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self._poll = select.epoll()
        self._timer = TimerFd.create()
        self._connections: dict[int, _Connection] = {}
        self._heap: list[tuple[int, int, _Connection]] = []
        self._rows: list[tuple[str, int, list[int]]] = []
        self._serial = 0

    def serve(self, until: int) -> None:
        """Serve until the file descriptor `until` becomes readable."""
        for fd in (self._listener.fileno(), until):
            self._poll.register(fd, select.EPOLLIN)
        if self._timer is not None:
            self._poll.register(self._timer.fd, select.EPOLLIN)
        listener, timer = self._listener.fileno(), self._timer.fd if self._timer else -1
        while True:
            heard: list[_Connection] = []
            for fd, event in self._poll.poll(self._due(), 1024):
                if fd == until:
                    return
                if fd == listener:
                    self._accept()
                elif fd == timer:
                    assert self._timer is not None
                    self._timer.acknowledge()
                elif self._ready(self._connections[fd], event):
                    heard.append(self._connections[fd])
            # Answered once all have been read: of requests that come together, none arrives later for the others' sake.
            for connection in heard:
                self._requests(connection)
            if self._heap:
                self._play()

    def _due(self) -> float:
        """How long to wait for events, s: until the next token is due."""
        if not self._heap:
            return -1
        wait = self._heap[0][0] - _now()
        if wait <= 0:
            return 0
        if self._timer is None:
            return wait / 1e9
        self._timer.set(self._heap[0][0])
        return -1

    def _play(self) -> None:
        """Send every token that is due."""
        heap, itl = self._heap, self._itl
        while heap:
            due, _, connection = heap[0]
            now = _now()
            if due > now:
                return
            connection.left -= 1
            connection.times.append(now)
            if connection.left > 0:
                heapq.heapreplace(heap, (due + itl, connection.serial, connection))
                self._send(connection, connection.chunk)
            else:
                heapq.heappop(heap)
                connection.active = False
                self._send(connection, connection.last)
                self._requests(connection)

    def _send(self, connection: _Connection, data: bytes) -> None:
        if connection.unsent:
            connection.unsent += data
            return
        try:
            sent = connection.socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            connection.left = 0
            return
        if sent < len(data):
            connection.unsent = data[sent:]
            self._poll.modify(connection.socket.fileno(), select.EPOLLIN | select.EPOLLOUT)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections[client.fileno()] = _Connection(client)
            self._poll.register(client.fileno(), select.EPOLLIN)

    def _ready(self, connection: _Connection, event: int) -> bool:
        """Read what there is; whether something came."""
        if event & select.EPOLLOUT and connection.unsent:
            self._poll.modify(connection.socket.fileno(), select.EPOLLIN)
            data, connection.unsent = connection.unsent, b""
            self._send(connection, data)
        if not event & ~select.EPOLLOUT:
            return False
        try:
            data = connection.socket.recv(1 << 16)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._drop(connection)
            return False
        connection.read_at = _now()
        connection.received += data
        return True

    def _drop(self, connection: _Connection) -> None:
        self._heap = [entry for entry in self._heap if entry[2] is not connection]
        heapq.heapify(self._heap)
        self._poll.unregister(connection.socket.fileno())
        del self._connections[connection.socket.fileno()]
        connection.socket.close()

    def _requests(self, connection: _Connection) -> None:
        """Begin the next request, if it is whole and no reply is under way."""
        while not connection.active and (end := connection.received.find(b"\r\n\r\n")) >= 0:
            head = connection.received[:end]
            length = _LENGTH.search(head)
            whole = end + 4 + (int(length[1]) if length else 0)
            if len(connection.received) < whole:
                return
            body, connection.received = connection.received[end + 4 : whole], connection.received[whole:]
            if head.startswith(b"POST"):
                self._begin(connection, head, body)
            else:
                self._answer(connection, head.split(b" ", 2)[1].decode())

    def _begin(self, connection: _Connection, head: bytes, body: bytes) -> None:
        arrival = connection.read_at
        asked, name = _TOKENS.search(body), _ID.search(head)
        tokens = max(1, int(asked[1])) if asked else 16
        kind = "chat" if b"/chat/" in head.split(b"\r\n", 1)[0] else "text"
        first, connection.chunk, connection.last = reply_parts(kind, tokens)
        connection.active, connection.left, connection.times = True, tokens, []
        self._serial += 1
        connection.serial = self._serial
        self._rows.append((name[1].decode("latin-1") if name else "", arrival, connection.times))
        due = arrival + self._ttft
        if self._lockstep:
            due = -(-due // self._itl) * self._itl
        heapq.heappush(self._heap, (due, self._serial, connection))
        self._send(connection, first)

    def _answer(self, connection: _Connection, target: str) -> None:
        url = urlsplit(target)
        if url.path == "/log":
            rows = ({"id": name, "arrival": arrival, "times": times} for name, arrival, times in self._rows)
            body = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
        elif url.path == "/reset":
            self._rows = []
            self._lockstep = parse_qs(url.query).get("lockstep", ["0"]) == ["1"]
            for key, values in parse_qs(url.query).items():
                if key in ("ttft", "itl"):
                    setattr(self, f"_{key}", round(float(values[0]) * 1e6))
            body = "{}"
        else:
            body = document(url.path)
        data = body.encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
        self._send(connection, head.encode() + data)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="A server with known timing.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--ttft", type=float, default=20.0, help="ms from the whole request to the first token")
    parser.add_argument("--itl", type=float, default=2.0, help="ms between tokens")
    arguments = parser.parse_args()
    allow_many_descriptors()
    # Times are kept in plain lists; a collection would stop every stream.
    gc.disable()
    server = TruthServer(arguments.port, round(arguments.ttft * 1e6), round(arguments.itl * 1e6))
    print(f"port {server.port}", flush=True)
    server.serve(sys.stdin.fileno())


if __name__ == "__main__":
    main()

"""What stands between a client and its servers: a proxy that holds replies back, and a balancer that takes turns."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from itertools import cycle
from types import TracebackType


class Proxy:
    """Listens on a port of its own, takes one request a connection and asks the next of its servers. With `buffer` a
    reply is sent on once it is whole; `header` is added to each reply's headers."""

    def __init__(self, ports: Sequence[int], *, buffer: bool = False, header: str = "") -> None:
        self._turns = cycle(ports)
        self._buffer = buffer
        self._header = header
        self._socket = socket.create_server(("127.0.0.1", 0))
        #: the API base
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(client, next(self._turns)), daemon=True).start()

    def _pass_on(self, client: socket.socket, port: int) -> None:
        with client:
            head, body = _request(client)
            if not head:
                return
            with socket.create_connection(("127.0.0.1", port)) as server:
                server.sendall(head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) + b"\r\n\r\n" + body)
                held = b""
                try:
                    while piece := server.recv(65536):
                        if self._buffer:
                            held += piece
                        else:
                            client.sendall(piece)
                    if self._buffer:
                        client.sendall(held.replace(b"\r\n", f"\r\n{self._header}\r\n".encode(), 1))
                except OSError:
                    return


def _request(client: socket.socket) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = client.recv(65536)
        if not piece:
            return b"", b""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    lines = [line.partition(b":") for line in head.split(b"\r\n")[1:]]
    length = next((int(value) for name, _, value in lines if name.lower() == b"content-length"), 0)
    while len(body) < length:
        body += client.recv(65536)
    lines_kept = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    return b"\r\n".join(lines_kept), body

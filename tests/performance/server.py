"""The truth server as a process of its own: start it, reset it, read its log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

#: how long an answer of the server itself (not a reply) may take, s; the log of a full run has some megabytes
_ANSWER_S = 60


@dataclass(frozen=True)
class Reply:
    """A reply as the server made it: monotonic ns of the whole request's arrival and of each token's hand-over to the
    socket. `id` is the request's X-Request-Id, or empty."""

    id: str
    arrival: int
    times: list[int]


@dataclass(frozen=True)
class Served:
    """A running truth server, and the core that is left for its client (None: no pinning)."""

    port: int
    ttft_ms: float
    itl_ms: float
    client_core: int | None

    @property
    def url(self) -> str:
        """Where it listens, without a path."""
        return f"http://127.0.0.1:{self.port}"

    def reset(self) -> None:
        """Forget every reply so far."""
        self._get(f"/reset?ttft={self.ttft_ms}&itl={self.itl_ms}")

    def replies(self) -> list[Reply]:
        """Every reply begun since the last reset, in the order of arrival."""
        rows = (json.loads(line) for line in self._get("/log").splitlines())
        return sorted((Reply(row["id"], row["arrival"], row["times"]) for row in rows), key=lambda reply: reply.arrival)

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(self.url + path, timeout=_ANSWER_S) as answer:
            data: bytes = answer.read()
        return data


def two_cores() -> tuple[int | None, int | None]:
    """The cores for the server and for its client. (None, None) where this process may use only one: pinning both to it
    would change nothing."""
    allowed = sorted(os.sched_getaffinity(0))
    return (allowed[0], allowed[1]) if len(allowed) > 1 else (None, None)


@contextmanager
def truth_server(ttft_ms: float = 20.0, itl_ms: float = 2.0) -> Iterator[Served]:
    """A truth server, pinned to a core of its own where there are two. It waits `ttft_ms` before a reply's first token
    and `itl_ms` between tokens."""
    server_core, client_core = two_cores()
    command = [sys.executable, "-m", "benchcard.runner.instrument.truthserver"]
    command += ["--port", "0", "--ttft", str(ttft_ms), "--itl", str(itl_ms)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if server_core is not None:
            os.sched_setaffinity(process.pid, {server_core})
        word, _, port = process.stdout.readline().partition(" ")
        if word != "port":
            raise RuntimeError("the truth server did not start")
        yield Served(int(port), ttft_ms, itl_ms, client_core)
    finally:
        # It ends when its input does; one that hangs is ended.
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

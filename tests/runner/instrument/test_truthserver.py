"""The truth server: what it sends, and that what it logs is when it sent it. Held against a client of a few lines."""

from __future__ import annotations

import json
import socket
import time
from itertools import pairwise

import pytest
from benchcard.runner.client.reply import parse_reply
from benchcard.runner.instrument.truth import Truth


def ask(
    port: int, name: str, tokens: int, path: str = "/v1/chat/completions"
) -> tuple[int, list[int], list[bytes], int]:
    """Send one request by hand: (sent at, times of reads, reads, end)."""
    body = json.dumps({"model": "truth", "max_tokens": tokens, "stream": True}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nX-Request-Id: {name}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        sent = time.monotonic_ns()
        # In two pieces: a request has arrived when its last byte has.
        connection.sendall(head + body[:10])
        time.sleep(0.03)
        connection.sendall(body[10:])
        times, reads = [], []
        while not b"".join(reads[-3:]).endswith(b"0\r\n\r\n"):
            reads.append(connection.recv(65536))
            times.append(time.monotonic_ns())
    return sent, times, reads, time.monotonic_ns()


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_a_reply_and_its_log(path: str) -> None:
    with Truth() as truth:
        truth.reset(ttft_ms=40, itl_ms=5)
        sent, times, reads, end = ask(truth.port, "a", 7, path)
        log = truth.log()
    reply = parse_reply(times, reads)
    assert (reply.status, len(reply.chunks), reply.output_tokens, reply.finish_reason) == (200, 7, 7, "length")
    assert reply.done
    assert "".join(chunk.text for chunk in reply.chunks) == " tok" * 7
    (row,) = log.values()
    assert list(log) == ["a"]
    assert sent + 30_000_000 <= row.arrival <= row.times[0] <= end
    assert row.times[0] - row.arrival >= 40_000_000
    assert all(b - a >= 0 for a, b in pairwise(row.times))
    # A token every 5 ms, counted from when the first was due: a late one does not delay those after it.
    assert row.times[-1] >= row.arrival + 40_000_000 + 6 * 5_000_000
    # Nothing is read before the log says it was sent.
    assert all(chunk.time >= at for chunk, at in zip(reply.chunks, row.times, strict=True))


def test_in_lockstep_every_stream_gets_its_tokens_on_the_same_beat() -> None:
    """The first token waits for the next multiple of the ITL: 20 ms after the arrival, then the next 50 ms beat."""
    beat = 50_000_000
    with Truth() as truth:
        truth.reset(20, 50, lockstep=True)
        for name in ("a", "b", "c"):
            ask(truth.port, name, 4)
        rows = truth.log().values()
    for row in rows:
        first = -(-(row.arrival + 20_000_000) // beat) * beat
        assert all(at >= first + i * beat for i, at in enumerate(row.times))


def test_a_reset_forgets_and_a_request_comes_once() -> None:
    with Truth() as truth:
        truth.reset(1, 1)
        ask(truth.port, "a", 1)
        truth.reset(1, 1)
        assert truth.log() == {}
        ask(truth.port, "a", 1)
        ask(truth.port, "a", 1)
        with pytest.raises(RuntimeError, match="saw request a twice"):
            truth.log()


def test_a_client_that_leaves_takes_nobody_with_it() -> None:
    with Truth() as truth:
        truth.reset(20, 1)
        for n in range(3):
            head = f"POST /v1/completions HTTP/1.1\r\nx-request-id: {n}\r\ncontent-length: 2\r\n\r\n"
            with socket.create_connection(("127.0.0.1", truth.port)) as connection:
                connection.sendall(head.encode() + b"{}")
        ask(truth.port, "after", 3)
        assert len(truth.log()["after"].times) == 3


def test_it_ends_with_its_owner() -> None:
    with Truth() as truth:
        process = truth._process
    assert process.poll() == 0

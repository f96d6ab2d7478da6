"""The connection itself, without a socket: whatever way the bytes are cut, a reply ends once, with its last piece, and
reads the same."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from benchcard.runner.client import connection as module
from benchcard.runner.client.attempt import Attempt
from benchcard.runner.client.connection import Connection
from benchcard.runner.client.outcome import outcome
from benchcard.runner.client.reply import parse_reply
from hypothesis import given
from hypothesis import strategies as st

from .scripted import DONE, END, FIN, HEAD, ROLE, chunked, content, delta, event, usage


class Loop:
    """Calls what is to be called soon, once all pieces of a batch are in."""

    def __init__(self) -> None:
        self.queue: deque[Callable[[], None]] = deque()

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.queue.append(callback)

    def run(self) -> None:
        while self.queue:
            self.queue.popleft()()


class Transport:
    """Takes what is written; knows whether it was closed."""

    def __init__(self) -> None:
        self.closed = False

    def write(self, data: bytes) -> None:
        assert data == b"request"

    def abort(self) -> None:
        self.closed = True


class Harness:
    """A connection with an attempt under way; the clock is the number of the piece that came last."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0
        monkeypatch.setattr(module, "now_ns", lambda: self.now)
        self.loop, self.transport = Loop(), Transport()
        self.ended: list[Attempt] = []
        self.connection = Connection(self.loop, self._end, lambda _: None)  # type: ignore[arg-type]
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]
        self.send()

    def send(self) -> None:
        self.attempt = Attempt(0, "measure", 0, 0)
        self.connection.send(self.attempt, b"request")

    def _end(self, _: Connection, attempt: Attempt) -> None:
        self.ended.append(attempt)

    def feed(self, pieces: list[bytes], batch: int) -> None:
        """Pieces one after another, `batch` of them before the loop comes round."""
        for number, piece in enumerate(pieces, start=1):
            self.now = number
            self.connection.data_received(piece)
            if number % batch == 0:
                self.loop.run()
        self.loop.run()


TEXT = "a 中 \u2028 é 😀\r\n0\r\n\r\n"
CHUNKS = [
    ROLE,
    content("x"),
    delta(reasoning_content="r"),
    content(TEXT),
    b": ping\n\n",
    content(""),
    FIN,
    usage(3),
    DONE,
]
LENGTH = b'{"choices":[{"message":{"content":"hi\\r\\n\\r\\n"},"finish_reason":"stop"}]}'
HINTS = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
OF_A_LENGTH = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
REPLIES = {
    "chunked": HEAD + b"".join(map(chunked, CHUNKS)) + END,
    "chunked, with a trailer": HEAD + b"".join(map(chunked, CHUNKS)) + b"0\r\nx-late: 1\r\n\r\n",
    "chunked, each byte a chunk": HEAD + b"".join(chunked(bytes([b])) for part in CHUNKS for b in part) + END,
    "after an interim reply": HINTS + HEAD + chunked(content("a") + FIN + DONE) + END,
    "of a length": OF_A_LENGTH % len(LENGTH) + LENGTH,
    "an error of a length": b"HTTP/1.1 500 No\r\ncontent-length: 6\r\n\r\nno\r\n\r\n",
    "an error inside": HEAD + chunked(content("x")) + chunked(event({"error": "boom"})) + END,
}  # fmt: skip


def read(times: list[int], reads: list[bytes]) -> tuple[Any, ...]:
    """What a reply says, without its times."""
    reply = parse_reply(times, reads)
    chunks = [(chunk.kind, chunk.text, chunk.tokens) for chunk in reply.chunks]
    return (reply.status, reply.streamed, reply.done, reply.finish_reason, reply.error, reply.output_tokens, chunks)


@pytest.mark.parametrize("name", REPLIES)
@given(data=st.data())
def test_any_cut_any_batch(name: str, data: st.DataObject) -> None:
    raw = REPLIES[name]
    cuts = sorted(data.draw(st.sets(st.integers(1, len(raw) - 1), max_size=30)))
    batch = data.draw(st.integers(1, 4))
    pieces = [raw[a:b] for a, b in pairwise([0, *cuts, len(raw)])]
    with pytest.MonkeyPatch.context() as monkeypatch:
        harness = Harness(monkeypatch)
        harness.feed(pieces, batch)
        assert harness.ended == [harness.attempt]
        attempt = harness.attempt
        assert attempt.reads == pieces
        assert attempt.times == list(range(1, len(pieces) + 1))
        assert attempt.end == len(pieces)
        assert attempt.fault is None
        assert read(attempt.times, attempt.reads) == read([1], [raw])
        assert not harness.transport.closed
        # The connection is free for the next, and nothing of the last reply is left in it.
        harness.send()
        harness.feed([raw], 1)
        assert len(harness.ended) == 2


@pytest.mark.parametrize("cut", range(1, 8))
def test_every_cut_of_the_end(cut: int) -> None:
    raw = REPLIES["chunked"]
    for first in range(cut, 9):
        pieces = [raw[:-first], raw[-first : len(raw) - cut + 1], raw[len(raw) - cut + 1 :]]
        pieces = [piece for piece in pieces if piece]
        with pytest.MonkeyPatch.context() as monkeypatch:
            harness = Harness(monkeypatch)
            harness.feed(pieces, 1)
            assert [attempt.end for attempt in harness.ended] == [len(pieces)]


@given(pieces=st.lists(st.binary(min_size=1, max_size=40), max_size=8), batch=st.integers(1, 3), lost=st.booleans())
def test_any_bytes_end_as_an_outcome(pieces: list[bytes], batch: int, lost: bool) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        harness = Harness(monkeypatch)
        harness.feed(pieces, batch)
        harness.connection.connection_lost(OSError("reset") if lost else None)
        harness.loop.run()
        assert len(harness.ended) == 1
        name, _, _ = outcome(harness.attempt, parse_reply(harness.attempt.times, harness.attempt.reads))
        assert name != "ok"


@given(data=st.data())
def test_a_broken_reply_ends_as_an_outcome(data: st.DataObject) -> None:
    """A good reply with some bytes changed, cut anywhere, and closed anywhere."""
    raw = bytearray(REPLIES["chunked"])
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    whole = bytes(raw[: data.draw(st.integers(1, len(raw)))])
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(whole) - 1)), max_size=6)))
    pieces = [piece for a, b in pairwise([0, *cuts, len(whole)]) if (piece := whole[a:b])]
    with pytest.MonkeyPatch.context() as monkeypatch:
        harness = Harness(monkeypatch)
        harness.feed(pieces, 2)
        harness.connection.connection_lost(None)
        harness.loop.run()
        assert len(harness.ended) == 1
        attempt = harness.attempt
        outcome(attempt, parse_reply(attempt.times, attempt.reads))


def test_bytes_for_nobody_close_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(monkeypatch)
    harness.feed([REPLIES["chunked"]], 1)
    assert not harness.transport.closed
    harness.feed([b"HTTP/1.1 200 OK\r\n\r\n"], 1)
    assert harness.transport.closed
    assert len(harness.ended) == 1


@pytest.mark.parametrize("junk", [b"x", b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n"])
def test_a_whole_reply_with_something_behind_it(monkeypatch: pytest.MonkeyPatch, junk: bytes) -> None:
    """The reply stands; the connection, which says what nobody asked for, is not used again."""
    harness = Harness(monkeypatch)
    harness.feed([REPLIES["chunked"] + junk], 1)
    (attempt,) = harness.ended
    assert (attempt.fault, attempt.status) == (None, 200)
    assert read(attempt.times, attempt.reads) == read([1], [REPLIES["chunked"]])
    assert outcome(attempt, parse_reply(attempt.times, attempt.reads))[0] == "ok"
    if junk == b"x":
        assert harness.transport.closed


def test_the_last_piece_and_the_end_of_the_connection_in_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reply was whole before the server closed: it is no cut stream."""
    harness = Harness(monkeypatch)
    harness.now = 1
    harness.connection.data_received(REPLIES["chunked"])
    harness.connection.connection_lost(None)
    harness.loop.run()
    assert [(a.closed, a.end) for a in harness.ended] == [(False, 1)]

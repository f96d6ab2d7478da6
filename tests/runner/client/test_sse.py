"""Server-sent events: what the standard says, in any cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from benchcard.runner.client.sse import SseParser
from hypothesis import given
from hypothesis import strategies as st


def parse(pieces: list[bytes]) -> list[str]:
    parser = SseParser()
    return [event for piece in pieces for event in parser.feed(piece)]


@pytest.mark.parametrize(
    ("text", "events"),
    [
        (b"data: a\n\n", ["a"]),
        (b"data:a\n\n", ["a"]),
        (b"data:  a\n\n", [" a"]),
        (b"data: a\r\n\r\n", ["a"]),
        (b"data: a\r\rdata: b\r\r", ["a", "b"]),
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b"data: a\n", []),
        (b": ping\n\n:\n\nid: 1\nevent: x\nretry: 3\ndata: a\n\n", ["a"]),
        (b"data:\n\n", []),
        (b"data\n\n", []),
        (b"data\ndata\n\n", ["\n"]),
        (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
        ("data: x\u2028y\n\n".encode(), ["x\u2028y"]),
        (b"data: \xff\n\n", ["\ufffd"]),
        (b"dat: a\n\nadata: b\n\n", []),
    ],
)
def test_the_standard(text: bytes, events: list[str]) -> None:
    assert parse([text]) == events


STREAM = ': hi\r\ndata: {"a": "中文 \u2028"}\r\n\r\ndata: b\rdata: c\r\rid: 7\ndata:d\n\ndata: [DONE]\n\n'.encode()
EVENTS = ['{"a": "中文 \u2028"}', "b\nc", "d", "[DONE]"]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_any_cut_gives_the_same_events(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    assert parse([STREAM[a:b] for a, b in pairwise(edges)]) == EVENTS


def test_byte_by_byte() -> None:
    assert parse([STREAM[i : i + 1] for i in range(len(STREAM))]) == EVENTS


@given(st.lists(st.binary(max_size=40), max_size=10))
def test_no_bytes_raise(pieces: list[bytes]) -> None:
    assert all(isinstance(event, str) for event in parse(pieces))


def test_a_long_line_in_many_pieces_is_joined_once() -> None:
    """A hundred thousand pieces of a line: were each joined to all before it, this would copy 50 GB."""
    parser = SseParser()
    assert parser.feed(b"data: ") == []
    for _ in range(100_000):
        assert parser.feed(b"0123456789") == []
    (event,) = parser.feed(b"\n\n")
    assert event == "0123456789" * 100_000

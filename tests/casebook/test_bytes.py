"""Casebook 15-24: what the bytes say, however they come."""

from __future__ import annotations

import json

import pytest

from ..runner.client.scripted import DONE, END, FIN, HEAD, RESET, Piece, chunked, content, event, stream, usage
from .replay import attempt, metrics, row, rows


def test_15_a_reply_that_was_not_streamed_has_no_ttft() -> None:
    body = json.dumps(
        {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "usage": {"completion_tokens": 1}}
    )
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    frame = rows(attempt([(500, head.encode() + body.encode())]))
    found = frame.row(0, named=True)
    assert (found["outcome"], found["streamed"], found["first_token"]) == ("ok", False, None)
    assert found["error"] == "note: the reply was not streamed"
    value = metrics(frame)["ttft.p50"]
    assert value.value is None
    assert sum((value.undefined or {}).values()) == 1


def test_16_a_character_split_between_reads() -> None:
    whole = chunked(content("中"))
    cut = whole.index("中".encode()) + 1
    found = row([(0, HEAD), (10, whole[:cut]), (60, whole[cut:]), (60, chunked(FIN + DONE) + END)])
    assert found["chunk_times"] == [60_000_000]
    assert found["chunk_bytes"] == [3]


def test_17_coalesced_events_are_counted_and_seen() -> None:
    four = [chunked(content(x)) for x in "abcd"]
    script = [
        (0, HEAD),
        (10, four[0][:9]),
        (40, four[0][9:] + b"".join(four[1:]) + chunked(FIN + usage(4) + DONE) + END),
    ]
    found = row(script)
    assert found["chunk_times"] == [40_000_000] * 4
    assert found["reads"] == 3 < 4


def test_19_comments_ids_and_empty_data_are_nothing() -> None:
    noise = b":\n\n: ping\n\nid: 1\n\ndata:\n\n"
    found = row(stream((100, noise), (2000, content("a") + FIN + usage(1) + DONE)))
    assert (found["outcome"], found["first_chunk"], found["first_token"]) == ("ok", 2_000_000_000, 2_000_000_000)


@pytest.mark.parametrize("error", [{"error": {"message": "boom", "code": 500}}, {"error": "boom"}])
@pytest.mark.parametrize("before", [0, 3])
def test_22_an_error_inside_a_200_is_a_failure(error: object, before: int) -> None:
    pieces = [(10 * i, content("x")) for i in range(before)]
    frame = rows(attempt(stream(*pieces, (100, event(error)), (100, DONE))))
    found = frame.row(0, named=True)
    assert (found["outcome"], found["status"], found["error"]) == ("stream_error", 200, "boom")
    assert metrics(frame)["ttft.p50"].n == 0


@pytest.mark.parametrize("end", [None, RESET])
def test_24_a_cut_stream_is_truncated(end: Piece) -> None:
    five = [(10 * i, chunked(content("x"))) for i in range(5)]
    found = row([(0, HEAD), *five, (60, end)])
    assert found["outcome"] == "truncated"
    assert len(found["chunk_times"]) == 5


def test_24_a_finish_reason_without_done_is_ok_with_a_note() -> None:
    found = row([(0, HEAD), (10, chunked(content("x"))), (20, chunked(FIN)), (30, None)])
    assert (found["outcome"], found["error"]) == ("ok", "note: no [DONE] after the finish reason")

"""Replies: parsed the same however the bytes were cut; malformed ones end as an outcome, never as an exception."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import pairwise

from benchcard.runner.client.attempt import Attempt
from benchcard.runner.client.outcome import outcome
from benchcard.runner.client.reply import Reply, parse_reply
from hypothesis import example, given
from hypothesis import strategies as st

from .scripted import DONE, END, FIN, HEAD, ROLE, chunked, content, delta, event, usage

CHAT = HEAD + b"".join(chunked(x) for x in (ROLE, content("中"), content("b"), FIN, usage(2), DONE)) + END


def outcome_of(raw: bytes, *, closed: bool = False) -> tuple[str, str | None]:
    attempt = Attempt(0, "measure", 0, 0)
    attempt.closed = closed
    attempt.times, attempt.reads = ([1], [raw]) if raw else ([], [])
    name, _, error = outcome(attempt, parse_reply(attempt.times, attempt.reads))
    return name, error


def without_times(reply: Reply) -> dict[str, object]:
    fields = {k: v for k, v in asdict(reply).items() if not k.endswith("_time")}
    fields["chunks"] = [(chunk.kind, chunk.text, chunk.tokens) for chunk in reply.chunks]
    return fields


@given(st.lists(st.integers(0, len(CHAT)), max_size=10))
@example(list(range(len(CHAT))))
def test_any_cut_gives_the_same_reply(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(CHAT)]
    reads = [CHAT[a:b] for a, b in pairwise(edges) if a < b]
    reply = parse_reply(list(range(len(reads))), reads)
    assert without_times(reply) == {
        "status": 200, "streamed": True, "answered": False, "complete": True,
        "chunks": [("content", "中", 1), ("content", "b", 1)],
        "done": True, "finish_reason": "stop", "error": None, "unreadable": None, "fingerprint": None,
        "input_tokens": 5, "output_tokens": 2, "cached_tokens": None, "answer": ["中", "b"], "token_ids": [],
    }  # fmt: skip


def test_an_event_is_stamped_by_the_read_that_completes_it() -> None:
    whole = chunked(content("a"))
    reply = parse_reply([10, 20, 30], [HEAD, whole[:20], whole[20:]])
    assert (reply.headers_time, reply.first_event_time, reply.chunks[0].time) == (10, 30, 30)


@given(st.lists(st.binary(max_size=60), max_size=6))
def test_no_bytes_raise(reads: list[bytes]) -> None:
    attempt = Attempt(0, "measure", 0, 0)
    attempt.reads, attempt.times = reads, list(range(len(reads)))
    name, _, _ = outcome(attempt, parse_reply(attempt.times, attempt.reads))
    assert name != "ok"


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(
    st.sampled_from(["choices", "delta", "content", "usage", "error", "text", "finish_reason", "completion_tokens"]),
    x)))  # fmt: skip
def test_no_json_raises(document: object) -> None:
    raw = HEAD + chunked(event(json.dumps(document))) + chunked(DONE) + END
    outcome_of(raw)


def test_outcomes() -> None:
    tokens = chunked(content("a"))
    head500 = b"HTTP/1.1 500 X\r\ncontent-type: application/json\r\ncontent-length: 27\r\n\r\n"
    assert outcome_of(CHAT) == ("ok", None)
    assert outcome_of(b"", closed=True) == ("connect_error", "connection lost before the first byte of the reply")
    assert outcome_of(head500 + b'{"error":{"message":"boo"}}') == ("http_error", "boo")
    assert outcome_of(HEAD + tokens + chunked(event({"error": {"message": "boom", "code": 500}})) + END) == (
        "stream_error", "boom",
    )  # fmt: skip
    assert outcome_of(HEAD + chunked(event({"error": "boom"})) + END) == ("stream_error", "boom")
    cut = "the stream ended without a finish reason"
    assert outcome_of(HEAD + tokens + END) == ("truncated", cut)
    assert outcome_of(HEAD + tokens, closed=True) == ("truncated", cut)
    assert outcome_of(HEAD + tokens + chunked(DONE) + END) == ("truncated", cut)
    assert outcome_of(HEAD + tokens + chunked(FIN) + END) == ("ok", "note: no [DONE] after the finish reason")
    assert outcome_of(HEAD + chunked(FIN) + chunked(DONE) + END)[0] == "no_token"
    assert outcome_of(HEAD + chunked(DONE) + END)[0] == "no_token"
    # a finish reason and no token, and then the server closes
    assert outcome_of(HEAD + chunked(FIN), closed=True)[0] == "no_token"
    for content_, name in (("", "no_token"), ("hi", "ok")):
        body = json.dumps({"choices": [{"message": {"content": content_}, "finish_reason": "stop"}]}).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        assert outcome_of(head + body)[0] == name
    assert outcome_of(b"SSH-2.0-x\r\n\r\n", closed=True)[0] == "truncated"
    assert outcome_of(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi") == (
        "stream_error", "a body that is neither an event stream nor a JSON object",
    )  # fmt: skip


def test_kinds_and_counts() -> None:
    def with_usage(text: str, n: int) -> bytes:
        return event({"choices": [{"text": text, "finish_reason": None}], "usage": {"completion_tokens": n}})

    pieces = [delta(reasoning_content="r"), delta(reasoning="r"), delta(tool_calls=[{"function": {"arguments": "{"}}])]
    reply = parse_reply([1], [HEAD + b"".join(map(chunked, pieces)) + END])
    assert [chunk.kind for chunk in reply.chunks] == ["reasoning", "reasoning", "tool"]
    reply = parse_reply(
        [1], [HEAD + chunked(with_usage("ab", 4)) + chunked(with_usage("c", 7)) + END], "per_chunk_usage"
    )
    assert [chunk.tokens for chunk in reply.chunks] == [4, 3]

"""Replies, byte for byte. The JSON texts were written by the response models of vLLM 0.32.0, given the same values."""

from __future__ import annotations

import json

from benchcard.runner.engines.simulated.render import Head, StreamRenderer, error_body, whole_reply

CHUNK = (
    '{"id":"cmpl-r","object":"text_completion","created":7,"model":"m","choices":[{"index":0,"text":" w12345",'
    '"logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}'
)
LAST = CHUNK.replace('"finish_reason":null', '"finish_reason":"length"')
USAGE = '"usage":{"prompt_tokens":3,"total_tokens":4,"completion_tokens":1}}'
FINAL = (
    '{"id":"cmpl-r","object":"text_completion","created":7,"model":"m","choices":[],"usage":{"prompt_tokens":3,'
    '"total_tokens":4,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":2}},"system_fingerprint":"f"}'
)
ROLE = (
    '{"id":"chatcmpl-r","object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":0,'
    '"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],'
    '"prompt_token_ids":null,"prompt_text":null}'
)
DELTA = (
    '{"id":"chatcmpl-r","object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":0,'
    '"delta":{"content":" w12345"},"logprobs":null,"finish_reason":null,"token_ids":null}]}'
)
LAST_DELTA = (
    '{"id":"chatcmpl-r","object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":0,'
    '"delta":{"content":" w12345"},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}],'
    '"system_fingerprint":"f"}'
)
WHOLE_USAGE = (
    '"usage":{"prompt_tokens":3,"total_tokens":4,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":2,'
    '"created_cache_tokens":null,"multimodal_tokens":null},"completion_tokens_details":null},'
)
WHOLE = (
    '{"id":"cmpl-r","object":"text_completion","created":7,"model":"m","choices":[{"index":0,"text":" w1",'
    '"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null,"prompt_logprobs":null,'
    f'"prompt_token_ids":null,"routed_experts":null}}],"service_tier":null,"system_fingerprint":"f",{WHOLE_USAGE}'
    '"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}'
)
WHOLE_CHAT = (
    '{"id":"chatcmpl-r","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,"message":'
    '{"role":"assistant","content":" w1","refusal":null,"annotations":null,"audio":null,"function_call":null,'
    '"reasoning":null},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null,'
    f'"routed_experts":null}}],"service_tier":null,"system_fingerprint":"f",{WHOLE_USAGE}'
    '"prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null,"kv_transfer_params":null,'
    '"ec_transfer_params":null,"metrics":null}'
)


def head(chat: bool = False, usage: bool = False, continuous: bool = False) -> Head:
    return Head(chat, "chatcmpl-r" if chat else "cmpl-r", 7, "m", "f", usage, continuous)


def events(*texts: str, end: bool = False) -> bytes:
    """These JSON texts as events, each a chunk of a chunked HTTP body."""
    framed = b""
    for text in [*texts, "[DONE]"] if end else texts:
        event = f"data: {text}\n\n".encode()
        framed += b"%x\r\n" % len(event) + event + b"\r\n"
    return framed + (b"0\r\n\r\n" if end else b"")


def test_a_completions_stream() -> None:
    stream = StreamRenderer(head(), 3)
    assert stream.start() == b""
    assert stream.token(12345, 0) == events(CHUNK)
    assert stream.last(12345, 0, 2) == events(LAST[:-1] + ',"system_fingerprint":"f"}', end=True)


def test_a_completions_stream_with_usage() -> None:
    stream = StreamRenderer(head(usage=True), 3)
    assert stream.token(12345, 0) == events(CHUNK)
    assert stream.last(12345, 0, 2) == events(LAST, FINAL, end=True)


def test_a_completions_stream_with_usage_in_each_chunk() -> None:
    stream = StreamRenderer(head(usage=True, continuous=True), 3)
    assert stream.token(12345, 0) == events(f"{CHUNK[:-1]},{USAGE}")
    assert stream.last(12345, 0, 2) == events(f"{LAST[:-1]},{USAGE}", FINAL, end=True)


def test_a_chat_stream() -> None:
    stream = StreamRenderer(head(chat=True), 3)
    assert stream.start() == events(ROLE)
    assert stream.token(12345, 0) == events(DELTA)
    assert stream.last(12345, 0, 2) == events(LAST_DELTA, end=True)


def test_names_may_hold_anything() -> None:
    name = 'a "%d" \\u0000 \U0001f642'
    stream = StreamRenderer(Head(False, name, 7, name, "f"), 3)
    framed = stream.token(12345, 0)
    size, _, rest = framed.partition(b"\r\n")
    assert len(rest) == int(size, 16) + 2
    chunk = json.loads(rest.removeprefix(b"data: "))
    assert (chunk["id"], chunk["model"], chunk["choices"][0]["text"]) == (name, name, " w12345")


def test_whole_replies() -> None:
    assert whole_reply(head(), " w1", 3, [1], 2).decode() == WHOLE
    assert whole_reply(head(chat=True), " w1", 3, [1], 2).decode() == WHOLE_CHAT


def test_an_error() -> None:
    assert error_body("a", "b", 400) == b'{"error":{"message":"a","type":"b","param":null,"code":400}}'

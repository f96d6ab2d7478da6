"""What the truth server sends: whole chunks made beforehand, in the form of vLLM's."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

MODEL = "truth"


def _chunk(document: Any) -> bytes:
    text = document if isinstance(document, str) else json.dumps(document, separators=(",", ":"))
    data = f"data: {text}\n\n".encode()
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def _event(kind: str, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    name = "chat.completion.chunk" if kind == "chat" else "text_completion"
    return {"id": f"{kind}-truth", "object": name, "created": 1, "model": MODEL, "choices": choices, **more}


def _token(kind: str, finish: str | None) -> bytes:
    text = {"delta": {"content": " tok"}} if kind == "chat" else {"text": " tok"}
    return _chunk(_event(kind, [{"index": 0, **text, "logprobs": None, "finish_reason": finish}]))


@cache
def reply_parts(kind: str, tokens: int) -> tuple[bytes, bytes, bytes]:
    """A streamed reply of so many tokens, `kind` chat or text: its head (with chat's role chunk), a token's chunk, and
    the last token with all that follows it."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    if kind == "chat":
        head += _chunk(_event(kind, [{"index": 0, "delta": {"role": "assistant", "content": ""}}]))
    usage = {"prompt_tokens": 8, "completion_tokens": tokens, "total_tokens": 8 + tokens}
    last = _token(kind, "length") + _chunk(_event(kind, [], usage=usage)) + _chunk("[DONE]") + b"0\r\n\r\n"
    return head, _token(kind, None), last


def document(path: str) -> str:
    """The body of what a client may ask besides: models, metrics, health."""
    if path.endswith("/models"):
        model = {"id": MODEL, "object": "model", "created": 1, "owned_by": "benchcard", "max_model_len": 131072}
        return json.dumps({"object": "list", "data": [model]})
    if path.endswith("/metrics"):
        return "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 0\n"
    return "{}"

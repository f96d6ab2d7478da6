"""Replies in vLLM's shapes, as bytes. A token of a stream costs one bytes-format, no JSON encoder.

Field order and nulls are those of vLLM's pydantic models: chunks of a stream are dumped without the fields that were
not set, whole replies with all of them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .tokens import OUTPUT_FIRST

#: what ends a chunked HTTP body
LAST_CHUNK = b"0\r\n\r\n"
_DONE = b"e\r\ndata: [DONE]\n\n\r\n"
#: a character that no id or model name holds, where the token's number goes
_MARK = "\0"
_DIGITS = len(str(OUTPUT_FIRST))


@dataclass(frozen=True)
class Head:
    """What every chunk of a reply begins with, and what was asked of the stream."""

    chat: bool
    id: str
    created: int
    model: str
    fingerprint: str
    include_usage: bool = False
    continuous_usage: bool = False
    token_ids: bool = False

    @property
    def stream_object(self) -> str:
        """`object` of a chunk."""
        return "chat.completion.chunk" if self.chat else "text_completion"


def dumps(value: Any) -> bytes:
    """Compact JSON, as pydantic writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def usage(prompt_tokens: int, output_tokens: int, cached_tokens: int | None = None) -> dict[str, Any]:
    """vLLM's usage object; `cached_tokens` only where the final usage is meant."""
    numbers: dict[str, Any] = {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + output_tokens,
        "completion_tokens": output_tokens,
    }
    if cached_tokens is not None:
        numbers["prompt_tokens_details"] = {"cached_tokens": cached_tokens}
    return numbers


class StreamRenderer:
    """The chunks of one streamed reply, each framed as a chunk of the HTTP body."""

    def __init__(self, head: Head, prompt_tokens: int) -> None:
        self._head = head
        self._prompt_tokens = prompt_tokens
        before, _, after = dumps(self._token_chunk(f" w{_MARK}", None)).rpartition(b"\\u0000")
        self._data = b"data: " + before
        self._size = len(self._data) + _DIGITS + len(after) + len(b"\n\n")
        self._before = b"%x\r\n%b" % (self._size, self._data)
        self._after = after + b"\n\n\r\n"
        self._close = after.removesuffix(b"}")

    def start(self) -> bytes:
        """What goes before the first token: the role, in a chat."""
        if not self._head.chat:
            return b""
        choice = {
            "index": 0,
            "delta": {"role": "assistant", "content": ""},
            "logprobs": None,
            "finish_reason": None,
        }
        chunk = self._chunk([choice])
        if self._head.continuous_usage:
            chunk["usage"] = usage(self._prompt_tokens, 0)
        chunk |= {"prompt_token_ids": None, "prompt_text": None}
        return _event(dumps(chunk))

    def token(self, token: int, index: int) -> bytes:
        """A token that is not the last; `index` counts from 0."""
        if self._head.token_ids:
            chunk = self._token_chunk(f" w{token}", None, token)
            if self._head.continuous_usage:
                chunk["usage"] = usage(self._prompt_tokens, index + 1)
            return _event(dumps(chunk))
        if not self._head.continuous_usage:
            return b"%b%d%b" % (self._before, token, self._after)
        numbers = (self._prompt_tokens, self._prompt_tokens + index + 1, index + 1)
        used = b',"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}' % numbers
        return b"%x\r\n%b%d%b%b}\n\n\r\n" % (self._size + len(used), self._data, token, self._close, used)

    def last(self, token: int, index: int, cached_tokens: int, reason: str = "length") -> bytes:
        """The last token, with the reason why it is, the usage if asked for, and the end of the stream."""
        chunk = self._token_chunk(f" w{token}", reason, token if self._head.token_ids else None)
        if self._head.continuous_usage:
            chunk["usage"] = usage(self._prompt_tokens, index + 1)
        if not self._head.include_usage:
            chunk["system_fingerprint"] = self._head.fingerprint
        end = _event(dumps(chunk))
        if self._head.include_usage:
            final = self._chunk([])
            final["usage"] = usage(self._prompt_tokens, index + 1, cached_tokens)
            final["system_fingerprint"] = self._head.fingerprint
            end += _event(dumps(final))
        return end + _DONE + LAST_CHUNK

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        head = self._head
        chunk = {"id": head.id, "object": head.stream_object, "created": head.created, "model": head.model}
        return chunk | {"choices": choices}

    def _token_chunk(self, text: str, finish_reason: str | None, token: int | None = None) -> dict[str, Any]:
        ids = None if token is None else [token]
        if self._head.chat:
            choice = {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": finish_reason}
            if finish_reason:
                choice["stop_reason"] = None
            choice["token_ids"] = ids
        else:
            choice = {
                "index": 0,
                "text": text,
                "logprobs": None,
                "finish_reason": finish_reason,
                "stop_reason": None,
                "prompt_token_ids": None,
                "token_ids": ids,
            }
        return self._chunk([choice])


def whole_reply(
    head: Head, text: str, prompt_tokens: int, ids: list[int], cached_tokens: int, reason: str = "length"
) -> bytes:
    """The JSON body of a reply that is not streamed; `ids` are its tokens, shown where they were asked for."""
    shown = ids if head.token_ids else None
    ended: dict[str, Any] = {"logprobs": None, "finish_reason": reason, "stop_reason": None, "token_ids": shown}
    echo: dict[str, Any] = {"prompt_logprobs": None, "prompt_token_ids": None}
    if head.chat:
        message: dict[str, Any] = {"role": "assistant", "content": text}
        message |= dict.fromkeys(("refusal", "annotations", "audio", "function_call", "reasoning"))
        choice = {"index": 0, "message": message} | ended | {"routed_experts": None}
        echo["prompt_text"] = None
    else:
        choice = {"index": 0, "text": text} | ended | echo | {"routed_experts": None}
        echo = {}
    used = usage(prompt_tokens, len(ids), cached_tokens)
    used["prompt_tokens_details"] |= {"created_cache_tokens": None, "multimodal_tokens": None}
    reply = {
        "id": head.id,
        "object": "chat.completion" if head.chat else "text_completion",
        "created": head.created,
        "model": head.model,
        "choices": [choice],
        "service_tier": None,
        "system_fingerprint": head.fingerprint,
        "usage": used | {"completion_tokens_details": None},
    }
    return dumps(reply | echo | {"kv_transfer_params": None, "ec_transfer_params": None, "metrics": None})


def error_body(message: str, kind: str, code: int, param: str | None = None) -> bytes:
    """vLLM's error object."""
    return dumps({"error": {"message": message, "type": kind, "param": param, "code": code}})


def _event(data: bytes) -> bytes:
    """One server-sent event, framed as one chunk of the HTTP body."""
    return b"%x\r\ndata: %b\n\n\r\n" % (len(data) + 8, data)

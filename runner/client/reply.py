"""Raw reads -> a parsed reply: HTTP body pieces with their times, events, token-bearing chunks. Pure, off the
measured path."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httptools

from .sse import SseParser


@dataclass
class Chunk:
    """A token-bearing event: when it was complete, its kind, text, and tokens (None where no source counts them)."""

    time: int
    kind: str
    text: str
    tokens: int | None


@dataclass
class Reply:
    """What a server answered. `answered`: a reply that was not streamed holds some text. `error` is an error the server
    reported; `unreadable` one the parser found. Neither is cut here: what is secret is taken out first. `answer`: a
    stream's text in pieces, reasoning left out; `token_ids`: the ids of its tokens, where the server tells them."""

    status: int | None = None
    headers_time: int | None = None
    streamed: bool = False
    answered: bool = False
    complete: bool = False
    first_event_time: int | None = None
    chunks: list[Chunk] = field(default_factory=list)
    done: bool = False
    finish_reason: str | None = None
    error: str | None = None
    unreadable: str | None = None
    fingerprint: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    answer: list[str] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)

    def output_digest(self) -> str | None:
        """SHA-256 (hex) of the whole output text; None where there was none."""
        if not self.chunks:
            return None
        return hashlib.sha256("".join(chunk.text for chunk in self.chunks).encode("utf-8", "replace")).hexdigest()


class _Http:
    """httptools callbacks: collects status, content type and the body's pieces, each with the time of its read."""

    def __init__(self, times: Sequence[int], reads: Sequence[bytes]) -> None:
        self.pieces: list[tuple[int, bytes]] = []
        self.headers_time: int | None = None
        self.content_type = b""
        self.complete = False
        self.fault: str | None = None
        self.status: int | None = None
        self._now = 0
        self._parser = httptools.HttpResponseParser(self)
        for time, data in zip(times, reads, strict=True):
            self._now = time
            try:
                self._parser.feed_data(data)
            except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
                self.fault = str(error) or type(error).__name__
                break
            if self.complete:
                break
        if self.headers_time is None:
            self.status = None

    def on_header(self, name: bytes, value: bytes) -> None:
        """httptools: one header of the reply."""
        if name.lower() == b"content-type":
            self.content_type = value.lower()

    def on_headers_complete(self) -> None:
        """httptools: the last header of the reply came."""
        if not self.complete:
            self.headers_time, self.status = self._now, self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        """httptools: a piece of the body came."""
        self.pieces.append((self._now, body))

    def on_message_complete(self) -> None:
        """httptools: the reply is whole."""
        if 100 <= self._parser.get_status_code() < 200:
            self.headers_time, self.content_type = None, b""
            return  # an interim reply: the final one follows
        self.complete = True


def parse_reply(times: Sequence[int], reads: Sequence[bytes], token_counts: str = "chunk") -> Reply:
    """Parse what was read: `reads[i]` came at `times[i]` (ns). Never raises: malformed input stands in the reply.

    An event happened when the read that completed it came. `token_counts`: 'chunk' counts each token-bearing chunk as
    one token; 'per_chunk_usage' takes the differences of the cumulative completion_tokens on the chunks; 'retokenized'
    is as 'chunk' here: who has a tokenizer counts the texts again.
    """
    http = _Http(times, reads)
    reply = Reply(status=http.status, headers_time=http.headers_time, complete=http.complete, unreadable=http.fault)
    if http.status is None:
        return reply
    if http.content_type.startswith(b"text/event-stream"):
        reply.streamed = True
        _read_stream(reply, http.pieces, token_counts)
    else:
        _read_document(reply, http)
    return reply


def _read_stream(reply: Reply, pieces: Sequence[tuple[int, bytes]], token_counts: str) -> None:
    counted = 0
    for time, data in _events(pieces):
        if reply.first_event_time is None:
            reply.first_event_time = time
        if data.strip() == "[DONE]":
            reply.done = True
            continue
        document = _json_object(data)
        if document is None:
            reply.unreadable = reply.unreadable or f"an event that is not a JSON object: {data!r}"
            continue
        if _read_error(reply, document):
            continue
        usage = _read_usage(reply, document)
        for kind, text in _deltas(reply, document):
            tokens: int | None = 1
            if token_counts == "per_chunk_usage":
                tokens = None if usage is None else max(0, usage - counted)
                counted = counted if usage is None else usage
            reply.chunks.append(Chunk(time, kind, text, tokens))


def _events(pieces: Sequence[tuple[int, bytes]]) -> Iterator[tuple[int, str]]:
    parser = SseParser()
    for time, piece in pieces:
        for data in parser.feed(piece):
            yield time, data


def _read_document(reply: Reply, http: _Http) -> None:
    """A reply that is one JSON document: an error, or a completion that was not streamed."""
    body = b"".join(piece for _, piece in http.pieces)
    document = _json_object(body.decode("utf-8", "replace"))
    if document is None:
        if reply.status == 200 and reply.complete:
            reply.unreadable = reply.unreadable or "a body that is neither an event stream nor a JSON object"
        elif reply.status != 200:
            reply.error = body.decode("utf-8", "replace").strip() or None
        return
    if _read_error(reply, document) or reply.status != 200:
        reply.error = reply.error or json.dumps(document)
        return
    _read_usage(reply, document)
    for choice in _choices(document):
        reply.finish_reason = choice.get("finish_reason") or reply.finish_reason
        message = choice.get("message")
        texts = _texts(message if isinstance(message, dict) else {})
        reply.answered = reply.answered or bool(_text(choice.get("text")) or any(texts))


def _read_error(reply: Reply, document: dict[str, Any]) -> bool:
    error = document.get("error") or None
    if error is None and document.get("object") == "error":
        error = document
    if error is None:
        return False
    message = error.get("message") if isinstance(error, dict) else error
    reply.error = reply.error or str(message or error)
    return True


def _read_usage(reply: Reply, document: dict[str, Any]) -> int | None:
    """Take the token counts of a chunk's usage (cumulative or final: the last one stands); the output tokens so far."""
    fingerprint = document.get("system_fingerprint")
    if isinstance(fingerprint, str):
        reply.fingerprint = fingerprint
    usage = document.get("usage")
    if not isinstance(usage, dict):
        return None
    reply.input_tokens = _count(usage.get("prompt_tokens"), reply.input_tokens)
    reply.output_tokens = _count(usage.get("completion_tokens"), reply.output_tokens)
    details = usage.get("prompt_tokens_details")
    if isinstance(details, dict):
        reply.cached_tokens = _count(details.get("cached_tokens"), reply.cached_tokens)
    return reply.output_tokens


def _count(value: object, before: int | None) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else before


def _deltas(reply: Reply, document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(kind, text) of the tokens that a chunk carries: at most one for the whole chunk. A role or an empty text is
    none."""
    for choice in _choices(document):
        reason = choice.get("finish_reason")
        if isinstance(reason, str):
            reply.finish_reason = reason
        delta = choice.get("delta")
        delta = delta if isinstance(delta, dict) else {}
        content, reasoning, tool = _texts(delta)
        answer = _text(choice.get("text")) + content
        ids = choice.get("token_ids")
        if isinstance(ids, list):
            reply.token_ids += [id_ for id_ in ids if isinstance(id_, int) and not isinstance(id_, bool)]
        if answer:
            reply.answer.append(answer)
            yield "content", reasoning + answer
        elif tool:
            yield "tool", reasoning + tool
        elif reasoning:
            yield "reasoning", reasoning


def _texts(delta: dict[str, Any]) -> tuple[str, str, str]:
    """(content, reasoning, tool call) of a delta or a message."""
    reasoning = _text(delta.get("reasoning_content")) or _text(delta.get("reasoning"))
    return _text(delta.get("content")), reasoning, _tool_text(delta.get("tool_calls"))


def _tool_text(calls: object) -> str:
    if not isinstance(calls, list):
        return ""
    functions = [call.get("function") for call in calls if isinstance(call, dict)]
    return "".join(_text(f.get("name")) + _text(f.get("arguments")) for f in functions if isinstance(f, dict))


def _choices(document: dict[str, Any]) -> list[dict[str, Any]]:
    choices = document.get("choices")
    return [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None

"""Recorded requests, read: prompts as text, token ids or messages, and what answer was given or asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .digest import canonical_json
from .phrase import show
from .table import FileError, json_lines, json_objects

#: what a prompt may be: text, token ids, or messages of {role, content}
Prompt = str | list[int] | list[dict[str, str]]

#: who speaks in a conversation, by the names that ShareGPT's files give
_ROLES = {
    "human": "user", "user": "user", "system": "system",
    **dict.fromkeys(("gpt", "assistant", "chatgpt", "bing", "bard", "model"), "assistant"),
}  # fmt: skip


@dataclass(frozen=True)
class RecordedRequest:
    """A recorded request: its prompt, and the output tokens that the file names (None: it names none)."""

    prompt: Prompt
    output_tokens: int | None

    def as_bytes(self) -> bytes:
        """The prompt's canonical JSON, which is what its digest covers."""
        return canonical_json(self.prompt)


@dataclass(frozen=True)
class Recorded:
    """The requests of a file, in its order. `left_out`: conversations without a question."""

    requests: list[RecordedRequest]
    left_out: int = 0

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.requests)

    @property
    def mean_output(self) -> float | None:
        """Mean output tokens; None where a row names none."""
        named = [request.output_tokens for request in self.requests if request.output_tokens is not None]
        return sum(named) / len(named) if len(named) == self.rows else None


def read_recorded(data: bytes, format_: str, endpoint: str) -> Recorded:
    """Read a file of requests for an endpoint (completions, chat). Raises FileError, located."""
    rows = list(_jsonl(data, endpoint) if format_ == "jsonl" else _sharegpt(data, endpoint))
    requests = [row for row in rows if row is not None]
    if not requests:
        raise FileError("no requests", "at least one")
    return Recorded(requests, len(rows) - len(requests))


def _jsonl(data: bytes, endpoint: str) -> Iterator[RecordedRequest]:
    for line, row in json_lines(data):
        prompt = read_prompt(row, endpoint, line)
        yield RecordedRequest(prompt, _output(row.get("output_tokens", row.get("max_tokens")), line))


def read_prompt(row: dict[str, Any], endpoint: str, line: int) -> Prompt:
    """The prompt or the messages of a row, as the endpoint takes them. Raises FileError."""
    if ("prompt" in row) == ("messages" in row):
        found = "a row with prompt and messages" if "prompt" in row else "a row without prompt or messages"
        raise FileError(found, "one of them", f"there are {', '.join(map(show, row))[:200] or 'no keys'}", line)
    if "messages" not in row:
        return _prompt(row["prompt"], endpoint, line)
    if endpoint != "chat":
        raise FileError("messages", "a prompt, which completions take", "or endpoint: chat", line)
    return _messages(row["messages"], line)


def _prompt(value: Any, endpoint: str, line: int) -> Prompt:
    if isinstance(value, str) and value:
        _require_unicode(value, line)
        return value if endpoint == "completions" else [{"role": "user", "content": value}]
    ids = isinstance(value, list) and value and all(isinstance(i, int) and not isinstance(i, bool) for i in value)
    if ids and all(0 <= i < 2**31 for i in value):
        if endpoint == "completions":
            return list(value)
        raise FileError("token ids", "text or messages, which chat takes", "or endpoint: completions", line)
    raise FileError(f"the prompt {show(value)}", "text, or a list of token ids", line=line)


def _messages(value: Any, line: int) -> list[dict[str, str]]:
    if not isinstance(value, list) or not value:
        raise FileError(f"messages {show(value)}", "a list of {role, content}", line=line)
    messages = []
    for message in value:
        if not isinstance(message, dict):
            raise FileError(f"the message {show(message)}", "{role, content}", line=line)
        role, content = message.get("role"), message.get("content")
        if role not in ("system", "user", "assistant"):
            raise FileError(f"a message with the role {show(role)}", "system, user or assistant", line=line)
        if isinstance(content, list):
            content = "".join(_text(part, line) for part in content)
        if not isinstance(content, str) or not content:
            raise FileError(f"a message with the content {show(content)}", "text", line=line)
        _require_unicode(content, line)
        messages.append({"role": role, "content": content})
    if messages[-1]["role"] != "user":
        raise FileError("messages that do not end with the user's", "a question last", line=line)
    return messages


def _text(part: Any, line: int) -> str:
    """The text of a part of a message's content."""
    kind, text = (part.get("type"), part.get("text")) if isinstance(part, dict) else (None, None)
    if kind == "text" and isinstance(text, str):
        return text
    hint = "prompts that are not text are not supported" if isinstance(kind, str) and kind != "text" else ""
    what = show(kind) if isinstance(kind, str) and kind != "text" else show(part)
    raise FileError(f"a part of a message: {what}", "parts that are text: {type: text, text: …}", hint, line)


def _require_unicode(text: str, line: int) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise FileError("a lone surrogate", "text in Unicode", line=line) from None


def _output(value: Any, line: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 10_000_000:
        return value
    raise FileError(f"output_tokens {show(value)}", "a whole number from 1 up", line=line)


def _sharegpt(data: bytes, endpoint: str) -> Iterator[RecordedRequest | None]:
    """The first question of each conversation, and, for chat, what the system was told before it; None where there is
    none."""
    for line, row in json_objects(data):
        turns = row.get("conversations")
        if not isinstance(turns, list):
            wanted, hint = "a list of {from, value}", f"there are {', '.join(map(show, row))[:200] or 'no keys'}"
            raise FileError("a row without a list of conversations", f"conversations: {wanted}", hint, line)
        before: list[dict[str, str]] = []
        for turn in turns:
            role, value = _turn(turn, line)
            if role == "assistant" or not value.strip():
                continue
            before.append({"role": role, "content": value})
            if role == "user":
                break
        asked = bool(before) and before[-1]["role"] == "user"
        yield RecordedRequest(before if endpoint == "chat" else before[-1]["content"], None) if asked else None


def _turn(turn: Any, line: int) -> tuple[str, str]:
    """Who says what in a turn of a conversation."""
    if not isinstance(turn, dict):
        raise FileError(f"the turn {show(turn)}", "{from, value}", line=line)
    who, value = turn.get("from"), turn.get("value")
    role = _ROLES.get(who) if isinstance(who, str) else None
    if role is None:
        raise FileError(f"a turn from {show(who)}", "human, gpt or system", line=line)
    if not isinstance(value, str):
        raise FileError(f"a turn with the value {show(value)}", "text", line=line)
    _require_unicode(value, line)
    return role, value

"""The bytes of a request. Pure: the same plan gives the same bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ...schema.errors import InputError


@dataclass(frozen=True)
class Target:
    """Where requests go: an API base that ends in /v1. `headers` may hold a secret and is never shown."""

    host: str
    port: int
    tls: bool
    path: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_url(cls, url: str, headers: Mapping[str, str] | None = None) -> Target:
        """The target of a base URL such as http://127.0.0.1:8000/v1."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"server URL {url!r}: wanted http://HOST[:PORT]/v1 or https://…")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return cls(parts.hostname, port, parts.scheme == "https", parts.path.rstrip("/"), headers or {})


#: what a prompt can be: token ids, text, or messages
Prompt = Sequence[int] | str | Sequence[Mapping[str, str]]


@dataclass(frozen=True)
class Body:
    """The JSON bodies of a card's requests, but for what each says. `schemas`: the JSON Schemas of structured output,
    by digest.

    Only where the card says `ignore_eos` are ignore_eos and min_tokens sent: servers that do not know them may refuse
    them; the same holds for whatever the card does not name.
    """

    card: Mapping[str, Any]
    model: str
    schemas: Mapping[str, Any] = field(default_factory=dict)

    def parts(self, prompt: Prompt, output_tokens: int, population: str | None = None) -> tuple[bytes, bytes, bytes]:
        """A body in three parts: what a turn's history follows, what the request says itself, and the rest."""
        workload = self.card["workload"]
        own = workload if population is None else workload["populations"][population]
        head = f'{{"model":{json.dumps(self.model)},'
        rest = _dumps(self._asked(own["sampling"], own.get("priority"), output_tokens)).removeprefix("{")
        if workload["endpoint"] == "chat":
            messages = prompt if _is_messages(prompt) else [{"role": "user", "content": _words(prompt)}]
            return (head + '"messages":[').encode(), _dumps(messages)[1:-1].encode(), f"],{rest}".encode()
        if isinstance(prompt, str):
            return (head + '"prompt":').encode(), _dumps(prompt).encode(), f",{rest}".encode()
        return (head + '"prompt":[').encode(), _dumps(list(prompt))[1:-1].encode(), f"],{rest}".encode()

    def whole(self, prompt: Prompt, output_tokens: int, population: str | None = None) -> bytes:
        """A body as it is sent."""
        return b"".join(self.parts(prompt, output_tokens, population))

    def _asked(self, sampling: Mapping[str, Any], priority: object, output_tokens: int) -> dict[str, Any]:
        workload = self.card["workload"]
        asked: dict[str, Any] = {"max_tokens": output_tokens, "temperature": sampling["temperature"]}
        asked |= {key: sampling[key] for key in ("seed", "top_p", "top_k") if sampling.get(key) is not None}
        if sampling["ignore_eos"]:
            asked |= {"ignore_eos": True, "min_tokens": output_tokens}
        if isinstance(priority, int):
            asked["priority"] = priority
        if sampling.get("json_schema") is not None:
            schema = self.schemas[sampling["json_schema"]["sha256"]]
            asked["response_format"] = {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}
        options: dict[str, Any] = {"include_usage": True}
        if workload["client"]["token_counts"] == "per_chunk_usage":
            options["continuous_usage_stats"] = True
        asked |= {"stream": True, "stream_options": options}
        if workload["requests"].get("conversations") is not None and workload["endpoint"] == "completions":
            asked["return_token_ids"] = True
        return asked


def _is_messages(prompt: Prompt) -> bool:
    return not isinstance(prompt, str) and len(prompt) > 0 and isinstance(prompt[0], Mapping)


def _words(prompt: Prompt) -> str:
    """Chat carries one word a token."""
    return prompt if isinstance(prompt, str) else " ".join(f"w{token}" for token in prompt)


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def request_prefix(target: Target, endpoint: str) -> bytes:
    """What every request of a cell begins with: the request line and the target's own headers, a key among them."""
    path = "/chat/completions" if endpoint == "chat" else "/completions"
    lines = [f"POST {target.path}{path} HTTP/1.1", *(f"{name}: {value}" for name, value in target.headers.items())]
    return "".join(f"{line}\r\n" for line in lines).encode()


def request_rest(target: Target, request_id: str, body: bytes) -> bytes:
    """The rest of an HTTP/1.1 request, which holds no secret."""
    default_port = 443 if target.tls else 80
    host = f"[{target.host}]" if ":" in target.host else target.host
    lines = [
        f"Host: {host}" if target.port == default_port else f"Host: {host}:{target.port}",
        "Content-Type: application/json",
        "Accept: text/event-stream",
        "Accept-Encoding: identity",
        f"Content-Length: {len(body)}",
        f"X-Request-Id: {request_id}",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body

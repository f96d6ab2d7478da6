"""The bytes of a request. Pure: the same plan gives the same bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ...schema.errors import InputError
from ..tokens.words import PLAIN, Words


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


def request_body(
    card: dict[str, Any], model: str, prompt: list[int], output_tokens: int, words: Words = PLAIN
) -> bytes:
    """The JSON body of one request.

    Completions carry token ids, so that lengths are exact; chat carries `words` for them. Only where the card says
    `ignore_eos` are ignore_eos and min_tokens sent: servers that do not know them may refuse them.
    """
    workload = card["workload"]
    sampling = workload["sampling"]
    body: dict[str, Any] = {"model": model}
    if workload["endpoint"] == "chat":
        body["messages"] = [{"role": "user", "content": words.text(prompt)}]
    else:
        body["prompt"] = prompt
    body["max_tokens"] = output_tokens
    body["temperature"] = sampling["temperature"]
    if sampling["seed"] is not None:
        body["seed"] = sampling["seed"]
    if sampling["ignore_eos"]:
        body["ignore_eos"] = True
        body["min_tokens"] = output_tokens
    body["stream"] = True
    options: dict[str, Any] = {"include_usage": True}
    if workload["client"]["token_counts"] == "per_chunk_usage":
        options["continuous_usage_stats"] = True
    body["stream_options"] = options
    return json.dumps(body, separators=(",", ":")).encode()


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

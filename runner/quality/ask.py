"""Asking: a gate's requests over HTTP, some at a time, and what came back. Nothing here is timed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from ..engines.probe import Endpoint
from .divergence import Output


@dataclass(frozen=True)
class Asking:
    """One request: the body that counts, and the one that is sent before it (None: none is)."""

    path: str
    body: bytes
    before: bytes | None = None


@dataclass(frozen=True)
class Limits:
    """`concurrency`: how many are under way at once; `connect_s`, `total_s`: how long one may take; `within_s`: how
    long the sending may go on."""

    concurrency: int
    connect_s: float
    total_s: float
    within_s: float


def ask_all(
    endpoint: Endpoint, askings: Sequence[Asking], limits: Limits, ended: Callable[[], None]
) -> list[Output | None]:
    """The outputs, in the order of the askings; None for what was not sent in time. `ended` is called after each.
    KeyboardInterrupt passes through."""
    return asyncio.run(_ask_all(endpoint, askings, limits, ended))


async def _ask_all(
    endpoint: Endpoint, askings: Sequence[Asking], limits: Limits, ended: Callable[[], None]
) -> list[Output | None]:
    found: list[Output | None] = [None] * len(askings)
    left = iter(range(len(askings)))
    deadline = time.monotonic() + limits.within_s
    pool = httpx.Limits(max_connections=limits.concurrency, max_keepalive_connections=limits.concurrency)
    timeout = httpx.Timeout(limits.total_s, connect=limits.connect_s)
    async with httpx.AsyncClient(headers=endpoint.headers, timeout=timeout, limits=pool, trust_env=False) as http:

        async def client(numbers: Iterator[int]) -> None:
            """One connection: ask one after another until none is left or the time is over."""
            for number in numbers:
                if time.monotonic() > deadline:
                    return
                found[number] = await _ask(http, endpoint.url, askings[number], limits.total_s)
                ended()

        await asyncio.gather(*(client(left) for _ in range(limits.concurrency)))
    return found


async def _ask(http: httpx.AsyncClient, url: str, asking: Asking, total_s: float) -> Output:
    """One asking, the request before it included. A failure is an output, too."""
    reply = None
    headers = {"content-type": "application/json"}
    try:
        for body in (asking.before, asking.body):
            if body is not None:
                async with asyncio.timeout(total_s):
                    reply = await http.post(url + asking.path, content=body, headers=headers)
                if reply.status_code != 200:
                    return Output(f"http_error {reply.status_code}")
    except (TimeoutError, httpx.TimeoutException):
        return Output("timeout")
    except httpx.HTTPError:
        return Output("connection")
    assert reply is not None
    try:
        return read_output(reply.json())
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return Output("malformed")


def read_output(document: Any) -> Output:
    """An output from the body of a reply (completions or chat). Raises ValueError, KeyError, TypeError or IndexError
    for what is none."""
    choice = document["choices"][0]
    text = choice["message"]["content"] if "message" in choice else choice["text"]
    if text is not None and not isinstance(text, str):
        raise TypeError("a text that is none")
    usage = document.get("usage") or {}
    ids, tokens = choice.get("token_ids"), usage.get("completion_tokens")
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    if ids is not None:
        ids = [int(token) for token in ids]
        tokens = len(ids) if tokens is None else tokens
    return Output(
        "ok",
        text or "",
        ids,
        None if tokens is None else int(tokens),
        choice.get("finish_reason"),
        None if cached is None else int(cached),
    )


def gives_token_ids(endpoint: Endpoint, path: str, body: bytes) -> bool:
    """Whether the server takes a request that asks for token ids (one that does not know the field may refuse it)."""
    headers = {**endpoint.headers, "content-type": "application/json"}
    try:
        reply = httpx.post(endpoint.url + path, content=body, headers=headers, timeout=60.0, trust_env=False)
    except httpx.HTTPError:
        return True
    return reply.status_code not in (400, 422)


def empty_cache(endpoint: Endpoint) -> bool:
    """Empty the prefix cache, where the server can (vLLM with VLLM_SERVER_DEV_MODE=1); whether it said that it did."""
    try:
        reply = httpx.post(
            endpoint.root + "/reset_prefix_cache", headers=endpoint.headers, timeout=10.0, trust_env=False
        )
        return reply.status_code == 200 and reply.json().get("success", True) is not False
    except (httpx.HTTPError, ValueError, AttributeError):
        return False

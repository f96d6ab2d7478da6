"""Two plain asyncio clients, as load generators usually write them; run as a process of their own.

    python loops.py httpx|aiohttp URL STREAMS REQUESTS TOKENS

Each stream sends its next request when its last reply has ended, stamps each line that carries content, and parses each
chunk's JSON. Prints one line of JSON: version, figures, and the CPU time of the load in s.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict
from typing import Any

from truth import GAPS, Work, figures

#: when the request was sent, and when each token came (monotonic ns)
Times = tuple[int, list[int]]
#: sends one request and reads its reply to the end
Send = Callable[[], Awaitable[Times]]


def has_content(line: str | bytes) -> bool:
    """Whether a line of the event stream is a chunk with text."""
    data = line[6:].strip()
    if data in ("", "[DONE]", b"", b"[DONE]"):
        return False
    choices = json.loads(data)["choices"]
    return bool(choices and choices[0]["delta"].get("content"))


def body(tokens: int) -> dict[str, Any]:
    """The request."""
    messages = [{"role": "user", "content": "What is the truth?"}]
    return {
        "model": "truth", "messages": messages, "max_tokens": tokens, "ignore_eos": True, "stream": True,
        "stream_options": {"include_usage": True},
    }  # fmt: skip


async def closed_loop(send: Send, work: Work) -> tuple[list[Times], float]:
    """Keep `work.streams` requests in flight: the times of each, and the CPU time, s."""
    replies: list[Times] = []
    left = iter(range(work.requests))

    async def stream(left: Iterator[int]) -> None:
        for _ in left:
            replies.append(await send())

    start = time.process_time()
    await asyncio.gather(*(stream(left) for _ in range(work.streams)))
    return replies, time.process_time() - start


async def with_httpx(url: str, work: Work) -> tuple[list[Times], float]:
    """One httpx.AsyncClient without limits, its replies read by line. Connections are not kept: httpcore looks through
    all of them for each request, and with 256 kept it gets a sixth of this rate."""
    import httpx

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(limits=limits, timeout=None) as client:

        async def send() -> Times:
            times: list[int] = []
            sent = time.monotonic_ns()
            async with client.stream("POST", url, json=body(work.tokens)) as response:
                async for line in response.aiter_lines():
                    now = time.monotonic_ns()
                    if line.startswith("data: ") and has_content(line):
                        times.append(now)
            return sent, times

        return await closed_loop(send, work)


async def with_aiohttp(url: str, work: Work) -> tuple[list[Times], float]:
    """One aiohttp session without limits, its replies read by line."""
    import aiohttp

    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:

        async def send() -> Times:
            times: list[int] = []
            sent = time.monotonic_ns()
            async with session.post(url, json=body(work.tokens)) as response:
                async for line in response.content:
                    now = time.monotonic_ns()
                    if line.startswith(b"data: ") and has_content(line):
                        times.append(now)
            return sent, times

        return await closed_loop(send, work)


def main() -> None:
    """The command line."""
    name, url, *numbers = sys.argv[1:]
    work = Work(*map(int, numbers))
    library = __import__(name)
    replies, cpu = asyncio.run({"httpx": with_httpx, "aiohttp": with_aiohttp}[name](url, work))
    if any(len(times) != work.tokens for _, times in replies):
        sys.exit(f"error: a reply without {work.tokens} tokens")
    waits = ((times[0] - sent) / 1e6 for sent, times in replies)
    result = figures(waits, (times for _, times in replies), GAPS)
    print(json.dumps({"version": library.__version__, "figures": asdict(result), "cpu": cpu}))


if __name__ == "__main__":
    main()

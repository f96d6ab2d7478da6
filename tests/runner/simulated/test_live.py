"""The server on the clock decides what the model decides, to the nanosecond, however late it wakes up."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from benchcard.runner.engines.simulated.config import config_from_flags
from benchcard.runner.engines.simulated.model import Request, simulate
from benchcard.runner.engines.simulated.tokens import decode, output_seed, output_text, words_to_ids

if TYPE_CHECKING:
    from .conftest import Engine, StartEngine

#: enough to make requests queue, share prefixes, be cut into chunks and be preempted
FLAGS = {"max-num-seqs": 8, "max-num-batched-tokens": 96, "kv-cache": 14 * 16 * 80 * 1024, "max-model-len": 160}


def bodies(seed: int) -> dict[str, tuple[str, dict[str, Any]]]:
    """Request id -> (path, body): 60 requests, most of them streamed completions, some chats, some not streamed."""
    draw = random.Random(seed)
    documents = [[draw.randrange(1000, 30000) for _ in range(64)] for _ in range(3)]
    result: dict[str, tuple[str, dict[str, Any]]] = {}
    for number in range(60):
        ids = draw.choice(documents) + [draw.randrange(1000, 30000) for _ in range(draw.randrange(1, 40))]
        body: dict[str, Any] = {"model": "sim", "max_tokens": draw.randrange(1, 40), "stream": number % 5 != 0}
        if number % 4 == 3:
            body["messages"] = [{"role": "user", "content": " ".join(f"w{token}" for token in ids)}]
            result[f"r-{number}"] = ("/v1/chat/completions", body)
        else:
            body["prompt"] = ids
            result[f"r-{number}"] = ("/v1/completions", body)
    return result


def prompt_of(body: dict[str, Any]) -> list[int]:
    return body["prompt"] if "prompt" in body else words_to_ids(body["messages"][0]["content"])


async def drive(port: int, load: dict[str, tuple[str, dict[str, Any]]], hang_up: set[str]) -> dict[str, str]:
    """Send the load in a hurry; returns the text of each reply. Those in `hang_up` are left after their first chunk."""
    texts: dict[str, str] = {}

    async def one(client: httpx.AsyncClient, name: str, path: str, body: dict[str, Any]) -> None:
        async with client.stream("POST", path, json=body, headers={"x-request-id": name}) as reply:
            assert reply.status_code == 200
            raw = b""
            async for part in reply.aiter_raw():
                raw += part
                if name in hang_up:
                    return
        texts[name] = text_of(raw.decode(), body["stream"])

    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        tasks = []
        for name, (path, body) in load.items():
            tasks.append(asyncio.create_task(one(client, name, path, body)))
            await asyncio.sleep(0.001)
        await asyncio.gather(*tasks)
    return texts


def text_of(raw: str, stream: bool) -> str:
    """The output text of a reply, streamed or not."""
    if not stream:
        choice = json.loads(raw)["choices"][0]
        return str(choice["text"] if "text" in choice else choice["message"]["content"])
    *events, done, _ = raw.split("\n\n")
    assert done == "data: [DONE]"
    choices = [json.loads(event.removeprefix("data: "))["choices"][0] for event in events]
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + ["length"]
    return "".join(choice["text"] if "text" in choice else choice["delta"]["content"] for choice in choices)


def read_log(engine: Engine, expected: int) -> dict[str, dict[str, Any]]:
    """The engine's log by request id, once it has that many lines: a hang-up is noticed a moment after it happened."""
    for _ in range(1000):
        lines = engine.http.get("/log").text.splitlines()
        if len(lines) >= expected:
            break
    by_id = {line["request_id"]: line for line in map(json.loads, lines)}
    assert len(by_id) == len(lines)
    return by_id


@pytest.mark.parametrize("misbehave", ["", "cold=5:3,drift=0.5"])
def test_planned_times_are_the_models(start_engine: StartEngine, tmp_path: Path, misbehave: str) -> None:
    flags = FLAGS | ({"misbehave": misbehave} if misbehave else {})
    arguments = [part for name, value in flags.items() for part in (f"--{name}", str(value))]
    log = tmp_path / "engine.jsonl"
    engine = start_engine(*arguments, "--served-model-name", "sim", "--speedup", "20", "--log", str(log))
    load, hang_up = bodies(1), {"r-11", "r-22"}
    texts = asyncio.run(drive(engine.port, load, hang_up))
    lines = read_log(engine, len(load))
    assert lines.keys() == load.keys()
    assert engine.http.get("/log").content == log.read_bytes()

    info = engine.http.get("/server_info", params={"config_format": "json"}).json()["vllm_config"]["simulated"]
    config = config_from_flags(flags, speedup=20, epoch_ns=info["epoch_ns"])
    by_arrival = sorted(lines.values(), key=lambda line: line["arrival_ns"])
    requests = []
    for line in by_arrival:
        body = load[line["request_id"]][1]
        arrival, cancelled = line["arrival_ns"], line["cancelled_ns"]
        requests.append(Request.of(line["request_id"], prompt_of(body), body["max_tokens"], arrival, cancelled))

    timings = simulate(config, requests)
    assert sum(timing.preempted for timing in timings) > 0
    assert sum(timing.cached_tokens for timing in timings) > 0
    for request, line, timing in zip(requests, by_arrival, timings, strict=True):
        planned, sent = line["token_planned_ns"], line["token_sent_ns"]
        assert planned == timing.token_ns[: len(planned)]
        assert line["cached_tokens"] == timing.cached_tokens
        assert line["preempted"] >= timing.preempted
        due = planned if line["stream"] else planned[-1:]
        assert len(sent) == len(due)
        lateness = [late - at for at, late in zip(due, sent, strict=True)]
        assert all(late >= 0 for late in lateness)
        assert line["lateness_max_ns"] == max(lateness)
        if request.id in hang_up and line["outcome"] == "cancelled":  # else it had finished by the time it was noticed
            assert len(planned) < request.output_tokens
        else:
            assert (line["outcome"], line["output_tokens"]) == ("ok", request.output_tokens)
            assert planned == timing.token_ns
            text = output_text(output_seed(request.prompt), request.output_tokens)
            assert texts.get(request.id, text) == text


def test_a_client_that_hangs_up_is_cancelled(start_engine: StartEngine) -> None:
    # a minute's worth of tokens, left after the first; the next request has the engine to itself
    engine = start_engine("--served-model-name", "sim")
    body = {"prompt": [1, 2, 3], "max_tokens": 2000, "stream": True}
    texts = asyncio.run(drive(engine.port, {"left": ("/v1/completions", body)}, {"left"}))
    assert texts == {}
    engine.http.post("/v1/completions", json={"prompt": [4], "max_tokens": 2}, headers={"x-request-id": "next"})
    left, following = read_log(engine, 2).values()
    assert (left["outcome"], following["outcome"]) == ("cancelled", "ok")
    requests = [
        Request.of("left", [1, 2, 3], 2000, left["arrival_ns"], left["cancelled_ns"]),
        Request.of("next", [4], 2, following["arrival_ns"]),
    ]
    timings = simulate(config_from_flags({}), requests)
    assert left["token_planned_ns"] == timings[0].token_ns[: left["output_tokens"]]
    assert following["token_planned_ns"] == timings[1].token_ns


def test_the_same_prompt_gets_the_same_text_whatever_the_flags(start_engine: StartEngine) -> None:
    body = {"prompt": [1000, 1001, 1002], "max_tokens": 4}
    replies = [
        start_engine("--speedup", speedup, caching).http.post("/v1/completions", json=body).json()
        for speedup, caching in (("100", "--enable-prefix-caching"), ("50", "--no-enable-prefix-caching"))
    ]
    text = output_text(output_seed(Request.of("", body["prompt"], 1).prompt), 4)
    assert [reply["choices"][0]["text"] for reply in replies] == [text, text]
    assert decode(Request.of("", words_to_ids(text), 1).prompt) == [int(word[1:]) for word in text.split()]

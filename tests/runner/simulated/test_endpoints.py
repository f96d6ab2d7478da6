"""Each endpoint of the server, and each refusal."""

from __future__ import annotations

import importlib.metadata
import json
import socket
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from .conftest import Engine, StartEngine

VERSION = importlib.metadata.version("benchcard")
JSON = {"config_format": "json"}


@pytest.fixture(scope="module")
def engine(start_engine: StartEngine) -> Engine:
    return start_engine(
        "--served-model-name", "sim", "--speedup", "100", "--max-model-len", "64", "--max-num-seqs", "4"
    )


def samples(engine: Engine) -> dict[tuple[str, str], float]:
    """(metric, its own label) -> value, after a check of the labels that all metrics carry."""
    result: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(engine.http.get("/metrics").text):
        for sample in (s for s in family.samples if not s.name.startswith("process_")):
            labels = dict(sample.labels)
            assert labels.pop("engine") == "0"
            if sample.name != "vllm:cache_config_info":
                assert labels.pop("model_name") == "sim"
            result[sample.name, ",".join(labels.values())] = sample.value
    return result


def error(reply: httpx.Response) -> dict[str, Any]:
    assert reply.headers["content-type"] == "application/json"
    body = reply.json()
    assert body["error"]["code"] == reply.status_code
    return dict(body["error"])


def test_health_version_models(engine: Engine) -> None:
    health = engine.http.get("/health")
    assert (health.status_code, health.content) == (200, b"")
    assert engine.http.get("/version").json() == {"version": VERSION}
    (model,) = engine.http.get("/v1/models").json()["data"]
    assert (model["id"], model["object"], model["max_model_len"]) == ("sim", "model", 64)


def test_server_info_is_the_resolved_configuration(engine: Engine) -> None:
    config = engine.http.get("/server_info", params=JSON).json()["vllm_config"]
    assert config["model_config"] == {"model": "sim", "max_model_len": 64}
    assert config["scheduler_config"] == {"max_num_seqs": 4, "max_num_batched_tokens": 2048}
    assert config["cache_config"] == {
        "block_size": 16,
        "enable_prefix_caching": True,
        "kv_cache_memory_bytes": 35 * 2**30,
        "num_gpu_blocks": 28672,
    }
    assert (config["simulated"]["costs"]["name"], config["simulated"]["speedup"]) == ("atlas", 100.0)
    assert config["simulated"]["flags"] == {
        "max-num-seqs": 4,
        "max-num-batched-tokens": 2048,
        "max-model-len": 64,
        "enable-prefix-caching": True,
        "kv-cache": 35 * 2**30,
        "block-size": 16,
    }
    assert isinstance(engine.http.get("/server_info").json()["vllm_config"], str)


def test_a_whole_completion(engine: Engine) -> None:
    body = {"model": "sim", "prompt": "one two three", "max_tokens": 2}
    reply = engine.http.post("/v1/completions", json=body, headers={"x-request-id": "whole-1"}).json()
    assert (reply["id"], reply["object"], reply["model"]) == ("cmpl-whole-1", "text_completion", "sim")
    assert reply["choices"][0]["finish_reason"] == "length"
    assert len(reply["choices"][0]["text"].split()) == 2
    assert reply["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    counts = {name: reply["usage"][name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")}
    assert counts == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    assert reply["system_fingerprint"].startswith(f"simulated-{VERSION}-")


def test_a_whole_chat_writes_what_the_completion_of_its_words_writes(engine: Engine) -> None:
    messages = [
        {"role": "system", "content": "one"},
        {"role": "user", "content": [{"type": "text", "text": "two three"}]},
    ]
    chat = engine.http.post("/v1/chat/completions", json={"messages": messages, "max_completion_tokens": 4}).json()
    plain = engine.http.post("/v1/completions", json={"prompt": "one two three", "max_tokens": 4}).json()
    assert (chat["object"], chat["choices"][0]["message"]["role"]) == ("chat.completion", "assistant")
    assert chat["choices"][0]["message"]["content"] == plain["choices"][0]["text"]
    assert chat["usage"]["prompt_tokens"] == 3


def test_defaults_for_max_tokens_are_vllms(engine: Engine) -> None:
    completion = engine.http.post("/v1/completions", json={"prompt": "one"}).json()
    assert completion["usage"]["completion_tokens"] == 16
    chat = engine.http.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "one"}]}).json()
    assert chat["usage"]["completion_tokens"] == 63


def test_a_stream_over_a_kept_connection(engine: Engine) -> None:
    body = {"prompt": [5, 6, 7], "max_tokens": 2, "stream": True, "stream_options": {"include_usage": True}}
    for _ in range(2):
        with engine.http.stream("POST", "/v1/completions", json=body) as reply:
            assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
            events = reply.read().decode().split("\n\n")
        assert events[-2:] == ["data: [DONE]", ""]
        chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-2]]
        assert [len(chunk["choices"]) for chunk in chunks] == [1, 1, 0]
        assert chunks[-1]["usage"]["completion_tokens"] == 2


def test_metrics_count_what_happened(start_engine: StartEngine) -> None:
    engine = start_engine("--served-model-name", "sim", "--speedup", "100", "--kv-cache", str(64 * 16 * 80 * 1024))
    before = samples(engine)
    for _ in range(2):
        engine.http.post("/v1/completions", json={"prompt": list(range(40)), "max_tokens": 3})
    after = samples(engine)
    grown = {key: after[key] - before[key] for key in after if after[key] != before[key] and "bucket" not in key[0]}
    sums = {name for name, _ in grown if name.endswith("_sum")}
    assert {name: value for (name, _), value in grown.items() if name not in sums} == {
        "vllm:prefix_cache_queries_total": 80,
        "vllm:prefix_cache_hits_total": 32,
        "vllm:prompt_tokens_total": 80,
        "vllm:generation_tokens_total": 6,
        "vllm:request_success_total": 2,
        "vllm:time_to_first_token_seconds_count": 2,
        "vllm:inter_token_latency_seconds_count": 4,
        "vllm:request_time_per_output_token_seconds_count": 2,
        "vllm:e2e_request_latency_seconds_count": 2,
        "vllm:request_queue_time_seconds_count": 2,
        "vllm:request_prefill_time_seconds_count": 2,
        "vllm:request_decode_time_seconds_count": 2,
        # each request: its prefill and two decode steps, one after the other
        "vllm:iteration_tokens_total_count": 6,
    }
    # 40 tokens prefilled, of the second request only the 8 that are not in the cache, and two decodes each
    assert grown["vllm:iteration_tokens_total_sum", ""] == 40 + 8 + 4
    assert after["vllm:request_success_total", "length"] == 2
    assert after["vllm:num_preemptions_total", ""] == 0
    for gauge in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"):
        assert after[f"vllm:{gauge}", ""] == 0
    assert after["vllm:time_to_first_token_seconds_bucket", "+Inf"] == 2
    info = next(
        line for line in engine.http.get("/metrics").text.splitlines() if line.startswith("vllm:cache_config_info")
    )
    for label in ('block_size="16"', 'num_gpu_blocks="64"', 'enable_prefix_caching="True"', 'cache_dtype="auto"'):
        assert label in info


def test_gauges_show_the_step_under_way(start_engine: StartEngine) -> None:
    # at a hundredth of the speed the first step lasts seconds: it can be looked at
    engine = start_engine("--served-model-name", "sim", "--speedup", "0.01", "--max-num-seqs", "1")
    with (
        socket.create_connection(("127.0.0.1", engine.port)) as one,
        socket.create_connection(("127.0.0.1", engine.port)),
    ):
        body = json.dumps({"prompt": list(range(40)), "stream": True}).encode()
        one.sendall(b"POST /v1/completions HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        assert one.recv(15) == b"HTTP/1.1 200 OK"
        gauges = samples(engine)
        assert gauges["vllm:num_requests_running", ""] == 1
        assert gauges["vllm:kv_cache_usage_perc", ""] == 3 / 28672
        assert engine.http.post("/reset_prefix_cache").json() == {"success": False}


def test_the_prefix_cache_can_be_reset(engine: Engine) -> None:
    def cached() -> int:
        reply = engine.http.post("/v1/completions", json={"prompt": list(range(900, 940)), "max_tokens": 1})
        return int(reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"])

    assert [cached(), cached()] == [0, 32]
    reply = engine.http.post("/reset_prefix_cache")
    assert (reply.status_code, reply.json()) == (200, {"success": True})
    assert [cached(), cached()] == [0, 32]


def test_tokenize(engine: Engine) -> None:
    reply = engine.http.post("/tokenize", json={"model": "sim", "prompt": "w7 w1234 hello hello"}).json()
    assert (reply["count"], reply["max_model_len"], reply["tokens"][:2]) == (4, 64, [7, 1234])
    assert reply["tokens"][2] == reply["tokens"][3] >= 2**30
    messages = [{"role": "user", "content": "w7 w8"}]
    assert engine.http.post("/tokenize", json={"messages": messages}).json()["tokens"] == [7, 8]


LONG = {"prompt": list(range(64)), "max_tokens": 1}
TOO_MUCH = {"prompt": list(range(60)), "max_tokens": 5}
USER = {"role": "user"}


@pytest.mark.parametrize(
    ("path", "body", "status", "param", "says"),
    [
        ("completions", {"model": "gpt-4", "prompt": "a"}, 404, "model", "The model `gpt-4` does not exist."),
        ("completions", {}, 400, "body.prompt", "prompt"),
        ("completions", {"prompt": []}, 400, "prompt", "empty"),
        ("completions", {"prompt": ["a", "b"]}, 400, "body.prompt", "one prompt"),
        ("completions", {"prompt": [1, -2]}, 400, "body.prompt", "token ids"),
        ("completions", {"prompt": [1, 2.5]}, 400, "body.prompt", "token ids"),
        ("completions", {"prompt": 7}, 400, "body.prompt", "string or a list"),
        ("completions", LONG, 400, "input_tokens", "maximum context length is 64 tokens"),
        ("completions", TOO_MUCH, 400, "max_tokens", "requested 65 tokens (60 in the prompt, 5 in the completion)"),
        ("completions", {"prompt": "a", "max_tokens": 0}, 400, "max_tokens", "at least 1, got 0"),
        ("completions", {"prompt": "a", "max_tokens": "9"}, 400, "body.max_tokens", "valid integer"),
        ("completions", {"prompt": "a", "max_tokens": 2, "min_tokens": 3}, 400, None, "max_tokens=2, got 3"),
        ("completions", {"prompt": "a", "n": 2}, 400, "n", "does not support n=2"),
        ("completions", {"prompt": "a", "stop": ["."]}, 400, "stop", "does not support stop"),
        ("completions", {"prompt": "a", "stream": "yes"}, 400, "body.stream", "valid boolean"),
        (
            "completions",
            {"prompt": "a", "stream_options": {"include_usage": True}},
            400,
            "stream_options",
            "`stream=True`",
        ),
        ("chat/completions", {"messages": []}, 400, "body.messages", "non-empty list"),
        ("chat/completions", {"messages": [{"content": "a"}]}, 400, "body.messages.0", "role"),
        ("chat/completions", {"messages": [USER | {"content": 7}]}, 400, "body.messages.0.content", "list of parts"),
        ("chat/completions", {"messages": [USER | {"content": " "}]}, 400, "messages", "empty"),
    ],
)
def test_bad_bodies(engine: Engine, path: str, body: dict[str, Any], status: int, param: str | None, says: str) -> None:
    reply = engine.http.post(f"/v1/{path}", json=body)
    assert reply.status_code == status
    found = error(reply)
    assert found["param"] == param
    assert says in found["message"]
    assert found["type"] in {"BadRequestError", "Bad Request", "NotFoundError"}


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff"])
def test_bodies_that_are_not_json_objects(engine: Engine, content: bytes) -> None:
    reply = engine.http.post("/v1/completions", content=content)
    assert reply.status_code == 400
    assert error(reply)["type"] == "Bad Request"


def test_unknown_paths_and_methods(engine: Engine) -> None:
    assert error(engine.http.get("/v1/nothing"))["code"] == 404
    assert error(engine.http.get("/v1/completions"))["code"] == 405


def raw(engine: Engine, data: bytes) -> bytes:
    """What the server answers until it closes the connection."""
    with socket.create_connection(("127.0.0.1", engine.port), timeout=10) as connection:
        connection.sendall(data)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return answer


def test_pipelined_requests_are_answered_in_their_order(engine: Engine) -> None:
    body = b'{"prompt":"a","max_tokens":9}'
    first = b"POST /v1/completions HTTP/1.1\r\nx-request-id: p1\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    last = b"GET /version HTTP/1.1\r\nconnection: close\r\n\r\n"
    answer = raw(engine, first + first.replace(b"p1", b"p2") + last)
    assert answer.count(b"HTTP/1.1 200 OK") == 3
    assert answer.index(b"cmpl-p1") < answer.index(b"cmpl-p2") < answer.index(b'{"version"')


def test_many_pipelined_requests(engine: Engine) -> None:
    last = b"GET /version HTTP/1.1\r\nconnection: close\r\n\r\n"
    assert raw(engine, b"GET /health HTTP/1.1\r\n\r\n" * 3000 + last).count(b"HTTP/1.1 200 OK") == 3001


def test_what_is_not_http_is_refused_and_closed(engine: Engine) -> None:
    assert raw(engine, b"hello\r\n\r\n").startswith(b"HTTP/1.1 400 Bad Request")
    assert raw(engine, b"GET / HTTP/1.1\r\nx: " + b"y" * 100_000 + b"\r\n\r\n").startswith(b"HTTP/1.1 431 ")


def test_a_large_body_is_asked_for(engine: Engine) -> None:
    body = b'{"prompt":"a","max_tokens":1}'
    head = b"POST /tokenize HTTP/1.1\r\nexpect: 100-continue\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(
        body
    )
    answer = raw(engine, head + body)
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")

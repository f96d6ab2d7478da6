"""The engine as a process: how it starts, refuses to start, misbehaves on request, and ends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from benchcard.runner.engines.simulated.player import DIED

if TYPE_CHECKING:
    from .conftest import StartEngine

BODY = {"prompt": "a b c", "max_tokens": 3, "stream": True}


def run(*flags: str) -> tuple[int, str]:
    """(exit code, stderr) of an engine that is not meant to start."""
    command = [sys.executable, "-m", "benchcard.runner.engines.simulated", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_even_with_a_stream_open(start_engine: StartEngine, number: signal.Signals) -> None:
    engine = start_engine("--speedup", "0.01")
    with socket.create_connection(("127.0.0.1", engine.port)) as connection:
        body = json.dumps(BODY).encode()
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        assert connection.recv(15) == b"HTTP/1.1 200 OK"
        engine.process.send_signal(number)
        assert engine.process.wait(timeout=10) == 0
    assert engine.process.stderr is not None
    assert engine.process.stderr.read() == ""


def test_a_port_in_use_is_said_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = run("--port", str(port))
    assert code == 1
    assert said == f"simulated engine: cannot listen on 127.0.0.1:{port}: [Errno 98] Address already in use\n"


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--gpu-memory-utilization", "0.9"], "--gpu-memory-utilization"),
        (["--max-num-seq", "3"], "--max-num-seq"),
        (["--max-num-seqs", "many"], "--max-num-seqs: invalid int value: 'many'"),
        (["--max-num-seqs", "0"], "--max-num-seqs: found 0; wanted a whole number above 0"),
        (["--max-num-seqs", "64", "--max-num-batched-tokens", "32"], "wanted at least --max-num-seqs (64)"),
        (["--kv-cache", "1310720", "--max-model-len", "17"], "17 tokens do not fit into --kv-cache 1310720 (1 blocks"),
        (["--kv-cache", "1000"], "do not fit into --kv-cache 1000 (0 blocks"),
        (["--speedup", "0"], "speedup: found 0.0; wanted a number above 0"),
        (["--costs", "titan"], "costs: found 'titan'"),
        (["--misbehave", "explode"], "misbehave: found 'explode'; wanted one of die_after"),
        (["--misbehave", "cold=3"], "misbehave: found cold='3'; wanted e.g. cold=10:4"),
        (["--misbehave", "drift=nan"], "misbehave: found drift='nan'"),
        (["--misbehave", "slow_start=-1"], "misbehave: found slow_start='-1'; wanted e.g. slow_start=1.5"),
    ],
)
def test_flags_that_make_no_sense_are_named(flags: list[str], says: str) -> None:
    code, said = run(*flags)
    assert code == 2
    assert says in said
    assert "Traceback" not in said


def test_die_after(start_engine: StartEngine) -> None:
    engine = start_engine("--speedup", "100", "--misbehave", "die_after=2")
    assert engine.http.post("/v1/completions", json=BODY).text.endswith("data: [DONE]\n\n")
    with pytest.raises(httpx.TransportError):
        engine.http.post("/v1/completions", json=BODY)
    assert engine.process.wait(timeout=10) == DIED


def test_never_ready(start_engine: StartEngine) -> None:
    engine = start_engine("--misbehave", "never_ready")
    assert engine.http.get("/health").status_code == 503


def test_slow_start(start_engine: StartEngine) -> None:
    engine = start_engine("--speedup", "100", "--misbehave", "slow_start=0.3")
    codes = []
    while 200 not in codes:
        codes.append(engine.http.get("/health").status_code)
    ready = time.monotonic_ns()
    assert set(codes) <= {503, 200}
    simulated = engine.http.get("/server_info", params={"config_format": "json"}).json()["vllm_config"]["simulated"]
    # One clock for both: whatever the speedup, the engine was not ready before its delay was over.
    assert ready >= simulated["epoch_ns"] + 300_000_000
    assert simulated["misbehave"]["slow_start_s"] == 0.3


def test_error_every(start_engine: StartEngine) -> None:
    engine = start_engine("--speedup", "100", "--misbehave", '{"error_every": 2}')
    replies = [engine.http.post("/v1/completions", json=BODY) for _ in range(4)]
    assert [reply.status_code for reply in replies] == [200, 500, 200, 500]
    assert replies[1].json()["error"]["type"] == "InternalServerError"
    outcomes = [json.loads(line)["outcome"] for line in engine.http.get("/log").text.splitlines()]
    assert outcomes == ["ok", "error", "ok", "error"]
    info = engine.http.get("/server_info", params={"config_format": "json"}).json()
    assert info["vllm_config"]["simulated"]["misbehave"]["error_every"] == 2


def test_stall_every(start_engine: StartEngine) -> None:
    engine = start_engine("--speedup", "100", "--misbehave", "stall_every=2")
    assert engine.http.post("/v1/completions", json=BODY).text.count("finish_reason") == 3
    with httpx.Client(base_url=engine.http.base_url, timeout=0.5) as impatient, pytest.raises(httpx.ReadTimeout):
        impatient.post("/v1/completions", json=BODY)
    assert engine.http.post("/v1/completions", json=BODY).text.count("finish_reason") == 3
    lines = []
    while len(lines) < 3:  # the hang-up is noticed a moment after it happened
        lines = [json.loads(line) for line in engine.http.get("/log").text.splitlines()]
    lines.sort(key=lambda line: line["arrival_ns"])
    assert [(line["outcome"], line["output_tokens"]) for line in lines] == [("ok", 3), ("stalled", 1), ("ok", 3)]


def test_the_log_file_is_added_to_and_the_endpoint_shows_this_engines_lines(
    start_engine: StartEngine, tmp_path: Path
) -> None:
    log = tmp_path / "engine.jsonl"
    for request_id in ("first", "second"):
        engine = start_engine("--speedup", "100", "--log", str(log))
        engine.http.post("/v1/completions", json=BODY, headers={"x-request-id": request_id})
        (line,) = engine.http.get("/log").text.splitlines()
        assert json.loads(line)["request_id"] == request_id
        engine.process.terminate()
        assert engine.process.wait(timeout=10) == 0
    assert [json.loads(line)["request_id"] for line in log.read_text().splitlines()] == ["first", "second"]

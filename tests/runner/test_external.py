"""A server that somebody else runs: an `openai` card against the embedded engine, started by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest
from benchcard.runner.engines.process import free_port

from .cards import LAX, benchcard, only_run

CARD = """\
card: 1
kind: {kind}
id: outside
decision: {{question: "Does an outside server do?", owner: tests, budget: 2 h}}
{claim}
system:
  engine: {{kind: openai}}
  model: {{name: atlas-70b}}
arms:
{arms}
workload:
  arrivals: {{process: closed}}
  concurrency: [1, 8]
  endpoint: {endpoint}
  window: {{warmup: 4 requests, measure: 12 requests}}
  requests: {{lengths: {{input: 400, output: 6}}}}
  sampling: {{ignore_eos: true}}
method: {{{method}, seed: 3, spare_blocks: 1}}
validity: {{clock_ratio: 20%, client_cpu: 100%, {lax}}}
"""


@contextmanager
def an_engine() -> Iterator[int]:
    """The embedded engine with its prefix cache on, listening."""
    port = free_port()
    arguments = ["--port", str(port), "--served-model-name", "atlas-70b", "--speedup", "20", "--enable-prefix-caching"]
    process = subprocess.Popen(
        [sys.executable, "-m", "benchcard.runner.engines.simulated", *arguments], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    process.stderr.readline()
    try:
        yield port
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.fixture
def engine() -> Iterator[int]:
    with an_engine() as port:
        yield port


@pytest.fixture
def other_engine() -> Iterator[int]:
    with an_engine() as port:
        yield port


def test_a_baseline_of_an_outside_server(engine: int, tmp_path: Path) -> None:
    path = tmp_path / "card.yaml"
    arms = f'  baseline: {{server: {{url: "http://127.0.0.1:{engine}", api_key: {{env: BENCHCARD_TEST_KEY}}}}}}'
    path.write_text(CARD.format(lax=LAX, kind="baseline", claim="", arms=arms, endpoint="chat", method="repeats: 2"))
    assert "BENCHCARD_TEST_KEY is not set" in benchcard("run", path, "--out", tmp_path / "no", code=2).stderr
    os.environ["BENCHCARD_TEST_KEY"] = "canary-secret-value"
    try:
        benchcard("run", path, "--out", tmp_path / "runs")
    finally:
        del os.environ["BENCHCARD_TEST_KEY"]
    run = only_run(tmp_path / "runs")
    baseline = json.loads((run / "inference_baseline.json").read_text())
    assert baseline["valid"] is True
    assert [point["load"] for point in baseline["sweep"]] == [1, 8]
    labels = {point["metrics"]["ttft.p95"]["label"] for point in baseline["sweep"]}
    assert labels == {"p95 from fewer than 130 requests"}
    assert benchcard("audit", run).stdout.splitlines()[-1] == "nothing failed"
    # The key reached the server and no file.
    for file in run.rglob("*"):
        assert not file.is_file() or b"canary-secret-value" not in file.read_bytes()


def test_arms_that_share_a_server_do_not_warm_each_other(engine: int, other_engine: int, tmp_path: Path) -> None:
    """In A/A blocks both runs of the baseline are asked at its server."""
    path = tmp_path / "card.yaml"
    arms = "\n".join(
        f'  {arm}: {{server: {{url: "http://127.0.0.1:{port}/v1"}}}}'
        for arm, port in (("baseline", engine), ("candidate", other_engine))
    )
    claim = "claim: {metric: output_throughput, must_rise_by: 5%, at: [8]}"
    method = "blocks: 6, aa: {blocks: 5, within: 90%}"
    path.write_text(CARD.format(lax=LAX, kind="ab", claim=claim, arms=arms, endpoint="completions", method=method))
    benchcard("run", path, "--out", tmp_path / "runs")
    run = only_run(tmp_path / "runs")
    events = pl.concat(pl.read_parquet(file) for file in (run / "events").glob("*.parquet"))
    served = events.filter(pl.col("outcome") == "ok")
    assert set(served["arm"]) == {"baseline", "candidate", "baseline_aa"}
    assert served["cached_tokens"].sum() == 0
    assert served["input_tokens"].to_list() == served["asked_input_tokens"].to_list()
    verdict = json.loads((run / "verdict.json").read_text())
    assert verdict["verdict"] != "supported"
    assert [row["blocks"] for row in verdict["aa"]] == [5]
    assert benchcard("audit", run).stdout.splitlines()[-1] == "nothing failed"


def test_a_url_without_the_api(engine: int, tmp_path: Path) -> None:
    path = tmp_path / "card.yaml"
    arms = f'  baseline: {{server: {{url: "http://127.0.0.1:{engine}/elsewhere/v1"}}}}'
    path.write_text(CARD.format(lax=LAX, kind="baseline", claim="", arms=arms, endpoint="chat", method="repeats: 2"))
    message = benchcard("run", path, "--out", tmp_path / "runs", code=3).stderr
    assert f"http://127.0.0.1:{engine}/elsewhere/v1/models" in message

"""Cards for a real vLLM on a CPU, and what runs them. They need what `make vllm` installs, and fail without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl

ROOT = Path(__file__).parents[2]
PYTHON = Path(".venv-vllm/bin/python")
MODEL = Path(".models/smollm2-135m-instruct")

#: the last part of a card: limits that the client can keep beside vLLM
LAX = """\
# The client shares two cores with vLLM: what is tested is not its quiet.
validity:
  {schedule_lag_p99: 1 s, loop_lag_p99: 1 s, client_starved: 100%, client_error: 100 ms,
   server_latency: {relative: 100%, absolute: 1 s}, littles_law: 100%}
"""

#: a baseline of eight requests a cell, which share their first 256 tokens
SMALL = (
    """\
card: 1
kind: baseline
id: vllm-check
decision: {question: "Does the pipe hold on a real vLLM?", owner: tests, budget: 30 min}
system:
  engine: {kind: vllm, version: 0.32.0}
  model: {path: .models/smollm2-135m-instruct, name: smollm2, precision: bfloat16, context_limit: 2048}
  flags: {max-model-len: 2048, max-num-seqs: 16, enforce-eager: true, enable-prefix-caching: true}
  launch:
    python: .venv-vllm/bin/python
    env: {VLLM_CPU_KVCACHE_SPACE: "1", VLLM_SERVER_DEV_MODE: "1", HF_HUB_OFFLINE: "1"}
    restart: never
workload:
  arrivals: {process: closed}
  concurrency: [1, 4]
  window: {warmup: 2 requests, measure: 8 requests}
  requests:
    prefix: {documents: 1, tokens: 256, choice: uniform}
    lengths: {input: 40, output: 12}
  sampling: {temperature: 0.0, ignore_eos: true}
  client: {token_counts: per_chunk_usage}
method: {repeats: 2, seed: 5, spare_blocks: 0}
"""
    + LAX
)


def changed(text: str, *changes: tuple[str, str]) -> str:
    """A card's text with each (before, after) in it replaced; every one must be there."""
    for before, after in changes:
        assert before in text, before
        text = text.replace(before, after)
    return text


def require_vllm() -> None:
    """Fail with the reason where the real vLLM or its model is not installed."""
    assert (ROOT / PYTHON).exists(), "no .venv-vllm: run `make vllm` first"
    assert (ROOT / MODEL).exists(), "no .models: run `make vllm` first"


def benchcard(*arguments: object, code: int = 0) -> str:
    """The command's standard output; fails unless it exits with that code and without a traceback."""
    result = subprocess.run(
        [sys.executable, "-c", "from benchcard.runner.cli import main; main()", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert result.returncode == code, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    return result.stdout


def executed(folder: Path, text: str) -> Path:
    """Run the card of that text, written into the folder; its bundle."""
    require_vllm()
    (folder / "card.yaml").write_text(text)
    benchcard("run", folder / "card.yaml", "--out", folder / "runs")
    return only_run(folder / "runs")


def only_run(runs: Path) -> Path:
    """The one bundle in a folder of runs."""
    (found,) = runs.glob("*/*")
    return found


def events(run: Path) -> pl.DataFrame:
    """The events of all cells."""
    return pl.concat(pl.read_parquet(path) for path in sorted((run / "events").glob("*.parquet")))

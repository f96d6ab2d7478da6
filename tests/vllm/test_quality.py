"""Quality gates against a real vLLM: prefix caching and chunk sizes write what the baseline writes; a model with noise
in its weights does not. Two runs, each of two servers that stay up (batching differs from pass to pass, as in service).
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import polars as pl
import pytest

from .cards import LAX, MODEL, PYTHON, ROOT, benchcard, executed, require_vllm

CARD = """\
card: 1
kind: ab
id: vllm-gates
decision: {{question: "Is what the candidate writes what the baseline writes?", owner: tests, budget: 3 h}}
claim: {{metric: output_throughput, must_rise_by: 5%, at: [2]}}
system:
  engine: {{kind: vllm, version: 0.32.0}}
  model: {{path: .models/smollm2-135m-instruct, name: smollm2, precision: bfloat16, context_limit: 2048}}
  flags: {{max-model-len: 2048, max-num-seqs: 16, enforce-eager: true}}
  launch:
    python: .venv-vllm/bin/python
    env: {{VLLM_CPU_KVCACHE_SPACE: "1", VLLM_SERVER_DEV_MODE: "1", HF_HUB_OFFLINE: "1"}}
    restart: never
{start}arms:
  baseline: {{flags: {{enable-prefix-caching: false, max-num-batched-tokens: 2048}}}}
  candidate: {{{candidate}}}
workload:
  arrivals: {{process: closed}}
  concurrency: [2]
  window: {{warmup: 0 s, measure: 4 requests}}
  requests: {{prefix: {{documents: 8, tokens: 160, choice: uniform}}, lengths: {{input: 40, output: 4}}}}
  sampling: {{temperature: 0.0, ignore_eos: true}}
  client: {{token_counts: per_chunk_usage}}
quality:
{gates}
method: {{blocks: 6, seed: 5, spare_blocks: 1, pause_between_cells: 0 s}}
"""

#: with 48 prompts and no divergence at all the bound is 6.1 pt; two more in the candidate than in A/A still pass
GREEDY = (
    "  - {risk: RISK, gate: greedy_divergence, prompts: 48, before_token: 8, excess_over_aa_at_most: 12 pt, "
    "output_tokens: 8, reuse: true}"
)
ARITHMETIC = (
    "  - {risk: answers, gate: task_metric, items: arithmetic, prompts: 60, may_fall_by: 20 pt, output_tokens: 8}"
)

#: every weight gets noise of a third of its tensor's standard deviation
NOISE = """
import sys, torch
from safetensors.torch import load_file, save_file
weights = load_file(sys.argv[1])
generator = torch.Generator().manual_seed(1)
noisy = {
    name: (w.float() + w.float().std() / 3 * torch.randn(w.shape, generator=generator)).to(w.dtype) if w.ndim > 1 else w
    for name, w in weights.items()
}
save_file(noisy, sys.argv[2], metadata={"format": "pt"})
"""


#: the same command as for the baseline, with the model that the arm's environment names
SERVE = """\
#!/bin/bash
exec {python} -m vllm.entrypoints.openai.api_server --model "${{GATE_MODEL:-{model}}}" --host 127.0.0.1 \\
  --served-model-name smollm2 --dtype bfloat16 --enable-prompt-tokens-details "$@"
"""


def run_with(folder: Path, candidate: str, *gates: str, start: str = "") -> Path:
    """A run of the card with this candidate and these gates; `start` is how the servers are started, if not plainly."""
    text = CARD.format(candidate=candidate, gates="\n".join(gates), start=start)
    return executed(folder, text + LAX)


def gates_of(run: Path) -> dict[str, dict]:
    return {row["risk"]: row for row in json.loads((run / "verdict.json").read_text())["gates"]}


@pytest.fixture(scope="module")
def same_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The candidate reuses prefixes and computes prompts in chunks of 64 tokens."""
    treatment = "flags: {enable-prefix-caching: true, max-num-batched-tokens: 64}"
    return run_with(tmp_path_factory.mktemp("same"), treatment, GREEDY.replace("RISK", "cache_reuse"), ARITHMETIC)


def test_prefix_caching_and_chunk_sizes_pass_the_greedy_gate(same_model: Path) -> None:
    gate = gates_of(same_model)["cache_reuse"]
    assert gate["word"] == "pass", gate
    assert gate["n"] == 48


def test_token_ids_are_compared_and_the_cache_was_met(same_model: Path) -> None:
    rows = pl.read_parquet(same_model / "quality" / "greedy_divergence.parquet")
    assert rows["compared_by"].unique().to_list() == ["token_ids"]
    assert rows["tokens"].unique().to_list() == [8]
    cached = dict(rows.group_by("arm").agg(pl.col("cached_tokens").sum()).iter_rows())
    # Of 200 tokens of each prompt whole blocks can be reused: one, since vLLM's blocks hold 128 tokens on a CPU.
    assert cached["candidate"] == 48 * 128
    assert not cached["baseline"]


def test_the_model_answers_some_of_the_arithmetic(same_model: Path) -> None:
    rows = pl.read_parquet(same_model / "quality" / "task_metric.parquet")
    right = rows.filter(pl.col("arm") == "baseline")["correct"].mean()
    assert 0 < right < 0.95
    assert gates_of(same_model)["answers"]["word"] in ("pass", "not established")
    assert "nothing failed" in benchcard("audit", same_model)


def test_noise_in_the_weights_fails_the_greedy_gate(tmp_path: Path) -> None:
    require_vllm()
    noisy = tmp_path / "noisy"
    noisy.mkdir()
    for file in (ROOT / MODEL).iterdir():
        if file.name != "model.safetensors":
            (noisy / file.name).symlink_to(file.resolve())
    source, target = ROOT / MODEL / "model.safetensors", noisy / "model.safetensors"
    subprocess.run([ROOT / PYTHON, "-c", NOISE, source, target], check=True)
    script = tmp_path / "serve.sh"
    script.write_text(SERVE.format(python=PYTHON, model=MODEL))
    script.chmod(0o755)
    start = f'    command: ["{script}", "--port", "{{port}}"]\n'
    # What differs by the other model: its files, and wherever the engine names their folder.
    start += "identity: {treatment: [GATE_MODEL, model, process.argv.model, engine.config.model_config]}\n"
    flags = "enable-prefix-caching: false, max-num-batched-tokens: 2048"
    candidate = f"flags: {{{flags}}}, env: {{GATE_MODEL: {noisy}}}"
    gate = gates_of(
        run_with(tmp_path, candidate, GREEDY.replace("RISK", "weights").replace("true", "false"), start=start)
    )["weights"]
    assert gate["word"] == "fail", gate
    assert gate["observed"] > 0.5

"""The gate of identity against a real vLLM: what the card does not say and the servers are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .cards import LAX, MODEL, PYTHON, benchcard, executed

#: Both servers are up from the start; the script gives one of them what no card says.
CARD = """\
card: 1
kind: ab
id: vllm-identity
decision: {{question: "Do the arms differ in the treatment alone?", owner: tests, budget: 2 h}}
claim: {{metric: output_throughput, must_rise_by: 5%, at: [2]}}
system:
  engine: {{kind: vllm, version: 0.32.0}}
  model: {{path: .models/smollm2-135m-instruct, name: smollm2, precision: bfloat16, context_limit: 2048}}
  flags: {{max-model-len: 2048, enforce-eager: true, enable-prefix-caching: false}}
  launch:
    command: ["{script}", "--port", "{{port}}"]
    env: {{VLLM_CPU_KVCACHE_SPACE: "1", VLLM_SERVER_DEV_MODE: "1", HF_HUB_OFFLINE: "1"}}
    restart: never
arms:
  baseline: {{flags: {{max-num-batched-tokens: 2048}}}}
  candidate: {{flags: {{max-num-batched-tokens: 256}}}}
{identity}
workload:
  arrivals: {{process: closed}}
  concurrency: [2]
  window: {{warmup: 2 requests, measure: 12 requests}}
  requests: {{lengths: {{input: 40, output: 8}}}}
  sampling: {{temperature: 0.0, ignore_eos: true}}
method: {{blocks: 6, seed: 5, spare_blocks: 1, pause_between_cells: 0 s}}
"""
SCRIPT = """\
#!/bin/bash
more=()
if [[ " $* " == *" --max-num-batched-tokens 256 "* ]]; then {undeclared}; fi
exec {python} -m vllm.entrypoints.openai.api_server --model {model} --host 127.0.0.1 \\
  --served-model-name smollm2 --dtype bfloat16 "${{more[@]}}" "$@"
"""


def run(folder: Path, undeclared: str, identity: str = "") -> tuple[Path, dict[str, Any]]:
    """A run whose candidate is started with something that its card does not say; its verdict."""
    script = folder / "serve.sh"
    script.write_text(SCRIPT.format(undeclared=undeclared, python=PYTHON, model=MODEL))
    script.chmod(0o755)
    found = executed(folder, CARD.format(script=script, identity=identity) + LAX)
    return found, json.loads((found / "verdict.json").read_text())


def rows(verdict: dict[str, Any], word: str) -> dict[str, tuple[str | None, str | None]]:
    return {
        row["field"]: (row["baseline"], row["candidate"]) for row in verdict["identity"]["rows"] if row["word"] == word
    }


def kinds(found: Path) -> list[str]:
    return [json.loads(line)["kind"] for line in (found / "attempts.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def accepted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The declared flag, and one that is accepted by its name."""
    return run(tmp_path_factory.mktemp("accepted"), "more=(--max-num-seqs 8)", "identity: {confounded: [max-num-seqs]}")


def test_a_flag_in_a_configuration_file(tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text("max-num-seqs: 8\n")
    found, verdict = run(tmp_path, f"more=(--config {tmp_path}/more.yaml)")
    forbidden = rows(verdict, "forbidden")
    assert forbidden["engine.config.scheduler_config.max_num_seqs"][1] == "8"
    assert verdict["verdict"] == "invalid"
    assert verdict["because"][0]["code"] == "identity"
    assert "max_num_seqs" in verdict["because"][0]["text"]
    # it is named before anything was measured
    assert "identity_refused" in kinds(found)
    assert "cell_started" not in kinds(found)
    # the declared one is not among them, nor what vLLM derives from it
    assert not [name for name in forbidden if "batched_tokens" in name or "encoder" in name or "compile_ranges" in name]
    assert "nothing failed" in benchcard("audit", found)
    assert "engine.config.scheduler_config.max_num_seqs" in (found / "REPORT.md").read_text()


def test_a_setting_in_the_environment(tmp_path: Path) -> None:
    found, verdict = run(tmp_path, "export VLLM_CPU_KVCACHE_SPACE=2")
    forbidden = rows(verdict, "forbidden")
    assert forbidden["process.env.VLLM_CPU_KVCACHE_SPACE"] == ("1", "2")
    assert forbidden["engine.config.cache_config.kv_cache_memory_bytes"] == (str(1 << 30), str(2 << 30))
    assert verdict["verdict"] == "invalid"
    assert "cell_started" not in kinds(found)


def test_the_declared_flag_passes(accepted: tuple[Path, dict[str, Any]]) -> None:
    found, verdict = accepted
    assert rows(verdict, "forbidden") == {}
    allowed = rows(verdict, "allowed")
    for name in ("scheduler_config.max_num_batched_tokens", "scheduler_config.encoder_cache_size"):
        assert allowed[f"engine.config.{name}"] == ("2048", "256")
    assert verdict["identity"]["looks"] == 12
    assert verdict["identity"]["not_arrived"] == []
    assert "identity_refused" not in kinds(found)
    assert "nothing failed" in benchcard("audit", found)


def test_an_accepted_one_stands_in_the_headline(accepted: tuple[Path, dict[str, Any]]) -> None:
    _, verdict = accepted
    assert verdict["verdict"] != "supported"
    assert verdict["verdict"] != "invalid", verdict["because"]
    assert "max-num-seqs" in verdict["sentence"]
    (row,) = [r for r in verdict["identity"]["rows"] if r["field"].endswith("scheduler_config.max_num_seqs")]
    assert (row["class"], row["candidate"]) == ("confounded", "8")

"""`vllm bench serve` beside the client on a real vLLM. Needs what `make vllm` installs, and nothing more."""

from __future__ import annotations

import json
from pathlib import Path

from benchcard.runner.analysis_process import installed_revision
from benchcard.runner.attempts import AttemptLog
from benchcard.runner.bundle import Bundle
from benchcard.runner.files import write_bytes, write_json
from benchcard.runner.plan.plan import make_plan, write_plan
from benchcard.schema.card import load_card

from .cards import benchcard

CARD = """\
card: 1
kind: baseline
id: crosscheck
decision: {question: "Do two clients agree on a real vLLM?", owner: tests, budget: 30 min}
system:
  engine: {kind: vllm, version: 0.32.0}
  model: {path: .models/smollm2-135m-instruct, name: smollm2, precision: bfloat16, context_limit: 2048}
  flags: {max-model-len: 2048, max-num-seqs: 16, enforce-eager: true, enable-prefix-caching: false}
  launch:
    python: .venv-vllm/bin/python
    env: {VLLM_CPU_KVCACHE_SPACE: "1", HF_HUB_OFFLINE: "1"}
    restart: never
    ready_within: 300 s
workload:
  arrivals: poisson
  loads: [1 req/s]
  window: {warmup: 4 s, measure: 12 s, drain: 20 s}
  requests:
    prefix: {documents: 1, tokens: 64, choice: uniform}
    lengths: {input: 40, output: 8}
  sampling: {temperature: 0.0, ignore_eos: true}
  client: {token_counts: per_chunk_usage, timeout_total: 20 s}
method: {repeats: 2, seed: 5, spare_blocks: 0}
"""


def before_its_first_cell(root: Path) -> Bundle:
    """A run as it is before its first event: card, plan, and a log that began."""
    (root / "plan").mkdir(parents=True)
    card = root / "card.yaml"
    write_bytes(card, CARD.encode())
    loaded = load_card(card, installed_revision=installed_revision())
    plan = make_plan(loaded.resolved, loaded.digest)
    bundle = Bundle(root)
    write_json(bundle.resolved, loaded.resolved)
    write_plan(plan, root)
    log = AttemptLog(bundle.log)
    log.append("run_started", run=bundle.name, card_digest=loaded.digest, plan_digest=plan.digest(), epoch_ns=0)
    return bundle


def test_two_clients_on_a_real_vllm(tmp_path: Path) -> None:
    bundle = before_its_first_cell(tmp_path / "run")
    found = json.loads(benchcard("crosscheck", bundle.root, "--json"))
    assert found["vllm_bench_version"] == "0.32.0"
    assert found["same_requests"]
    ours, theirs = found["requests"]["benchcard"], found["requests"]["vllm_bench"]
    assert ours["failed"] == theirs["failed"] == 0
    # vllm bench has the warm-up's requests too
    assert theirs["attempted"] > ours["attempted"] > 0
    keys = ("benchcard", "vllm_bench", "difference")
    assert all(row[key] is not None for row in found["rows"] for key in keys)
    assert {row["metric"] for row in found["rows"]} >= {"ttft.p50", "tpot.p50", "itl.p50", "e2e.p50"}

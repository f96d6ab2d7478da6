"""A card with quality gates that runs in seconds on the embedded engine: short prompts, costs divided by 500."""

from __future__ import annotations

import json
from pathlib import Path

from .cards import LAX

CARD = """\
card: 1
kind: ab
id: gates
decision: {{question: "Do the gates run?", owner: tests, budget: 10 min}}
claim: {{metric: ttft.p50, must_fall_by: 2%, at: [40 req/s]}}
system:
  engine: {{kind: simulated, costs: atlas, speedup: 500}}
  model: {{name: atlas-70b, context_limit: 4096}}
  flags: {{max-num-seqs: 32, block-size: 16}}
  launch: {{ready_within: 30 s, restart: {restart}}}
arms:
  baseline:  {{flags: {{enable-prefix-caching: false}}}}
  candidate: {{flags: {{enable-prefix-caching: {caching}{candidate}}}}}
workload:
  arrivals: poisson
  loads: [40 req/s]
  window: {{warmup: 0.1 s, measure: 0.5 s}}
  requests: {{lengths: {{input: {{median: 60, sigma: 0.3}}, output: 8}}}}
  client: {{timeout_total: 20 s, timeout_idle: 10 s}}
objectives: {{ttft: {{at_most: 1 s}}}}
quality:
{quality}
method: {{blocks: 6, seed: 11, spare_blocks: {spares}, pause_between_cells: 0 s}}
validity: {{schedule_lag_p99: 2 s, client_cpu: 100%, clock_ratio: 50%, {lax}}}
"""

GREEDY = (
    "{risk: cache_reuse, gate: greedy_divergence, prompts: 60, before_token: 16, excess_over_aa_at_most: 6 pt, "
    "output_tokens: 24, within: 20 s}"
)
LENGTH = (
    "{risk: output_length, gate: mean_output_tokens, prompts: 40, equivalent_within: 2%, output_tokens: 20, "
    "within: 20 s}"
)
TASK = "{risk: answers, gate: task_metric, items: items.jsonl, scorer: contains, may_fall_by: 8 pt, within: 20 s}"


def gates_card(folder: Path, *gates: str, **changes: str) -> Path:
    """Write the card with these gates; `changes` as in its braces."""
    path = folder / "card.yaml"
    defaults = {"restart": "never", "caching": "true", "candidate": "", "spares": "1", "lax": LAX}
    rows = "\n".join(f"  - {gate}" for gate in gates)
    path.write_text(CARD.format(**{**defaults, **changes, "quality": rows}))
    return path


def items_file(folder: Path, answers: list[str]) -> Path:
    """items.jsonl: prompt k is the words w7000 … and its answer the k-th."""
    path = folder / "items.jsonl"
    rows = [{"id": f"q{k}", "prompt": f"w{7000 + k} w5 w6", "answer": answer} for k, answer in enumerate(answers)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path

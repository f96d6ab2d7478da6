"""A/A blocks against a real vLLM: two arms that are equal in all that matters, and the baseline against itself."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from benchcard.analysis.effect import paired

from .cards import LAX, benchcard, executed

#: The arms differ in a limit that neither reaches (arms without any difference are refused).
CARD = (
    """\
card: 1
kind: ab
id: vllm-aa
decision: {question: "What does this procedure see where there is nothing?", owner: tests, budget: 2 h}
claim: {metric: output_throughput, must_rise_by: 5%, at: [2]}
guards: [{metric: ttft.p50, may_rise_by: 20%}]
system:
  engine: {kind: vllm, version: 0.32.0}
  model: {path: .models/smollm2-135m-instruct, name: smollm2, precision: bfloat16, context_limit: 2048}
  flags: {max-model-len: 2048, enforce-eager: true, enable-prefix-caching: true}
  launch:
    python: .venv-vllm/bin/python
    env: {VLLM_CPU_KVCACHE_SPACE: "1", VLLM_SERVER_DEV_MODE: "1", HF_HUB_OFFLINE: "1"}
    restart: never
arms:
  baseline: {flags: {max-num-seqs: 16}}
  candidate: {flags: {max-num-seqs: 17}}
workload:
  arrivals: {process: closed}
  concurrency: [2]
  window: {warmup: 2 requests, measure: 24 requests}
  requests: {lengths: {input: 40, output: 12}}
  sampling: {temperature: 0.0, ignore_eos: true}
  client: {token_counts: per_chunk_usage}
method: {blocks: 6, aa: {blocks: 6, within: 5%}, seed: 5, spare_blocks: 1, pause_between_cells: 0 s}
"""
    + LAX
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three servers that stay up (baseline, candidate, the baseline's second): 24 cells of a few seconds each."""
    return executed(tmp_path_factory.mktemp("vllm-aa"), CARD)


def test_it_can_be_audited(run: Path) -> None:
    assert "nothing failed" in benchcard("audit", run)
    first, second = (json.loads((run / "identity" / f"{arm}.json").read_text()) for arm in ("baseline", "baseline_aa"))
    assert first["fields"]["process.argv"] == second["fields"]["process.argv"]


def test_the_procedure_sees_no_bias_in_two_equal_systems(run: Path) -> None:
    """Whether the interval holds zero is a matter of chance (it does 19 times in 20); that it lies wholly outside
    ±5% is not, by the spread of these cells."""
    verdict = json.loads((run / "verdict.json").read_text())
    (row,) = [row for row in verdict["aa"] if row["decides"]]
    assert row["blocks"] == 6
    low, high = row["interval"]
    assert row["word"] in ("clean", "no bias shown"), row
    assert low < math.log(1.05)
    assert high > -math.log(1.05)
    assert verdict["verdict"] not in ("supported", "invalid"), verdict["because"]


def test_a_rise_of_five_per_cent_is_never_supported_by_equal_systems(run: Path) -> None:
    """The claim of the card, judged by the real code on the A/A pairs, either run taken for the candidate. (Falsified
    is right where the interval ends below it.)"""
    verdict = json.loads((run / "verdict.json").read_text())
    (row,) = [row for row in verdict["aa"] if row["decides"]]
    ratios = [math.exp(d) for d in row["d"]]
    for first, second in (([1.0] * 6, ratios), (ratios, [1.0] * 6)):
        found = paired(first, second, value=0.05, relative=True, direction="must_rise_by")
        assert found.word in ("falsified", "inconclusive"), found


def test_the_noise_floor_is_stated(run: Path) -> None:
    verdict = json.loads((run / "verdict.json").read_text())
    (row,) = [row for row in verdict["aa"] if row["decides"]]
    assert row["stdev"] > 0
    text = (run / "REPORT.md").read_text()
    assert "## The procedure against itself (A/A)" in text
    assert r"Noise floor of output_throughput at 2 concurrent: where there is nothing to see, a block shows" in text
    (condition,) = [c for c in verdict["conditions"] if c["name"] == "noise floor (A/A)"]
    assert condition["source"] == "observed"

"""Workloads against a real vLLM: what the plan says is what the server counts."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from benchcard.runner.client.wire import Body
from benchcard.schema.card import load_card

from .cards import SMALL, benchcard, changed, events, executed

#: KV blocks of the CPU build, in tokens
BLOCK = 128
LENGTHS = "lengths: {input: 40, output: 12}"
PREFIX = "prefix: {documents: 1, tokens: 256, choice: uniform}"
BASE = changed(
    SMALL, ("enable-prefix-caching: true}", "enable-prefix-caching: true, enable-prompt-tokens-details: true}")
)


def run(folder: Path, name: str, *changes: tuple[str, str], **files: str) -> Path:
    """Run the small card with these changes, and audit it."""
    for file, content in files.items():
        (folder / file.replace("__", ".")).write_text(content)
    found = executed(folder, changed(BASE, ("id: vllm-check", f"id: {name}"), *changes))
    assert "nothing failed" in benchcard("audit", found)
    return found


def replies(found: Path) -> pl.DataFrame:
    every = events(found)
    assert set(every.filter(pl.col("phase") == "measure")["outcome"]) == {"ok"}
    return every.filter(pl.col("outcome") == "ok")


def shares(rows: pl.DataFrame) -> tuple[float, float]:
    """(planned, measured) share of prompt tokens from the cache, of counted attempts."""
    counted = rows.filter(pl.col("phase") == "measure")
    reusable = counted.select(pl.min_horizontal("reusable_tokens", pl.col("input_tokens") - 1) // BLOCK * BLOCK)
    total = counted["input_tokens"].sum()
    return reusable.to_series().sum() / total, counted["cached_tokens"].fill_null(0).sum() / total


def test_shared_documents_and_prompts_of_exactly_the_declared_lengths(tmp_path: Path) -> None:
    found = run(
        tmp_path, "vllm-shared", (PREFIX, "prefix: {documents: 3, tokens: 400, choice: uniform}"),
        (LENGTHS, "lengths: {input: {median: 40, sigma: 0.5}, output: {median: 6, sigma: 0.3}, correlation: 0.5}"),
        ("concurrency: [1, 4]", "concurrency: [1]"), ("measure: 8 requests", "measure: 20 requests"),
    )  # fmt: skip
    rows = replies(found)
    assert rows["input_tokens"].to_list() == rows["asked_input_tokens"].to_list()
    assert rows["asked_input_tokens"].n_unique() > 10
    assert rows["output_tokens"].to_list() == rows["asked_output_tokens"].to_list()
    planned, measured = shares(rows)
    assert planned > 0.5
    assert measured == pytest.approx(planned, abs=0.02)


def test_random_prompts_hit_nothing_and_recorded_ones_end_by_themselves(tmp_path: Path) -> None:
    prompts = "".join(json.dumps({"prompt": f"{i}. The capital of country number {i} is", "output_tokens": 8}) + "\n"
                      for i in range(400))  # fmt: skip
    found = run(
        tmp_path, "vllm-recorded", (f"    {PREFIX}\n    {LENGTHS}", "    file: prompts.jsonl"),
        ("ignore_eos: true", "ignore_eos: false"), ("concurrency: [1, 4]", "concurrency: [2]"), prompts__jsonl=prompts,
    )  # fmt: skip
    rows = replies(found)
    assert set(rows["cached_tokens"].fill_null(0)) == {0}
    assert rows["prompt_digest"].n_unique() == rows.height
    assert rows["output_tokens"].max() <= 8


def test_a_trace_keeps_its_lengths_and_its_shared_text(tmp_path: Path) -> None:
    """Blocks of 128 tokens, as the CPU build has them: three heads, each shared by several rows."""
    rows = [
        {
            "timestamp": 900 * i,
            "input_length": 128 * 3 - 20,
            "output_length": 4,
            "hash_ids": [i % 3, 10 + i % 3, 100 + i],
        }
        for i in range(20)
    ]
    trace = "".join(json.dumps(row) + "\n" for row in rows)
    found = run(
        tmp_path, "vllm-trace", ("arrivals: {process: closed}",
                                 "arrivals: {process: trace, file: t.jsonl, format: mooncake, hash_block: 128}"),
        ("concurrency: [1, 4]", "slowdown: [1]"),
        ("warmup: 2 requests, measure: 8 requests", "warmup: 2 s, measure: 14 s"),
        (f"    {PREFIX}\n    {LENGTHS}", "    from: trace"), t__jsonl=trace,
    )  # fmt: skip
    found_rows = replies(found)
    assert set(found_rows["input_tokens"]) == {364}
    planned, measured = shares(found_rows)
    assert planned > 0.5
    assert measured == pytest.approx(planned, abs=0.02)


@pytest.mark.parametrize("endpoint", ["completions", "chat"])
def test_conversations_hold_their_history(tmp_path: Path, endpoint: str) -> None:
    """Completions: prompt and answer of the turn before and the turn's own tokens, by the server's count, to the token.
    Chat: a template's tokens come on top."""
    found = run(
        tmp_path, f"vllm-turns-{endpoint}",
        (PREFIX, "conversations: {turns: 4, think_time: 100 ms}"), ("input: 40", "input: 60"),
        ("concurrency: [1, 4]", f"endpoint: {endpoint}\n  concurrency: [2]"),
        ("measure: 8 requests", "measure: 16 requests"),
    )  # fmt: skip
    rows = replies(found)
    before = rows.select("cell", index=pl.col("index") + 1, said=pl.col("input_tokens") + pl.col("output_tokens"))
    later = rows.filter(pl.col("turn") > 0).join(before, on=["cell", "index"])
    assert later.height >= 12
    more = (later["input_tokens"] - later["said"]).to_list()
    assert set(more) == {60} if endpoint == "completions" else min(more) >= 60
    if endpoint == "completions":
        planned, measured = shares(rows)
        assert planned > 0.2
        assert measured == pytest.approx(planned, abs=0.02)


def test_a_warm_cache_is_warm_for_the_first_request(tmp_path: Path) -> None:
    found = run(
        tmp_path, "vllm-warm", (PREFIX, "prefix: {documents: 3, tokens: 400, choice: uniform}"),
        ("concurrency: [1, 4]", "cache_state: {warm: documents}\n  concurrency: [1]"),
        ("warmup: 2 requests", "warmup: 0 requests"),
    )  # fmt: skip
    rows = replies(found)
    assert set(rows["cached_tokens"]) == {3 * BLOCK}
    log = [json.loads(line) for line in (found / "attempts.jsonl").read_text().splitlines()]
    assert [line["state"] for line in log if line["kind"] == "cache_prepared"] == ["warm", "warm"]


def test_structured_output_and_priorities_are_asked_for_as_vllm_takes_them(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}, "ok": {"type": "boolean"}},
              "required": ["n", "ok"], "additionalProperties": False}  # fmt: skip
    found = run(
        tmp_path, "vllm-structured", ("ignore_eos: true}", "ignore_eos: false, json_schema: s.json}\n  priority: 2"),
        ("enable-prompt-tokens-details: true}", "enable-prompt-tokens-details: true, scheduling-policy: priority, "
         "structured-outputs-config: {backend: xgrammar, disable_any_whitespace: true}}"),
        ("concurrency: [1, 4]", "concurrency: [2]"), ("output: 12", "output: 64"), s__json=json.dumps(schema),
    )  # fmt: skip
    rows = replies(found)
    # Free text after random prompts has no end; a JSON object without blanks has.
    assert set(rows["finish_reason"]) == {"stop"}
    assert rows["output_tokens"].max() < 64
    card = load_card(tmp_path / "card.yaml").resolved
    schemas = {card["workload"]["sampling"]["json_schema"]["sha256"]: schema}
    body = json.loads(Body(card, "smollm2", schemas).whole([1000, 2000], 64))
    assert (body["priority"], body["response_format"]["json_schema"]["schema"]) == (2, schema)

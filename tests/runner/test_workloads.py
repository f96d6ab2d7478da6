"""Workloads against the embedded engine, over real HTTP: what was planned is what the server saw."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from benchcard.runner.bundle import open_bundle
from benchcard.runner.cli.reproduce import card_of

from .cards import LAX, benchcard, kill, only_run, start_benchcard, wait_gone

CARD = """\
card: 1
kind: baseline
id: workload
decision: {{question: "Was the planned traffic the delivered traffic?", owner: tests, budget: 20 min}}
system:
  engine: {{kind: simulated, costs: atlas, speedup: 20}}
  model: {{name: atlas-70b, context_limit: 32768}}
  flags:
    {{max-num-seqs: 64, max-num-batched-tokens: 8192, kv-cache: 35 GiB, block-size: 16, enable-prefix-caching: true}}
  launch: {{restart: never}}
arms: {{baseline: {{}}}}
workload:
{workload}
  client: {{timeout_total: 5 s, timeout_idle: 3 s{client}}}
method: {{repeats: 2, seed: 11, spare_blocks: 0, pause_between_cells: 0 s}}
validity: {{schedule_lag_p99: 2 s, client_cpu: 100%, clock_ratio: 20%, {lax}}}
"""


def run(folder: Path, workload: str, client: str = "", **files: str) -> Path:
    """Write the card and its files, run it, and audit the run: nothing may fail."""
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)
    (folder / "card.yaml").write_text(CARD.format(workload=workload, client=client, lax=LAX))
    benchcard("run", "card.yaml", "--out", "runs", cwd=folder)
    found = only_run(folder / "runs")
    assert "nothing failed" in benchcard("audit", found).stdout
    return found


def events(found: Path) -> pl.DataFrame:
    return pl.concat([pl.read_parquet(path) for path in sorted((found / "events").glob("*.parquet"))])


def conditions(found: Path) -> dict[str, str]:
    rows = json.loads((found / "inference_baseline.json").read_text())["conditions"]
    return {row["name"]: row["value"] for row in rows}


def engine_log(found: Path) -> dict[str, dict[str, Any]]:
    """The engine's own log, by request id (cell and index)."""
    lines = [line for path in (found / "logs").glob("*.engine.jsonl") for line in path.read_text().splitlines()]
    return {row["request_id"]: row for row in map(json.loads, lines)}


def test_a_trace_is_replayed_in_order_at_its_offsets_with_its_shared_text(tmp_path: Path) -> None:
    """Slowed down by 2: every request at twice its offset in the file, in the file's order by the engine's clock, and
    of each prompt as many tokens from the cache as the ids say."""
    ids = [[0, 1], [0, 1, 2], [0, 3], [5], [0, 1, 2, 4]]
    rows = [
        {"timestamp": 40 * i + 7 * (i % 3), "input_length": 32 * len(ids[i % 5]) - 3, "output_length": 4 + i % 3,
         "hash_ids": ids[i % 5] if i % 10 < 5 else [100 + 10 * i + b for b in range(len(ids[i % 5]))]}
        for i in range(60)
    ]  # fmt: skip
    trace = "".join(json.dumps(row) + "\n" for row in rows)
    found = run(
        tmp_path,
        "  arrivals: {process: trace, file: t.jsonl, format: mooncake, hash_block: 32}\n  slowdown: [2]\n"
        "  window: {warmup: 1 s, measure: 3 s, drain: 5 s}\n  requests: {from: trace}",
        t__jsonl=trace,
    )
    log = engine_log(found)
    arrived: dict[str, list[tuple[int, int]]] = {}
    for row in events(found).filter(pl.col("index") < 60).iter_rows(named=True):
        start = row["scheduled"] - 2 * rows[row["index"]]["timestamp"] * 1_000_000
        client = pl.read_parquet(found / "telemetry" / f"client-{row['cell']}.parquet").row(0, named=True)
        assert start == client["load_start"]
        assert row["asked_input_tokens"] == row["input_tokens"] == rows[row["index"]]["input_length"]
        assert row["output_tokens"] == rows[row["index"]]["output_length"]
        arrived.setdefault(row["cell"], []).append((log[f"{row['cell']}-{row['index']}"]["arrival_ns"], row["index"]))
    for cell in arrived.values():
        assert [index for _, index in sorted(cell)] == list(range(len(cell)))
    # By hand: a prompt as (id, place) pairs, the longest beginning that an earlier one has, in blocks of 16.
    texts = [[(id_, k) for id_ in row["hash_ids"] for k in range(32)][: row["input_length"]] for row in rows]
    reused = [max((_in_common(text, old) for old in texts[:i]), default=0) // 16 * 16 for i, text in enumerate(texts)]
    counted = events(found).filter((pl.col("phase") == "measure") & (pl.col("cell") == "b01-baseline-l1"))
    assert counted["cached_tokens"].to_list() == [reused[index] for index in counted["index"]]
    share = f"{sum(reused[i] for i in counted['index']) / counted['input_tokens'].sum():.1%}"
    assert conditions(found)["cached share (baseline)"] == (
        f"{share} of prompt tokens came from the cache, by the server's replies; the plan lets {share} be reused"
    )


def _in_common(one: list[Any], other: list[Any]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    # one token of a prompt is always computed
    return min(next((i for i, (a, b) in pairs if a != b), min(len(one), len(other))), len(one) - 1)


def test_conversations_by_two_workers(tmp_path: Path) -> None:
    """Chat, closed loop: the server counts every history as it was said, and finds it in its cache."""
    found = run(
        tmp_path,
        "  arrivals: closed\n  concurrency: [6]\n  endpoint: chat\n"
        "  window: {warmup: 12 requests, measure: 90 requests, drain: 5 s}\n"
        "  requests:\n    conversations: {turns: [2, 4], think_time: 20 ms, think: exponential}\n"
        "    lengths: {input: {median: 50, sigma: 0.4}, output: {median: 9, sigma: 0.4}}",
        ", workers: 2",
    )
    rows = events(found)
    ok = rows.filter(pl.col("outcome") == "ok")
    assert ok.filter(pl.col("asked_input_tokens") != pl.col("input_tokens")).is_empty()
    # In a cell, a later turn finds in the cache all whole blocks of what was said before but its last token.
    later = ok.filter(pl.col("turn") > 0)
    said = pl.col("input_tokens") - pl.col("own_tokens") - 1
    assert later.filter(said // 16 * 16 != pl.col("cached_tokens")).is_empty()
    assert later.height > 60
    assert rows.filter(pl.col("phase") == "measure").height == 180
    assert set(rows["worker"]) == {0, 1}
    text = conditions(found)["conversations"]
    assert " later turns the server counts the history as it was said" in text


def test_delivered_lengths_have_the_declared_correlation(tmp_path: Path) -> None:
    """1,000 requests and more, .6 declared: Fisher's z within 2.58 standard errors (99%)."""
    found = run(
        tmp_path,
        "  arrivals: closed\n  concurrency: [32]\n  window: {warmup: 32 requests, measure: 1000 requests, drain: 5 s}\n"
        "  requests:\n    lengths:\n      input: {median: 200, sigma: 0.4}\n      output: {median: 40, sigma: 0.5}\n"
        "      correlation: 0.6",
    )
    counted = events(found).filter((pl.col("phase") == "measure") & (pl.col("outcome") == "ok"))
    for cell in counted.partition_by("cell"):
        assert cell.height == 1000
        logs = np.log(cell.select("input_tokens", "output_tokens").to_numpy())
        z = math.atanh(np.corrcoef(logs.T)[0, 1])
        assert abs(z - math.atanh(0.6)) < 2.58 / math.sqrt(1000 - 3)


def test_a_warm_cache_is_warm_for_the_first_request(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        "  arrivals: constant\n  loads: [20 req/s]\n  window: {warmup: 0 s, measure: 1.5 s, drain: 5 s}\n"
        "  cache_state: {warm: documents}\n"
        "  requests:\n    prefix: {documents: 5, tokens: 640}\n    lengths: {input: 40, output: 4}",
    )
    counted = events(found).filter(pl.col("phase") == "measure")
    assert set(counted["cached_tokens"]) == {640}
    lines = [json.loads(line) for line in (found / "attempts.jsonl").read_text().splitlines()]
    warmed = [line for line in lines if line["kind"] == "cache_prepared"]
    assert [(line["state"], line["cell"]) for line in warmed] == [("warm", f"b0{n}-baseline-l1") for n in (1, 2)]
    # A document that no request of the cell begins with is not sent.
    sent = [counted.filter(pl.col("cell") == line["cell"])["prefix_group"].n_unique() for line in warmed]
    assert [line["documents"] for line in warmed] >= sent
    assert conditions(found)["cache state"] == "warm: documents, each sent once before the cell"


@pytest.mark.parametrize("change", ["gone", "edited"])
def test_an_input_that_is_not_the_one_is_found(tmp_path: Path, change: str) -> None:
    lines = "".join(json.dumps({"prompt": f"question {i} of many", "output_tokens": 4}) + "\n" for i in range(600))
    found = run(
        tmp_path,
        "  arrivals: constant\n  loads: [20 req/s]\n  window: {warmup: 0 s, measure: 1 s, drain: 5 s}\n"
        "  requests: {file: prompts.jsonl}",
        prompts__jsonl=lines,
    )
    (kept,) = (found / "inputs").iterdir()
    kept.unlink() if change == "gone" else kept.write_text(lines.replace("question 7 ", "question 8 "))
    said = json.loads(benchcard("audit", found, "--json", code=20).stdout)
    failed = {check["name"]: check["faults"] for check in said["checks"] if not check["passed"]}
    # Without the file nothing that is made from it can be made again: card, plan and what stands on the plan.
    assert "manifest" in failed
    assert "card" in failed
    assert any(kept.name in fault for fault in failed["plan"])
    assert not {"attempt_log", "complete", "events", "revision", "verdict", "report"} & set(failed)


def test_a_run_with_files_goes_on_without_them(tmp_path: Path) -> None:
    """Killed after its first cell; the file beside the card is gone when it is resumed, audited, and its card read
    again for a second day: the bundle holds its own."""
    (tmp_path / "p.csv").write_text(
        "input_tokens,output_tokens\n" + "".join(f"{30 + i},{4 + i % 5}\n" for i in range(40))
    )
    workload = (
        "  arrivals: poisson\n  loads: [20 req/s]\n  window: {warmup: 0 s, measure: 2 s, drain: 5 s}\n"
        "  requests: {pairs: {file: p.csv, format: csv}}"
    )
    (tmp_path / "card.yaml").write_text(CARD.format(workload=workload, client="", lax=LAX))
    process = start_benchcard("run", tmp_path / "card.yaml", "--out", tmp_path / "runs")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list((tmp_path / "runs").glob("*/*/events/b01-baseline-l1.parquet")):
        time.sleep(0.05)
    kill(process)
    found = only_run(tmp_path / "runs")
    assert wait_gone(found) == []
    (tmp_path / "p.csv").unlink()
    benchcard("run", "--resume", found)
    assert "nothing failed" in benchcard("audit", found).stdout
    assert card_of(open_bundle(found)).resolved["workload"]["requests"]["pairs"]["file"]["rows"] == 40

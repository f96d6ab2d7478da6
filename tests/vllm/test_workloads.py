"""Workloads against a real vLLM: what was planned is what the server counts, tokenizes and finds in its cache.

One card starts its own server; the others share one that is started here, and differ in their seeds, so that none finds
another's prompts in the cache. Blocks of the CPU build's cache are 128 tokens.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import polars as pl
import pytest
from benchcard.runner.engines.process import free_port
from benchcard.runner.measure import body_of, prompt_of
from benchcard.runner.plan.plan import make_plan
from benchcard.schema.card import load_card

from .test_real_vllm import MODEL, PYTHON, ROOT, benchcard, events

BLOCK = 128
ENV = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_SERVER_DEV_MODE": "1", "HF_HUB_OFFLINE": "1"}
QUIET = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}

CARD = """\
card: 1
kind: baseline
id: vllm-workload
decision: {{question: "Is the planned workload what a real vLLM sees?", owner: tests, budget: 30 min}}
{system}
workload:
{workload}
  client: {{timeout_total: 30 s, token_counts: per_chunk_usage}}
method: {{repeats: 2, seed: {seed}, spare_blocks: 0, pause_between_cells: 0 s}}
# The client shares two cores with vLLM: what is tested is not its quiet.
validity:
  {{schedule_lag_p99: 1 s, loop_lag_p99: 1 s, client_starved: 100%, client_error: 100 ms, coalesced_chunks: 100%,
    client_cpu: 100%, clock_ratio: 20%}}
"""
OWN_SERVER = """\
system:
  engine: {kind: vllm, version: 0.32.0}
  model: {path: .models/smollm2-135m-instruct, name: smollm2, precision: bfloat16, context_limit: 2048}
  flags:
    {max-num-seqs: 16, enforce-eager: true, enable-prefix-caching: true, enable-prompt-tokens-details: true,
     scheduling-policy: priority}
  launch:
    python: .venv-vllm/bin/python
    env: {VLLM_CPU_KVCACHE_SPACE: "1", VLLM_SERVER_DEV_MODE: "1", HF_HUB_OFFLINE: "1"}
    restart: never"""
SHARED_SERVER = """\
system:
  engine: {{kind: openai}}
  model: {{name: smollm2, context_limit: 2048{model}}}
arms: {{baseline: {{server: {{url: "{url}"}}}}}}"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The API base of a vLLM that the cards of this module share."""
    assert (ROOT / PYTHON).exists(), "no .venv-vllm: run `make vllm` first"
    port = free_port()
    command = [
        str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1", "--port", str(port),
        "--model", str(MODEL), "--served-model-name", "smollm2", "--dtype", "bfloat16", "--max-model-len", "2048",
        "--max-num-seqs", "16", "--enforce-eager", "--enable-prefix-caching", "--enable-prompt-tokens-details",
    ]  # fmt: skip
    log = tmp_path_factory.mktemp("server") / "server.log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **ENV, **QUIET}, stdout=out, stderr=out, start_new_session=True
        )
    try:
        _wait_ready(server, f"http://127.0.0.1:{port}/health", log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        try:
            server.wait(30)
        finally:
            # Its engine is a process of its own, in its group.
            if server.poll() is None or _group_lives(server.pid):
                os.killpg(server.pid, signal.SIGKILL)
            server.wait(30)


def _wait_ready(server: subprocess.Popen[bytes], health: str, log: Path) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()[-3000:]
        try:
            if httpx.get(health, trust_env=False).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.5)
    pytest.fail("vLLM was not ready after 300 s")


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def run_card(folder: Path, system: str, workload: str, seed: int, **files: str) -> Path:
    """Write the card and its files, run it, and audit the run: it is valid, and nothing fails."""
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)
    (folder / "card.yaml").write_text(CARD.format(system=system, workload=workload, seed=seed))
    benchcard("run", folder / "card.yaml", "--out", folder / "runs")
    (run,) = (folder / "runs").glob("*/*")
    assert baseline(run)["valid"] is True
    assert benchcard("audit", run).splitlines()[-1] == "nothing failed"
    return run


def baseline(run: Path) -> dict[str, Any]:
    """What the analysis found."""
    found: dict[str, Any] = json.loads((run / "inference_baseline.json").read_text())
    return found


def conditions(run: Path) -> dict[str, str]:
    return {row["name"]: row["value"] for row in baseline(run)["conditions"]}


def counted_ok(run: Path) -> pl.DataFrame:
    """The counted attempts, every one of which is ok."""
    counted = events(run).filter(pl.col("phase") == "measure").sort("cell", "index")
    assert set(counted["outcome"]) == {"ok"}, counted["error"].to_list()
    return counted


def assert_lengths_as_planned(run: Path) -> None:
    """100%: by the server's own count, warm-up and drain included."""
    ok = events(run).filter(pl.col("outcome") == "ok")
    assert ok["input_tokens"].to_list() == ok["asked_input_tokens"].to_list()
    assert ok["output_tokens"].to_list() == ok["asked_output_tokens"].to_list()
    counted = counted_ok(run).height
    assert conditions(run)["prompt lengths"] == f"as planned in all {counted} replies that count them"


def assert_cached_as_planned(run: Path) -> float:
    """In each cell the measured share of cached prompt tokens is within 2 points of what whole blocks of the plan's
    reusable tokens make; and the verdict's condition says so. Returns the measured share of all cells."""
    measured, planned = [], []
    for cell in counted_ok(run).partition_by("cell"):
        rows = cell.select("reusable_tokens", "input_tokens", "cached_tokens").rows()
        total = sum(prompt for _, prompt, _ in rows)
        planned.append(sum(min(own, prompt - 1) // BLOCK * BLOCK for own, prompt, _ in rows) / total)
        measured.append(sum(cached for *_, cached in rows) / total)
    assert measured == pytest.approx(planned, abs=0.02)
    said = conditions(run)["cached share (baseline)"]
    found = re.fullmatch(
        r"(.*)% of prompt tokens came from the cache, by the server's replies; the plan lets (.*)% be reused", said
    )
    assert found is not None, said
    for text, values in zip(found.groups(), (measured, planned), strict=True):
        ends = [float(value) / 100 for value in text.split("% to ")]
        assert [min(values), max(values)] == pytest.approx([ends[0], ends[-1]], abs=0.0006)
    return sum(measured) / len(measured)


def prepared(run: Path) -> list[dict[str, Any]]:
    """What the log says was done to the cache, in order."""
    lines = [json.loads(line) for line in (run / "attempts.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == "cache_prepared"]


def ask(url: str, prompt: list[int], tokens: int) -> tuple[list[int], int]:
    """(the answer's token ids, the prompt's cached tokens) of one completion."""
    body = {
        "model": "smollm2", "prompt": prompt, "max_tokens": tokens, "min_tokens": tokens, "ignore_eos": True,
        "temperature": 0.0, "return_token_ids": True,
    }  # fmt: skip
    reply = httpx.post(f"{url}/completions", json=body, timeout=60, trust_env=False).json()
    return reply["choices"][0]["token_ids"], reply["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_documents_and_priorities_on_a_server_of_its_own(tmp_path: Path) -> None:
    """Two kinds of request, each with a priority, which vLLM takes only with scheduling-policy: priority. The documents
    are cached from their second use in a cell on; what is random is never cached."""
    run = run_card(
        tmp_path,
        OWN_SERVER,
        "  arrivals: closed\n  concurrency: [1]\n  window: {warmup: 0 requests, measure: 14 requests}\n"
        "  cache_state: reset\n  requests: {lengths: {input: {median: 60, sigma: 0.5}, output: 3}}\n"
        "  populations:\n"
        "    asked: {share: 70%, priority: 1, prefix: {documents: 2, tokens: 400}}\n"
        "    fresh: {share: 30%, priority: -1, lengths: {input: {median: 250, sigma: 0.3}, output: 2}}",
        seed=21,
    )
    assert_lengths_as_planned(run)
    counted = counted_ok(run)
    assert counted["asked_input_tokens"].n_unique() > 20
    assert 0.2 < assert_cached_as_planned(run) < 0.8
    fresh = counted.filter(pl.col("population") == "fresh")
    assert fresh.height >= 4
    assert set(fresh["cached_tokens"]) == {0}
    assert fresh["input_tokens"].max() > BLOCK
    seen: set[tuple[str, int]] = set()
    for row in counted.filter(pl.col("population") == "asked").iter_rows(named=True):
        document = (row["cell"], row["prefix_group"])
        assert row["cached_tokens"] == (384 if document in seen else 0)
        seen.add(document)
    assert len(seen) == 4
    assert [line["state"] for line in prepared(run)] == ["reset"] * 2
    policy = "--scheduling-policy priority"
    assert policy in (run / "identity" / "baseline.json").read_text() or "'priority'" in _logs(run)


def _logs(run: Path) -> str:
    return "".join(path.read_text() for path in (run / "logs").glob("*.log"))


def test_what_another_run_left_in_the_cache_is_found_out(url: str, tmp_path: Path) -> None:
    """Random prompts share nothing, and nothing is cached. The same prompts again are: the cell says so by name, and
    its numbers do not count."""
    run = run_card(
        tmp_path,
        SHARED_SERVER.format(url=url, model=""),
        "  arrivals: closed\n  concurrency: [2]\n  window: {warmup: 0 requests, measure: 5 requests}\n"
        "  requests: {lengths: {input: {median: 220, sigma: 0.4}, output: 2}}",
        seed=22,
    )
    assert_lengths_as_planned(run)
    assert assert_cached_as_planned(run) == 0
    benchcard("run", tmp_path / "card.yaml", "--out", tmp_path / "again")
    (again,) = (tmp_path / "again").glob("*/*")
    assert baseline(again)["valid"] is False
    assert "is invalid: cached_beyond_plan" in (again / "attempts.jsonl").read_text()
    assert set(counted_ok(again)["cached_tokens"]) != {0}


def test_histories_of_completions_are_the_servers_own_tokens(url: str, tmp_path: Path) -> None:
    run = run_card(
        tmp_path,
        SHARED_SERVER.format(url=url, model=""),
        "  arrivals: closed\n  concurrency: [2]\n  window: {warmup: 0 requests, measure: 12 requests}\n"
        "  requests:\n    conversations: {turns: [2, 4], think_time: 50 ms}\n"
        "    lengths: {input: {median: 160, sigma: 0.2}, output: {median: 16, sigma: 0.3}}",
        seed=23,
    )
    assert_lengths_as_planned(run)
    assert assert_cached_as_planned(run) > 0.2
    later = later_turns(events(run).filter(pl.col("outcome") == "ok"))
    assert len(later) >= 12
    for before, row in later:
        assert row["input_tokens"] == before["input_tokens"] + before["output_tokens"] + row["own_tokens"]
        # All that was said before is there, but the answer's last token, which was never put through the model.
        said = before["input_tokens"] + before["output_tokens"] - 1
        assert row["cached_tokens"] == said // BLOCK * BLOCK
    assert max(row["cached_tokens"] for _, row in later) >= 2 * BLOCK
    counted = later_turns(counted_ok(run))
    assert conditions(run)["conversations"].endswith(
        f"in {len(counted)} later turns the server counts the history as it was said"
    )
    checks = [check for cell in baseline(run)["cells"] for check in cell["checks"] if check["name"] == "history"]
    assert [(check["passed"], check["observed"]) for check in checks] == [(True, 0.0)] * 2


def later_turns(rows: pl.DataFrame) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(the turn before, the turn) of every later turn."""
    found = {(row["cell"], row["conversation"], row["turn"]): row for row in rows.iter_rows(named=True)}
    return [(found[cell, which, turn - 1], row) for (cell, which, turn), row in found.items() if turn]


def test_histories_of_chats_are_whole_messages(url: str, tmp_path: Path) -> None:
    """With the model's tokenizer, template and all; only of answers the server may make other tokens than it said."""
    (tmp_path / "tokenizer").mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(ROOT / MODEL / name, tmp_path / "tokenizer" / name)
    run = run_card(
        tmp_path,
        SHARED_SERVER.format(url=url, model=", tokenizer: tokenizer"),
        "  arrivals: closed\n  endpoint: chat\n  concurrency: [2]\n"
        "  window: {warmup: 0 requests, measure: 9 requests}\n  requests:\n    conversations: {turns: 3}\n"
        "    lengths: {input: {median: 150, sigma: 0.2}, output: {median: 12, sigma: 0.3}}",
        seed=24,
    )
    later = later_turns(events(run).filter(pl.col("outcome") == "ok"))
    assert len(later) >= 10
    for before, row in later:
        assert row["input_tokens"] - before["input_tokens"] >= before["output_tokens"]
        said = before["input_tokens"] + before["output_tokens"] + row["own_tokens"]
        assert abs(row["input_tokens"] - said) <= 3
        # The prompt before is there in whole blocks, and no more than was said.
        assert before["input_tokens"] // BLOCK * BLOCK <= row["cached_tokens"] <= said - row["own_tokens"]
    assert max(row["cached_tokens"] for _, row in later) >= 2 * BLOCK
    assert " later turns the server counts the history as it was said" in conditions(run)["conversations"]


@pytest.mark.parametrize(("prompt", "answer"), [(120, 8), (121, 8), (250, 6), (250, 7)])
def test_the_last_token_of_an_answer_is_not_in_the_cache(url: str, prompt: int, answer: int) -> None:
    """What the plan's bound for later turns rests on: 128 tokens of prompt and answer fill no block, 129 do."""
    draw = random.Random(f"{prompt} {answer}")
    first = [draw.randrange(1000, 30_000) for _ in range(prompt)]
    said, cached = ask(url, first, answer)
    assert (len(said), cached) == (answer, 0)
    assert ask(url, [*first, *said, *range(5000, 5020)], 1)[1] == (prompt + answer - 1) // BLOCK * BLOCK


#: (tokens, hash ids) of a trace whose ids stand for 128 tokens each, as vLLM's own blocks do
TRACE = [
    (340, [0, 1, 10]), (383, [0, 1, 11]), (384, [2, 3, 4]), (256, [0, 1]), (500, [2, 3, 5, 6]), (200, [7, 8]),
    (400, [0, 1, 11, 12]), (255, [2, 3]), (200, [7, 9]), (100, [0]),
]  # fmt: skip


def test_a_trace_shares_text_as_its_hash_ids_say(url: str, tmp_path: Path) -> None:
    """At half its speed. By hand: whole blocks that an earlier row began with, less than the prompt."""
    lines = [
        {"timestamp": 400 * i, "input_length": n, "output_length": 3 + i % 3, "hash_ids": ids}
        for i, (n, ids) in enumerate(TRACE)
    ]
    run = run_card(
        tmp_path,
        SHARED_SERVER.format(url=url, model=""),
        "  arrivals: {process: trace, file: t.jsonl, format: mooncake, hash_block: 128}\n  slowdown: [2]\n"
        "  window: {warmup: 0 requests, measure: 10 requests}\n  requests: {from: trace}",
        seed=25,
        t__jsonl="".join(json.dumps(line) + "\n" for line in lines),
    )
    assert_lengths_as_planned(run)
    counted = counted_ok(run)
    assert counted["input_tokens"].to_list() == [n for n, _ in TRACE] * 2
    assert counted["output_tokens"].to_list() == [line["output_length"] for line in lines] * 2
    for cell in counted.partition_by("cell"):
        offsets = cell["scheduled"] - cell["scheduled"][0]
        assert offsets.to_list() == [800_000_000 * i for i in range(10)]
    share = sum([0, 256, 0, 128, 256, 0, 256, 128, 128, 0]) / sum(n for n, _ in TRACE)
    assert assert_cached_as_planned(run) == pytest.approx(share, abs=0.02)


ANSWER = {
    "type": "object",
    "properties": {"answer": {"enum": ["yes", "no"]}, "sure": {"type": "boolean"}},
    "required": ["answer", "sure"],
    "additionalProperties": False,
}


def test_recorded_prompts_structured_replies_and_a_cache_that_is_emptied(url: str, tmp_path: Path) -> None:
    """Four recorded texts, over and over, in both cells: were the cache not emptied, the second cell would find them.
    Every reply stops by itself, and is an object of the schema."""
    texts = [
        f"Case {i}. " + f"Visitor {i} asks whether the museum is open on day {7 * i} of the year. " * 20 + "Answer:"
        for i in range(4)
    ]
    run = run_card(
        tmp_path,
        SHARED_SERVER.format(url=url, model=""),
        "  arrivals: closed\n  concurrency: [1]\n  window: {warmup: 0 requests, measure: 6 requests}\n"
        "  requests: {file: {path: p.jsonl, format: jsonl, reuse: in_each_block}, output: 80}\n"
        "  sampling: {ignore_eos: false, json_schema: s.json}\n  cache_state: reset",
        seed=26,
        p__jsonl="".join(json.dumps({"prompt": text}) + "\n" for text in texts),
        s__json=json.dumps(ANSWER),
    )
    counted = counted_ok(run)
    assert set(counted["finish_reason"]) == {"stop"}
    assert [line["state"] for line in prepared(run)] == ["reset"] * 2
    seen: set[tuple[str, str]] = set()
    for row in counted.iter_rows(named=True):
        prompt = (row["cell"], row["prompt_digest"])
        assert row["cached_tokens"] == ((row["input_tokens"] - 1) // BLOCK * BLOCK if prompt in seen else 0)
        seen.add(prompt)
    assert len(seen) == 8
    said = conditions(run)
    assert said["prompt lengths"].endswith(
        "tokens by the server's count in 12 replies to recorded text, which the plan has not counted"
    )
    assert said["cached share (baseline)"].endswith("is unknown, since recorded prompts are not compared")
    # A bundle keeps no texts but their digests: the very bodies of the run, sent once more, tell what they stand for.
    replies = [_text(url, body) for body in _bodies(tmp_path / "card.yaml")]
    for text in replies:
        jsonschema.validate(json.loads(text), ANSWER)
    known = counted["output_digest"].is_in([hashlib.sha256(text.encode()).hexdigest() for text in replies])
    assert known.mean() >= 0.5  # greedy, so alike but for a rounding in bfloat16


def _bodies(card_path: Path) -> list[bytes]:
    """The bodies of a card's first four requests, as the runner sends them."""
    card = load_card(card_path)
    plan = make_plan(card.resolved, card.digest, inputs=card.inputs)
    cell, body = plan.blocks[0].cells[0], body_of(plan)
    rows = plan.requests[cell.block, cell.load_point][:4]
    return [body.whole(prompt_of(plan, cell, row), row.output_tokens, row.population) for row in rows]


def _text(url: str, body: bytes) -> str:
    headers = {"content-type": "application/json"}
    reply = httpx.post(f"{url}/completions", content=body, headers=headers, timeout=60, trust_env=False)
    assert reply.status_code == 200, reply.text
    events = [json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: {")]
    return "".join(choice["text"] for event in events for choice in event["choices"])


def test_a_warm_cache_is_warm_for_the_first_request(url: str, tmp_path: Path) -> None:
    run = run_card(
        tmp_path,
        SHARED_SERVER.format(url=url, model=""),
        "  arrivals: constant\n  loads: [1.5 req/s]\n  window: {warmup: 0 requests, measure: 6 requests}\n"
        "  cache_state: {warm: documents}\n"
        "  requests:\n    prefix: {documents: 3, tokens: 400}\n    lengths: {input: {median: 50, sigma: 0.3}, output: 4}",
        seed=27,
    )
    assert_lengths_as_planned(run)
    assert assert_cached_as_planned(run) > 0.75
    # 400 tokens hold three whole blocks.
    assert set(counted_ok(run)["cached_tokens"]) == {384}
    assert [line["state"] for line in prepared(run)] == ["warm"] * 2
    assert all(line["tokens"] == 400 * line["documents"] for line in prepared(run))

"""Another client beside ours: what it is sent, how its numbers are read, what is refused; `vllm bench serve` is a
scripted package that writes its result."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchcard.runner.analysis_process import Analysis, installed_revision
from benchcard.runner.bundle import Bundle
from benchcard.runner.cli.crosscheck import text
from benchcard.runner.crosscheck.bench import bench_version
from benchcard.runner.crosscheck.compare import compared, failures, same_requests
from benchcard.runner.crosscheck.crosscheck import load_point, require_sendable
from benchcard.runner.crosscheck.trace import work_of
from benchcard.runner.plan.plan import Plan, make_plan
from benchcard.runner.virtual_run import virtual_run
from benchcard.schema.card import load_card
from benchcard.schema.errors import InputError, SystemUnderTestError

from .cards import benchcard, small_card

FAKE = """
import argparse, json, os, sys, urllib.request

def add_cli_args(parser):
    for name in ("backend", "base-url", "endpoint", "model", "tokenizer", "dataset-name", "dataset-path",
                 "num-prompts", "result-filename", "temperature", "max-concurrency", "request-rate"):
        parser.add_argument("--" + name)

def main(known):
    raise AssertionError

class Parser(argparse.ArgumentParser):
    def parse_args(self):
        return self.parse_known_args()[0]

def main(args):
    if args.model == "broken":
        sys.exit("it broke, said key " + os.environ.get("OPENAI_API_KEY", "none"))
    urllib.request.urlopen(args.base_url + "/health").read()  # the server is up
    rows = [json.loads(line) for line in open(args.dataset_path)]
    assert len(rows) == int(args.num_prompts)
    n = len(rows)
    json.dump({
        "completed": n, "failed": 0, "mean_ttft_ms": 12.5, "median_ttft_ms": 12.0, "p95_ttft_ms": 20.0,
        "mean_tpot_ms": 3.0, "median_tpot_ms": 3.0, "mean_itl_ms": 3.0, "median_itl_ms": 3.0, "p95_itl_ms": 4.0,
        "mean_e2el_ms": 50.0, "median_e2el_ms": 50.0, "request_throughput": 30.0, "output_throughput": 300.0,
        "ttfts": [0.010] * n, "itls": [[0.003] * 4] * n, "output_lens": [5] * n, "errors": [""] * n,
        "seen": vars(args),
    }, open(args.result_filename, "w"))
"""


@pytest.fixture
def vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A vllm to import, of version 9.9."""
    root = tmp_path / "site"
    for folder in ("vllm/benchmarks", "vllm/utils", "vllm-9.9.dist-info"):
        (root / folder).mkdir(parents=True)
    for package in ("vllm", "vllm/benchmarks", "vllm/utils"):
        (root / package / "__init__.py").touch()
    (root / "vllm/benchmarks/serve.py").write_text(FAKE)
    (root / "vllm/utils/argparse_utils.py").write_text(
        "from vllm.benchmarks.serve import Parser as FlexibleArgumentParser\n"
    )
    (root / "vllm-9.9.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 9.9\n")
    monkeypatch.setenv("PYTHONPATH", str(root))
    return root


def planned(folder: Path, **changes: str) -> tuple[Plan, str]:
    folder.mkdir(exist_ok=True)
    loaded = load_card(small_card(folder, **changes), installed_revision=installed_revision())
    return make_plan(loaded.resolved, loaded.digest), loaded.text


def a_run(folder: Path) -> Bundle:
    """A run in virtual time, with its verdict."""
    plan, card = planned(folder / "card", lax="loop_lag_p99: 2 s, client_starved: 100%, coalesced_chunks: 100%")
    bundle = virtual_run(plan, folder / "run", card)
    Analysis(installed_revision(), "benchcard.analysis", None).run("verdict", str(bundle.root))
    return bundle


def files_of(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_both_clients_on_one_server_and_the_run_stays_as_it_is(tmp_path: Path, vllm: Path) -> None:
    bundle = a_run(tmp_path)
    before = files_of(bundle.root)
    out = tmp_path / "result.json"
    done = benchcard("crosscheck", bundle.root, "--python", sys.executable, "--json", "--out", out)
    found = json.loads(done.stdout)
    assert json.loads(out.read_text()) == found
    assert files_of(bundle.root) == before
    assert found["vllm_bench_version"] == "9.9"
    assert (found["arm"], found["load"], found["same_requests"], found["endpoint"]) == (
        "baseline", 40.0, True, "completions",
    )  # fmt: skip
    rows = {row["metric"]: row for row in found["rows"]}
    assert rows["ttft.p50"]["vllm_bench"] == pytest.approx(0.012)
    assert rows["ttft.p50"]["vllm_bench_same_requests"] == pytest.approx(0.010)
    assert rows["e2e.mean"]["vllm_bench_same_requests"] == pytest.approx(0.022)
    assert all(row["benchcard"] is not None and row["benchcard"] > 0 for row in rows.values())
    assert rows["ttft.p50"]["run_mean"] is not None
    assert found["requests"]["benchcard"]["failed"] == 0
    assert found["requests"]["vllm_bench"]["attempted"] > 0
    shown = benchcard("crosscheck", bundle.root, "--python", sys.executable).stdout
    assert "vllm bench serve 9.9, once each on one server" in shown
    assert "output_throughput" in shown


def test_one_cell_has_the_metrics_that_the_verdict_has_of_it(tmp_path: Path) -> None:
    bundle = a_run(tmp_path)
    analysis = Analysis(installed_revision(), "benchcard.analysis", None)
    found = json.loads(analysis.run("cell", str(bundle.root), "b02-candidate-l1"))
    verdict = json.loads(bundle.result().read_text())
    of_run = [row for row in verdict["metrics"] if row["cell"] == "b02-candidate-l1"]
    keys = ("metric", "unit", "value", "n", "undefined")
    assert found["metrics"] == [{key: row[key] for key in keys} for row in of_run]
    with pytest.raises(InputError) as refused:
        analysis.run("cell", str(bundle.root), "b99-baseline-l1")
    assert str(refused.value) == "cell: no cell 'b99-baseline-l1' in the plan"


def test_without_vllm_it_is_refused_and_says_how(tmp_path: Path) -> None:
    bundle = a_run(tmp_path)
    done = benchcard("crosscheck", bundle.root, "--python", sys.executable, code=2)
    how = (
        "`vllm bench serve` is needed here. Name a Python that has it with --python (make vllm puts one into "
        '.venv-vllm/bin/python), or install it into that one: pip install "vllm[bench]"'
    )
    assert done.stderr == (
        f"error: {sys.executable}: cannot import vllm.benchmarks.serve (ModuleNotFoundError: No module named 'vllm'); "
        f"{how}\n"
    )
    with pytest.raises(InputError, match="no such program") as refused:
        bench_version(str(tmp_path / "none"))
    assert str(refused.value) == f"{tmp_path / 'none'}: no such program; {how}"


def test_a_bench_that_fails_shows_the_end_of_what_it_said_without_the_key(tmp_path: Path, vllm: Path) -> None:
    from benchcard.runner.crosscheck.bench import run_bench
    from benchcard.runner.crosscheck.trace import Work
    from benchcard.runner.engines.probe import Endpoint

    endpoint = Endpoint("http://127.0.0.1:9/v1", None, {"Authorization": "Bearer s3cr3t"})
    card = {"workload": {"endpoint": "completions"}}
    with pytest.raises(SystemUnderTestError) as failed:
        run_bench(sys.executable, endpoint, card, "broken", "t", Work([], 1, ["{}"]), tmp_path)
    assert str(failed.value) == (
        "vllm bench serve failed (exit 1); the end of what it said:\nit broke, said key [redacted]\n"
        "Its tokenizer, t, is no folder here: it looked at Hugging Face. --tokenizer names a folder."
    )


def test_a_rate_is_replayed_by_the_plan_s_own_times_lengths_and_shared_chunks(tmp_path: Path) -> None:
    plan, _ = planned(tmp_path)
    requests = [request for request in plan.requests[1, 1] if request.phase != "drain"]
    work = work_of(plan, (1, 1), None)
    rows = [json.loads(line) for line in work.trace]
    assert work.requests == len(rows) == len(requests)
    assert [row["timestamp"] for row in rows] == [(request.offset_ns or 0) / 1e9 for request in requests]
    assert [row["input_length"] for row in rows] == [request.input_tokens for request in requests]
    assert [row["output_length"] for row in rows] == [request.output_tokens for request in requests]
    for a, one in zip(requests, rows, strict=True):
        assert len(one["hash_ids"]) == -(-one["input_length"] // 16)
        for b, other in zip(requests, rows, strict=True):
            if a.index < b.index:
                shared = sum(1 for x, y in zip(one["hash_ids"], other["hash_ids"], strict=False) if x == y)
                # a document of 1500 tokens holds 93 whole chunks
                assert shared == (93 if a.prefix_group == b.prefix_group else 0)
    assert "--self-timed" in work.arguments
    assert "--max-concurrency" not in work.arguments


def edited(folder: Path, change: Any) -> Plan:
    folder.mkdir(exist_ok=True)
    path = small_card(folder)
    card = yaml.safe_load(path.read_text())
    change(card)
    path.write_text(yaml.safe_dump(card))
    loaded = load_card(path, installed_revision=installed_revision())
    return make_plan(loaded.resolved, loaded.digest)


def closed(card: dict[str, Any]) -> None:
    card["claim"]["at"] = [4]
    card["workload"]["arrivals"] = {"process": "closed"}
    card["workload"]["concurrency"] = [4]
    del card["workload"]["loads"]
    card["workload"]["window"] = {"warmup": "2 requests", "measure": "20 requests"}


def test_a_closed_loop_sends_as_many_as_the_run_did_at_its_concurrency(tmp_path: Path) -> None:
    work = work_of(edited(tmp_path, closed), (1, 1), 13)
    assert work.requests == len(work.trace) == 13
    assert work.arguments[:2] == ["--max-concurrency", "4"]
    assert "--no-self-timed" in work.arguments


def test_a_load_is_the_one_named_or_the_operating_point_or_the_claim_s(tmp_path: Path) -> None:
    card = planned(tmp_path, loads="20 req/s, 40 req/s")[0].card
    assert load_point(card, None) == 2
    assert load_point(card, 20.0) == 1
    with pytest.raises(InputError) as refused:
        load_point(card, 30.0)
    assert str(refused.value) == "--load 30: not a load of the card; it has 20, 40"


def test_what_vllm_bench_cannot_send_is_refused(tmp_path: Path) -> None:
    card = planned(tmp_path)[0].card
    require_sendable(card, Bundle(tmp_path))
    card["workload"]["requests"]["conversations"] = {"turns": 2}
    with pytest.raises(InputError) as refused:
        require_sendable(card, Bundle(tmp_path))
    assert str(refused.value) == (
        f"{tmp_path}: its card has conversations (later turns wait for answers), which vllm bench serve cannot send "
        "alike"
    )


BENCH = {
    "completed": 3,
    "failed": 1,
    "mean_ttft_ms": 110.0,
    "median_ttft_ms": float("nan"),
    "ttfts": [0.5, 0.1, 0.0, 0.3],
    "itls": [[0.1], [0.02, 0.04], [], [0.03]],
    "output_lens": [2, 3, 0, 2],
    "errors": ["", "", "refused", ""],
}


def test_the_same_requests_without_those_that_failed() -> None:
    found = same_requests(BENCH, [1, 2, 3])
    assert found["ttft.mean"] == pytest.approx(0.2)
    assert (found["ttft.p50"], found["ttft.p95"]) == (0.1, 0.3)
    assert found["tpot.mean"] == pytest.approx(0.03)
    assert found["itl.mean"] == pytest.approx(0.03)
    assert found["itl.p95"] == 0.04
    assert found["e2e.mean"] == pytest.approx((0.16 + 0.33) / 2)
    assert same_requests({}, [0, 1])["ttft.mean"] is None


def test_a_status_without_a_reason_is_a_failure_too() -> None:
    """vllm bench keeps the reason phrase as the error, which HTTP/1.1 allows to be empty."""
    assert same_requests(BENCH | {"errors": ["", "", "", ""]}, [1, 2, 3]) == same_requests(BENCH, [1, 2, 3])


def test_a_time_of_0_is_none_that_vllm_bench_has() -> None:
    """Where no reply has two tokens it writes np.mean([] or 0); a rate of 0 is one."""
    none = {"mean_tpot_ms": 0.0, "request_throughput": 0.0}
    ours = {"tpot.mean": {"value": 0.1, "unit": "s"}, "request_throughput": {"value": 2.0, "unit": "req/s"}}
    rows = compared(ours, none, None, {})
    assert [(row["vllm_bench"], row["difference"]) for row in rows] == [(None, None), (0.0, -1.0)]


def test_what_is_undefined_has_no_difference() -> None:
    def ours(value: float | None) -> dict[str, Any]:
        return {"value": value, "unit": "s"}

    rows = compared({"ttft.mean": ours(0.1), "ttft.p50": ours(0.1), "tpot.mean": ours(None)}, BENCH, None, {})
    assert [(row["metric"], row["vllm_bench"], row["difference"]) for row in rows] == [
        ("ttft.mean", pytest.approx(0.11), pytest.approx(0.1)),
        ("ttft.p50", None, None),
        ("tpot.mean", None, None),
    ]
    assert {row["vllm_bench_same_requests"] for row in rows} == {None}


def test_failures_of_both() -> None:
    found = failures({"ok": 7, "http_error": 2}, BENCH)
    assert (found["benchcard"], found["vllm_bench"]) == (
        {"attempted": 9, "failed": 2},
        {"attempted": 4, "failed": 1},
    )


def test_the_text_that_people_read() -> None:
    row = {
        "metric": "ttft.p50", "unit": "s", "benchcard": 0.1, "vllm_bench": 0.09, "vllm_bench_same_requests": None,
        "difference": -0.1, "run_mean": 0.101, "run_stdev": 0.002, "why": "One counts from when it sends.",
    }  # fmt: skip
    rate = row | {
        "metric": "output_throughput", "unit": "tokens/s", "benchcard": 1234.5, "vllm_bench": None,
        "difference": None, "run_mean": None, "run_stdev": None, "why": "Another span.",
    }  # fmt: skip
    found = {
        "run": "r", "cell": "b01-baseline-l1", "arm": "baseline", "load": 2.0, "load_kind": "rate", "endpoint": "chat",
        "vllm_bench_version": "9.9", "same_requests": False, "failed_checks": ["loop_lag_p99"],
        "percentiles": "One is a value.",
        "requests": {
            "benchcard": {"attempted": 9, "failed": 2}, "vllm_bench": {"attempted": 4, "failed": 1},
            "why": "One leaves them out.",
        },
        "rows": [row, rate],
    }  # fmt: skip
    assert text(found) == TEXT


TEXT = """\
baseline of r at 2 req/s (chat): benchcard's cell b01-baseline-l1 and vllm bench serve 9.9, once each on one server

metric                       benchcard        vllm bench        difference                in the run
ttft.p50                      100.0 ms           90.0 ms            −10.0%              101.0 ± 2 ms
output_throughput     1,234.5 tokens/s                 –                 –                         –

benchcard: 9 requests, 2 failed
vllm bench: 4 requests, 1 failed

vllm bench sent prompts of the plan's mean lengths, each its own: on chat it cannot replay the plan, so what
requests share, and how lengths scatter, differs too.
In the run: mean ± stdev over its blocks. With one cell of each client, a difference of that size may be
chance. What neither chance nor a definition explains is a client that was late: benchcard watches itself for
that, vllm bench does not.
benchcard's cell failed loop_lag_p99: its numbers are not to be relied on.

Why they may differ:
  ttft.p50: One counts from when it sends.
  output_throughput: Another span.
  percentiles: One is a value.
  failures: One leaves them out."""

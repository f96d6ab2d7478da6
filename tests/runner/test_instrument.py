"""A run and its instrument: the certificate is made before the first cell, and a run beyond it is invalid by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
from benchcard.runner.instrument.truth import Truth
from benchcard.schema.digest import digest_file

from .cards import benchcard, only_run, small_card

STARVED = """\
card: 1
kind: baseline
id: starved
decision: {{question: "Does a starved client say so?", owner: tests, budget: 1 h}}
system: {{engine: {{kind: openai}}, model: {{name: truth}}}}
arms: {{baseline: {{server: {{url: "http://127.0.0.1:{port}/v1"}}}}}}
workload:
  arrivals: {{process: closed}}
  concurrency: [64]
  endpoint: chat
  window: {{warmup: 64 requests, measure: 256 requests}}
  requests: {{lengths: {{input: 4, output: 100}}}}
method: {{repeats: 2, seed: 1, spare_blocks: 0, pause_between_cells: 0 s}}
"""


def lines_of(run: Path, kind: str) -> list[dict]:
    lines = [json.loads(line) for line in (run / "attempts.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


def test_a_run_has_its_certificate(good_run: Path) -> None:
    (line,) = lines_of(good_run, "calibrated")
    path = good_run / "instrument" / "1.json"
    assert line["sha256_of_file"] == digest_file(path)
    assert "instrument/1.json" in json.loads((good_run / "manifest.json").read_text())["evidence"]
    kinds = [json.loads(line)["kind"] for line in (good_run / "attempts.jsonl").read_text().splitlines()]
    assert kinds.index("calibrated") < kinds.index("cell_started")
    for telemetry in (good_run / "telemetry").glob("client-*.parquet"):
        (row,) = pl.read_parquet(telemetry).to_dicts()
        assert (row["certificate"], row["workers"], row["loop"], row["timer"]) == (1, 1, "uvloop", "timerfd")
        assert row["loop_lag_p50"] <= row["loop_lag_p99"] <= row["loop_lag_max"]
    for line in lines_of(good_run, "cell_ended"):
        (check,) = [check for check in line["checks"] if check["name"] == "certified_load"]
        assert check["passed"]
        assert 0 < check["observed"] <= 1


def test_beyond_the_certificate_a_run_is_invalid_by_name(tmp_path: Path) -> None:
    """No client is right to a microsecond: no point of the certificate holds, and the first cell says so."""
    lax = "loop_lag_p99: 2 s, client_starved: 100%, coalesced_chunks: 100%, client_error: 1 us"
    result = benchcard("run", small_card(tmp_path, lax=lax, spares="0"), "--out", tmp_path / "runs")
    assert "is invalid: certified_load" in result.stderr
    run = only_run(tmp_path / "runs")
    verdict = json.loads((run / "verdict.json").read_text())
    assert verdict["verdict"] == "invalid"
    (row,) = [row for row in verdict["validity"] if row["name"] == "certified_load"]
    assert row["passed"] is False
    assert row["reason"] == "the client was off by more than 0.001 ms at every load that was tried"
    assert "certified_load" in (run / "REPORT.md").read_text()


def test_two_workers_from_card_to_audit(tmp_path: Path) -> None:
    card = small_card(tmp_path, client=", workers: 2", spares="2")
    benchcard("run", card, "--out", tmp_path / "runs")
    run = only_run(tmp_path / "runs")
    events = pl.concat([pl.read_parquet(path) for path in (run / "events").glob("*.parquet")])
    assert set(events["worker"]) == {0, 1}
    assert (events["worker"] == events["index"] % 2).all()
    assert json.loads((run / "verdict.json").read_text())["verdict"] in ("supported", "falsified", "inconclusive")
    assert benchcard("audit", run).stdout.splitlines()[-1] == "nothing failed"


def test_a_starved_client_is_no_slow_server(tmp_path: Path) -> None:
    """The runner on one core with two busy loops, against a server with known times on whatever core is left: the run
    is invalid, and names the client."""
    core = min(os.sched_getaffinity(0))
    busy = [
        subprocess.Popen(
            [sys.executable, "-c", f"import os\nos.sched_setaffinity(0, {{{core}}})\nwhile True: pass"],
        )
        for _ in range(2)
    ]
    try:
        with Truth() as truth:
            (tmp_path / "card.yaml").write_text(STARVED.format(port=truth.port))
            pinned = f"import os; os.sched_setaffinity(0, {{{core}}})\nfrom benchcard.runner.cli import main\nmain()"
            command = [
                sys.executable,
                "-c",
                pinned,
                "run",
                str(tmp_path / "card.yaml"),
                "--out",
                str(tmp_path / "runs"),
            ]
            result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert result.returncode == 0, result.stderr
    run = only_run(tmp_path / "runs")
    baseline = json.loads((run / "inference_baseline.json").read_text())
    failed = {row["name"] for row in baseline["validity"] if not row["passed"]}
    assert "client_starved" in failed or "loop_lag_p99" in failed
    assert failed <= {
        "client_starved",
        "loop_lag_p99",
        "certified_load",
        "coalesced_chunks",
        "client_cpu",
        "enough_blocks",
    }
    assert "invalid" in result.stderr
    report = (run / "REPORT.md").read_text()
    assert "client_starved" in report or "loop_lag_p99" in report

"""Cold starts, from the card to the audit, on the embedded engine, whose settings say what is true."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from benchcard.runner.analysis_process import Analysis, installed_revision
from benchcard.runner.bundle import Bundle, write_manifest
from benchcard.runner.plan.plan import make_plan
from benchcard.runner.virtual_run import virtual_run
from benchcard.schema.card import load_card
from benchcard.schema.event import START_COLUMNS

from .cards import LAX, benchcard, only_run
from .test_audit import edit_log, findings

#: the baseline's first step costs 60 times as much; the candidate is ready 0.3 s later. 400 tokens prefill in
#: (20 + 400 · 0.035) / 10 = 3.4 ms at this speedup, so the first TTFT is 204 ms, or 3.4 ms
CARD = f"""\
card: 1
kind: ab
id: cold
decision: {{question: "Compile ahead?", owner: tests, budget: 10 min}}
claim: {{metric: first.ttft, must_fall_by: 10%, at: [40 req/s]}}
system:
  engine: {{kind: simulated, costs: atlas, speedup: 10}}
  launch: {{ready_within: 10 s, restart: each_cell}}
arms:
  baseline:  {{flags: {{misbehave: "cold=1:60"}}}}
  candidate: {{flags: {{misbehave: "CANDIDATE"}}}}
workload:
  test: cold_start
  arrivals: constant
  loads: [40 req/s]
  window: {{measure: 0.5 s, drain: 5 s}}
  requests: {{lengths: {{input: 400, output: 3}}}}
  client: {{timeout_total: 5 s, timeout_idle: 3 s}}
method: {{blocks: 6, seed: 11, spare_blocks: 2, pause_between_cells: 0 s}}
validity: {{schedule_lag_p99: 2 s, client_cpu: 100%, clock_ratio: 20%, {LAX}}}
"""
DELAY_NS = 300_000_000
COLD_PREFILL_NS, WARM_PREFILL_NS = 204_000_000, 3_400_000


def card_file(folder: Path, candidate: str = "slow_start=0.3") -> Path:
    path = folder / "card.yaml"
    path.write_text(CARD.replace("CANDIDATE", candidate))
    return path


@pytest.fixture(scope="module")
def cold_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    folder = tmp_path_factory.mktemp("cold")
    benchcard("run", card_file(folder), "--out", folder / "runs")
    return only_run(folder / "runs")


def verdict(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "verdict.json").read_text())
    return found


def value(found: dict[str, Any], cell: str, metric: str) -> float:
    (row,) = [row for row in found["metrics"] if (row["cell"], row["metric"]) == (cell, metric)]
    return float(row["value"])


def cells(run: Path) -> list[str]:
    return [row["cell"] for row in json.loads((run / "plan.json").read_text())["cells"] if row["block"] <= 6]


def test_the_run_reaches_its_verdict_and_passes_the_audit(cold_run: Path) -> None:
    found = verdict(cold_run)
    assert found["verdict"] == "supported"
    assert found["sentence"].startswith("At a cold start of ")
    report = (cold_run / "REPORT.md").read_text()
    assert "## Cold start" in report
    assert "this says nothing about serving in steady state" in report
    assert "serving" not in report.partition("\n## ")[0]
    assert benchcard("audit", cold_run).stdout.splitlines()[-1] == "nothing failed"


def test_each_cell_has_the_start_of_a_server_of_its_own(cold_run: Path) -> None:
    launches = []
    for cell in cells(cold_run):
        frame = pl.read_parquet(cold_run / "telemetry" / f"start-{cell}.parquet")
        assert frame.columns == [column.name for column in START_COLUMNS]
        (start,) = frame.rows(named=True)
        events = pl.read_parquet(cold_run / "events" / f"{cell}.parquet")
        assert start["cell"] == cell
        assert 0 < start["launched"] <= start["looked"] < start["ready"] <= events["scheduled"].min()
        assert set(events["phase"]) <= {"measure", "drain"}
        launches.append(start["launched"])
    assert len(set(launches)) == len(launches) == 12
    lines = [json.loads(line) for line in (cold_run / "attempts.jsonl").read_text().splitlines()]
    assert sum(line["kind"] == "server_started" for line in lines) == 12
    evidence = json.loads((cold_run / "manifest.json").read_text())["evidence"]
    assert {f"telemetry/start-{cell}.parquet" for cell in cells(cold_run)} <= set(evidence)


def test_what_was_measured_is_what_the_engine_was_told(cold_run: Path) -> None:
    """The engine was not ready before its delay was over, and its own log says when it planned the first token."""
    found = verdict(cold_run)
    epoch = json.loads((cold_run / "attempts.jsonl").read_text().splitlines()[0])["epoch_ns"]
    for cell in cells(cold_run):
        arm = cell.split("-")[1]
        if arm == "candidate":
            assert value(found, cell, "start.ready") >= DELAY_NS / 1e9
        path = cold_run / "logs" / f"{arm}-{cell.split('-')[0]}.engine.jsonl"
        log = {row["request_id"]: row for row in map(json.loads, path.read_text().splitlines())}
        truth = log[f"{cell}-0"]
        prefill = COLD_PREFILL_NS if arm == "baseline" else WARM_PREFILL_NS
        assert truth["token_planned_ns"][0] - truth["arrival_ns"] == prefill
        row = pl.read_parquet(cold_run / "events" / f"{cell}.parquet").sort("scheduled").row(0, named=True)
        assert row["index"] == 0
        # the client sends after the schedule and reads after the engine sent: no less than the truth, and by no more
        # than the engine's log and the client's stamps account for
        late = (truth["arrival_ns"] - epoch - row["scheduled"]) + (
            row["first_token"] + epoch - truth["token_sent_ns"][0]
        )
        slack = truth["token_sent_ns"][0] - truth["token_planned_ns"][0]
        assert value(found, cell, "first.ttft") == pytest.approx((prefill + slack + late) / 1e9, abs=1e-9)
        assert value(found, cell, "first.ttft") >= prefill / 1e9
        waited = value(found, cell, "start.ready") + value(found, cell, "first.ttft")
        assert value(found, cell, "start.first_token") == pytest.approx(waited, abs=1e-9)


def test_in_virtual_time_the_start_is_the_delay(tmp_path: Path) -> None:
    card = load_card(card_file(tmp_path), installed_revision=installed_revision())
    bundle = virtual_run(make_plan(card.resolved, card.digest, 11), tmp_path / "run", card.text)
    Analysis(installed_revision(), "benchcard.analysis", None).run("verdict", str(bundle.root))
    found = verdict(bundle.root)
    assert value(found, "b01-candidate-l1", "start.ready") == 0.3
    assert value(found, "b01-candidate-l1", "first.ttft") == 0.0034
    assert value(found, "b01-candidate-l1", "start.first_token") == 0.3034
    assert value(found, "b01-baseline-l1", "start.ready") == 0.0
    assert value(found, "b01-baseline-l1", "first.ttft") == 0.204
    # alone in the engine, a later request of the second half waits for its own prefill only
    assert value(found, "b01-baseline-l1", "first.slowdown") == 60.0


def start_file(run: Path) -> Path:
    return run / "telemetry" / f"start-{cells(run)[0]}.parquet"


def launched_later(run: Path) -> None:
    """A start that looks 50 ms faster than it was."""
    path = start_file(run)
    pl.read_parquet(path).with_columns(
        pl.col("launched") + 50_000_000, pl.lit(None, pl.Int64).alias("looked")
    ).write_parquet(path)


def ready_too_late(run: Path) -> None:
    path = start_file(run)
    pl.read_parquet(path).with_columns(pl.col("ready") + 10**12).write_parquet(path)


def not_in_the_log(run: Path) -> None:
    """Nothing that the log holds says any more which start it was."""

    def change(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for line in lines:
            line.pop("start_sha256", None)
        return lines

    edit_log(run, change, rechain=True)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (launched_later, {"events", "verdict"}),
        (ready_too_late, {"events", "replacements", "verdict"}),
        (lambda run: start_file(run).unlink(), {"events", "replacements", "verdict"}),
        (not_in_the_log, {"events"}),
    ],
    ids=["a faster start", "ready after the load", "no start", "not in the log"],
)
def test_a_start_that_was_changed_is_named(
    cold_run: Path, tmp_path: Path, change: Callable[[Path], None], expected: set[str]
) -> None:
    run = tmp_path / cold_run.name
    shutil.copytree(cold_run, run)
    change(run)
    write_manifest(Bundle(run))
    assert set(findings(run)) == expected


def test_a_server_that_does_not_start_ends_the_run(tmp_path: Path) -> None:
    path = card_file(tmp_path, candidate="never_ready")
    path.write_text(path.read_text().replace("ready_within: 10 s", "ready_within: 2 s"))
    result = benchcard("run", path, "--out", tmp_path / "runs", code=3)
    assert "candidate: the server was not ready within 2 s" in result.stderr

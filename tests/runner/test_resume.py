"""Killed anywhere, a run keeps what is finished and goes on by the same plan."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from benchcard.schema.digest import digest_file

from .cards import benchcard, engines_of, kill, small_card, start_benchcard, wait_gone


def lines_of(run: Path) -> list[dict]:
    path = run / "attempts.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def wait_for_cell(out: Path, number: int) -> Path:
    """Wait until the run is in its n-th cell, and well within it."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        runs = list(out.glob("*/[!.]*"))
        if runs and sum(line["kind"] == "cell_started" for line in lines_of(runs[0])) >= number:
            time.sleep(0.15)
            return runs[0]
        time.sleep(0.02)
    raise AssertionError("the run did not get to that cell")


def test_kill_9_in_a_cell_then_resume(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    process = start_benchcard("run", small_card(tmp_path, measure="1 s"), "--out", out)
    run = wait_for_cell(out, 4)
    kill(process, signal.SIGKILL)
    assert wait_gone(run) == [], "an engine outlived the run that was killed"
    ended = [line["cell"] for line in lines_of(run) if line["kind"] == "cell_ended"]
    killed = [line["cell"] for line in lines_of(run) if line["kind"] == "cell_started"][-1]
    assert killed not in ended
    assert len(ended) == 3
    before = {cell: digest_file(run / "events" / f"{cell}.parquet") for cell in ended}

    # What is there is readable, and the audit says that it is not whole.
    assert "incomplete" in benchcard("audit", run, code=20).stdout

    benchcard("run", "--resume", run)
    assert {cell: digest_file(run / "events" / f"{cell}.parquet") for cell in ended} == before
    lines = lines_of(run)
    assert [line["cell"] for line in lines if line["kind"] == "cell_killed"] == [killed]
    replaced = [line for line in lines if line["kind"] == "block_replaced"]
    assert [(line["block"], line["by"]) for line in replaced] == [(2, 7)]
    assert killed in replaced[0]["why"]
    plan = json.loads((run / "plan.json").read_text())
    cells = {block["block"]: block["cells"] for block in plan["blocks"]}
    began = [line["cell"] for line in lines if line["kind"] == "cell_started"]
    assert began == [*cells[1], *cells[2], *cells[3], *cells[4], *cells[5], *cells[6], *cells[7]]
    assert not (run / "events" / f"{killed}.parquet").exists()
    # What the client had measured of the killed cell is kept, as evidence that nothing counts.
    (line,) = [line for line in lines if line["kind"] == "cell_killed"]
    kept = run / "events" / f"{killed}.parquet.killed"
    assert (pl.read_parquet(kept).height if kept.exists() else 0) == line["salvaged"]
    assert not list(run.parent.glob(".*"))
    assert benchcard("audit", run).stdout.splitlines()[-1] == "nothing failed"
    used = [b["block"] for b in json.loads((run / "verdict.json").read_text())["blocks"] if b["used"]]
    assert used == [1, 3, 4, 5, 6, 7]
    assert "has ended" in benchcard("run", "--resume", run, code=2).stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_is_resumable_and_leaves_no_server(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "runs"
    process = start_benchcard("run", small_card(tmp_path, measure="1 s"), "--out", out)
    run = wait_for_cell(out, 2)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"benchcard run --resume {run}" in err
    assert "Traceback" not in err
    assert engines_of(run) == []


LOST = """
import os, signal, time
from benchcard.runner.cli.run import _stop_politely

class Slow:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0)

_stop_politely()
Slow()  # what its finalizer raises is dropped
try:
    time.sleep(30)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_within_a_finalizer_is_not_lost() -> None:
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


def test_a_changed_event_file_is_not_resumed(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    process = start_benchcard("run", small_card(tmp_path, measure="1 s"), "--out", out)
    run = wait_for_cell(out, 3)
    kill(process)
    (first, *_) = sorted((run / "events").glob("*.parquet"))
    first.write_bytes(first.read_bytes() + b"x")
    assert first.name in benchcard("run", "--resume", run, code=2).stderr


def test_a_log_line_cut_short_by_a_kill(tmp_path: Path, good_run: Path) -> None:
    from benchcard.runner.attempts import AttemptLog, chain_faults, read_log

    path = tmp_path / "attempts.jsonl"
    whole = (good_run / "attempts.jsonl").read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole[:3]) + whole[3][:20])
    assert len(read_log(path)) == 3
    AttemptLog(path).append("run_resumed", epoch_ns=0, wall_ns=0)
    lines = read_log(path)
    assert len(lines) == 4
    assert chain_faults(lines) == []


def test_a_killed_cell_belongs_to_the_sitting_that_started_it(tmp_path: Path) -> None:
    """Its times count from that sitting's epoch, however often the run was resumed, or its salvage interrupted."""
    from benchcard.runner.attempts import AttemptLog
    from benchcard.runner.measure import Session
    from benchcard.runner.plan.blocks import Cell
    from benchcard.runner.resumption import sitting_of

    log = AttemptLog(tmp_path / "attempts.jsonl")
    session = Session(None, None, 999)  # type: ignore[arg-type]
    for kind, fields in (
        ("run_started", {"epoch_ns": 100}), ("cell_started", {"cell": "a"}), ("run_resumed", {"epoch_ns": 200}),
        ("cell_started", {"cell": "b"}), ("run_resumed", {"epoch_ns": 300}), ("run_resumed", {"epoch_ns": 400}),
    ):  # fmt: skip
        log.append(kind, **fields)
    epochs = [sitting_of(session, log, Cell(name, 1, "baseline", 1, 1.0)).epoch_ns for name in ("a", "b")]
    assert epochs == [100, 200]

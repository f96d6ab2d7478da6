"""Servers that do not start, are not the ones that were started, or die: each ends as the card's reader would
expect."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import polars as pl
import pytest

from .cards import benchcard, engines_of, only_run, small_card


def kinds(run: Path) -> list[str]:
    return [json.loads(line)["kind"] for line in (run / "attempts.jsonl").read_text().splitlines()]


def test_a_server_that_never_gets_ready(tmp_path: Path) -> None:
    card = small_card(tmp_path, candidate=", misbehave: never_ready", ready_within="2 s")
    result = benchcard("run", card, "--out", tmp_path / "runs", code=3)
    run = only_run(tmp_path / "runs")
    assert "candidate: the server was not ready within 2 s" in result.stderr
    assert f"benchcard run --resume {run}" in result.stderr
    assert engines_of(run) == []
    assert kinds(run)[-1] == "run_stopped"
    assert json.loads((run / "verdict.json").read_text())["verdict"] == "invalid"
    assert "incomplete" in (run / "REPORT.md").read_text()
    # The fault is in the system, so it is still there: the run is resumed, and stops again.
    benchcard("run", "--resume", run, code=3)


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        card = small_card(tmp_path, flags=f", port: {port}")
        result = benchcard("run", card, "--out", tmp_path / "runs", code=3)
        run = only_run(tmp_path / "runs")
        assert f"port {port} is in use by another process" in result.stderr
        assert "cell_started" not in kinds(run)
        assert engines_of(run) == []
    # The port is free again: the same run goes on to its end.
    benchcard("run", "--resume", run)
    assert kinds(run)[-1] == "run_ended"
    assert benchcard("audit", run).stdout.splitlines()[-1] == "nothing failed"


def test_a_server_that_dies_in_a_cell(tmp_path: Path) -> None:
    card = small_card(tmp_path, candidate=", misbehave: die_after=6", spares="0")
    benchcard("run", card, "--out", tmp_path / "runs")
    run = only_run(tmp_path / "runs")
    found = kinds(run)
    # Each candidate server dies once, in its cell (or, at the very end of one, just after it).
    assert found.count("server_died") == 6
    assert found.count("cell_ended") == 12
    assert "block_replaced" not in found
    cells = json.loads((run / "plan.json").read_text())["cells"]
    for cell in (c["cell"] for c in cells if c["arm"] == "candidate"):
        events = pl.read_parquet(run / "events" / f"{cell}.parquet").filter(pl.col("phase") == "measure")
        assert set(events["outcome"]) <= {"ok", "truncated", "connect_error"}
        assert "connect_error" in set(events["outcome"])
    verdict = json.loads((run / "verdict.json").read_text())
    assert verdict["verdict"] == "falsified"
    assert benchcard("audit", run).stdout.splitlines()[-1] == "nothing failed"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"candidate": ", no-such-flag: 3"}, "no-such-flag"),
        ({"flags": ", max-model-len: 4096"}, "context limit 4096; the card says 32768"),
    ],
)
def test_a_system_that_is_not_the_cards(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    result = benchcard("run", small_card(tmp_path, **changes), "--out", tmp_path / "runs", code=3)
    assert message in result.stderr
    assert engines_of(only_run(tmp_path / "runs")) == []


@pytest.mark.parametrize("restart", ["each_cell", "never"])
def test_restart_policies(tmp_path: Path, restart: str) -> None:
    card = small_card(tmp_path, restart=restart, loads="20 req/s, 40 req/s", measure="0.2 s")
    benchcard("run", card, "--out", tmp_path / "runs")
    run = only_run(tmp_path / "runs")
    assert kinds(run).count("server_started") == {"each_cell": 24, "never": 2}[restart]
    plan = json.loads((run / "plan.json").read_text())
    for block in plan["blocks"]:
        # Loads in the block's order, at each both arms back to back.
        points = [cell.rsplit("-l", 1)[1] for cell in block["cells"]]
        assert points == [str(point) for point in block["loads"] for _ in range(2)]
    assert benchcard("audit", run).stdout.splitlines()[-1] == "nothing failed"

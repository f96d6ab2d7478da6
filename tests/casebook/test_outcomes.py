"""Casebook 25-28, 54, 58: failures stay, and are told apart."""

from __future__ import annotations

import json
from pathlib import Path

from ..runner.cards import benchcard, only_run
from ..runner.client.drive import drive
from ..runner.client.scripted import DONE, END, FIN, HEAD, Script, ScriptedServer, chunked, content, stream, usage
from .replay import attempt, metrics, ms, rows


def test_25_all_fail(tmp_path: Path) -> None:
    """A closed port: every attempt is a failure, metrics are null with the reason, and a report is written."""
    from benchcard.runner.engines.process import free_port

    rows_, _ = drive(free_port(), tmp_path, [float(i) for i in range(20)])
    assert [row["outcome"] for row in rows_] == ["connect_error"] * 20


def test_27_a_timeout_does_not_drop_slow_requests() -> None:
    fast = stream((400, content("a") + FIN + usage(1) + DONE))
    frame = rows(*[attempt(fast, i) for i in range(5)], *[attempt([], i, "timeout_total") for i in range(5, 16)])
    found = metrics(frame)
    assert found["ttft.p50"].n == 5
    assert (found["ttft.p50"].undefined or {})["timeout_total"] == 11
    assert found["error_rate"].value == 11 / 16


def test_28_one_stalled_stream_holds_nobody(tmp_path: Path) -> None:
    ok = stream((0, content("a") + FIN + usage(1) + DONE))
    stall: Script = [(0, HEAD + chunked(content("a"))), (3000, END)]
    with ScriptedServer(lambda n: stall if n == 1 else ok) as server:
        found, _ = drive(server.port, tmp_path, [0, 50, 100], timeouts_ms=(1000, 500, 9000))
    assert [row["outcome"] for row in found] == ["ok", "timeout_idle", "ok"]


def test_54_an_objective_is_met_or_missed_by_each_attempt() -> None:
    def at(t: float) -> Script:
        return stream((t, content("a") + FIN + usage(1) + DONE))

    frame = rows(attempt(at(100), 0), attempt(at(200), 1), attempt(at(201), 2), attempt([], 3, "timeout_idle"))
    found = metrics(frame, {"success": True, "ttft": {"at_most": 0.2}})
    assert found["attainment"].value == 2 / 4


def test_58_failures_beside_every_latency() -> None:
    ok = stream((100, content("a") + FIN + usage(1) + DONE))
    busy: Script = [(5, b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n")]
    frame = rows(*[attempt(ok, i) for i in range(8)], *[attempt(busy, i) for i in (8, 9)])
    found = metrics(frame)
    assert frame.height == 10
    assert (ms(found["ttft.p50"]), found["ttft.p50"].n) == (100, 8)
    assert (found["ttft.p50"].undefined or {})["http_error"] == 2
    assert found["error_rate"].value == 0.2


def test_25_a_run_in_which_nothing_answers_right(tmp_path: Path) -> None:
    """Every reply is an HTTP 500: the run ends, with a report, and its verdict rests on no latency."""
    from ..runner.cards import small_card

    card = small_card(
        tmp_path, baseline=", misbehave: error_every=1", candidate=", misbehave: error_every=1", measure="0.2 s"
    )
    # Virtual time shows that nothing could be answered here; the card runs all the same, and says why.
    card.write_text(card.read_text() + 'power: {expect: 20%, override: "it is the failures that are looked at"}\n')
    benchcard("run", card, "--out", tmp_path / "runs")
    run = only_run(tmp_path / "runs")
    verdict = json.loads((run / "verdict.json").read_text())
    assert verdict["verdict"] != "supported"
    rows_ = [row for row in verdict["summary"] if row["metric"] == "ttft.p50"]
    assert all(row["mean"] is None and row["reason"] for row in rows_)
    assert (run / "report.html").exists()

"""The client's watch over itself: lateness, starvation, a stepped clock, and what it does without."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from benchcard.analysis.checks import CHECKS
from benchcard.analysis.read import Cell
from benchcard.analysis.view import CellView
from benchcard.runner.client import clock
from benchcard.runner.client.cell import CellLoad, _merged
from benchcard.runner.client.watch import TICK_NS, run_delay_ns
from benchcard.runner.client.worker import WorkerLoad
from benchcard.runner.telemetry.record import client_frame

from ...analysis.bundles import CERTIFICATE, ab_card
from .drive import drive
from .scripted import DONE, FIN, Script, ScriptedServer, content, stream, usage

OK = stream((0, content("a") + FIN + usage(1) + DONE))


def checks(load: CellLoad) -> dict[str, float | None]:
    """What the analysis's checks see in the client's view of itself."""
    client = client_frame("c", 0, load, None, 1).row(0, named=True)
    none = pl.DataFrame(
        schema={"chunk_times": pl.List(pl.Int64), "queued": pl.Int64, "index": pl.Int64, "phase": pl.String}
    )
    view = CellView(ab_card(), Cell("c", 1, "baseline", 1, 1.0), none, none, none, client, None, CERTIFICATE)
    watched = {"client_cpu", "client_starved", "loop_lag_p99", "clock_ratio"}
    return {check.name: check.observe(view)[0] for check in CHECKS if check.name in watched}


def test_a_step_of_the_wall_clock_changes_no_duration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wall clock steps back by 5 s while the load runs: times are monotonic, and the clock check reports it."""
    real = time.time_ns
    with ScriptedServer(lambda n: OK) as server:

        def stepped() -> int:
            return real() - (5_000_000_000 if len(server.arrivals) > 10 else 0)

        monkeypatch.setattr(clock.time, "time_ns", stepped)
        rows, load = drive(server.port, tmp_path, [20.0 * i for i in range(30)])
    assert [row["scheduled"] - load.load_start for row in rows] == [20_000_000 * i for i in range(30)]
    assert all(row["scheduled"] <= row["sent"] <= row["first_token"] <= row["end"] for row in rows)
    for row, arrival in zip(rows, server.arrivals, strict=True):
        assert 0 <= row["first_token"] - row["sent"] < 5_000_000_000
        assert row["scheduled"] <= arrival <= row["end"]
    elapsed, wall = load.load_end - load.load_start, load.wall_end - load.wall_start
    assert wall - elapsed == pytest.approx(-5e9, abs=1e7)
    assert checks(load)["clock_ratio"] == pytest.approx(abs(wall / elapsed - 1))
    assert checks(load)["clock_ratio"] > 1  # the card's limit is 0.1%


def test_a_client_that_stood_still_was_late_all_the_while(tmp_path: Path) -> None:
    """Stopped for 0.4 s of 1.5 s (SIGSTOP: no CPU, no wait for a core): every tick of that time was late."""
    script = (
        "import sys\nfrom pathlib import Path\nfrom tests.runner.client.drive import drive\n"
        "_, load = drive(int(sys.argv[1]), Path(sys.argv[2]), [20.0 * i for i in range(75)])\n"
        "print(len(load.loop_lags), load.loop_lags[-1 - len(load.loop_lags) // 100])\n"
    )
    with ScriptedServer(lambda n: OK) as server:
        command = [sys.executable, "-c", script, str(server.port), str(tmp_path)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3])
        while len(server.requests) < 20:
            time.sleep(0.01)
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.4)
        process.send_signal(signal.SIGCONT)
        output, _ = process.communicate(timeout=60)
    ticks, p99 = map(int, output.split())
    assert 140 <= ticks <= 150
    assert p99 >= 300_000_000


def test_the_latest_worker_speaks_for_all() -> None:
    """A worker with nothing to do is on time; it does not thin out the lateness of one that was late."""
    idle = WorkerLoad(10, 0, 0, 9, 1, 0, [1000] * 1000, 0, 0, False, "uvloop", "timerfd")
    late = replace(idle, loop_lags=[50_000_000] * 5 + [1000] * 100)
    merged = _merged(0, 0, [idle, late])
    assert list(merged.loop_lags) == sorted(late.loop_lags)


def test_a_progress_that_nobody_reads_does_not_hold_the_load(tmp_path: Path) -> None:
    """Whoever is told of the progress stands still: the load goes on."""
    released = threading.Event()
    times: list[int] = []

    def stand_still(ended: int, failed: int) -> None:
        times.append(ended)
        released.wait(1.0)

    with ScriptedServer(lambda n: OK) as server:
        _, load = drive(server.port, tmp_path, [20.0 * i for i in range(150)], progress=stand_still)
    released.set()
    assert times
    assert len(server.requests) == 150
    assert load.loop_lags[-1 - len(load.loop_lags) // 100] < 500_000_000


def test_what_is_watched(tmp_path: Path) -> None:
    with ScriptedServer(lambda n: OK) as server:
        _, load = drive(server.port, tmp_path, [20.0 * i for i in range(50)])
    assert load.cpu > 0
    assert load.run_delay is None or load.run_delay >= 0
    assert list(load.loop_lags) == sorted(load.loop_lags)
    assert load.loop_lags[0] >= 0
    # 49 × 20 ms between the first and the last counted start: a tick each 10 ms, of which a late one may miss some
    assert 20 <= len(load.loop_lags) <= 99
    assert load.reads >= 50
    assert (load.loop, load.timer, load.workers) == ("uvloop", "timerfd", 1)


def test_a_loop_that_is_held_up_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something that keeps the event loop for 80 ms: a tick was late by most of that, and it is one late tick."""
    from benchcard.runner.client import spool

    real = spool._record
    held: list[int] = []

    def slow(attempt):  # type: ignore[no-untyped-def]
        if attempt.index == 20:
            held.append(time.monotonic_ns())
            time.sleep(0.08)
        return real(attempt)

    monkeypatch.setattr(spool, "_record", slow)
    with ScriptedServer(lambda n: OK) as server:
        _, load = drive(server.port, tmp_path, [20.0 * i for i in range(40)])
    assert held
    assert load.loop_lags[-1] >= 80_000_000 - TICK_NS
    seen = checks(load)["loop_lag_p99"]
    assert seen is not None
    assert seen >= 0.07


@pytest.mark.parametrize(
    ("options", "loop", "timer"),
    [
        ({"uvloop": False}, "asyncio", "timerfd"),
        ({"timerfd": False}, "uvloop", "event loop"),
        ({"uvloop": False, "timerfd": False}, "asyncio", "event loop"),
    ],
)
def test_what_is_missing_is_done_without(tmp_path: Path, options: dict, loop: str, timer: str) -> None:
    """No uvloop, no timerfd: every request goes out all the same, none before its time, and the view says so."""
    script: Script = stream((5, content("a")), (15, content("b") + FIN + usage(2) + DONE))
    with ScriptedServer(lambda n: script) as server:
        rows, load = drive(server.port, tmp_path, [7.3 * i for i in range(60)], **options)
    assert (load.loop, load.timer) == (loop, timer)
    assert len(server.requests) == 60
    assert {row["outcome"] for row in rows} == {"ok"}
    assert all(row["scheduled"] <= row["queued"] <= row["sent"] for row in rows)


def test_no_schedstat_is_unknown_and_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchcard.runner.client import watch

    monkeypatch.setattr(watch, "_SCHEDSTAT", tmp_path / "none")
    assert run_delay_ns() is None
    with ScriptedServer(lambda n: OK) as server:
        _, load = drive(server.port, tmp_path, [0, 20])
    assert load.run_delay is None
    assert client_frame("c", 0, replace(load), None, 1)["run_delay"].to_list() == [None]

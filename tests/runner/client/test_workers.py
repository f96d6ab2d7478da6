"""Several worker processes: one schedule, every request once, one end."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from benchcard.runner.client.sizing import Demand, demand, workers_of
from benchcard.runner.client.workers import WorkerDiedError

from .drive import drive
from .scripted import DONE, FIN, Script, ScriptedServer, content, stream, usage

OK = stream((0, content("a") + FIN + usage(1) + DONE))


def slow(ms: float) -> Script:
    return stream((ms, content("a") + FIN + usage(1) + DONE))


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_an_open_loop_is_shared_out_by_index(tmp_path: Path, workers: int) -> None:
    offsets = [4.0 * i for i in range(100)]
    with ScriptedServer(lambda n: OK) as server:
        rows, load = drive(server.port, tmp_path, offsets, workers=workers)
    assert len(server.requests) == 100
    assert [row["index"] for row in rows] == list(range(100))
    assert [row["scheduled"] - load.load_start for row in rows] == [round(at * 1e6) for at in offsets]
    assert [row["worker"] for row in rows] == [i % workers for i in range(100)]
    assert {row["outcome"] for row in rows} == {"ok"}
    assert load.workers == workers


@pytest.mark.parametrize("window", [{"requests": 12}, {"seconds": 0.5}])
@pytest.mark.parametrize("workers", [2, 4])
def test_a_closed_loop_counts_over_all_workers(tmp_path: Path, workers: int, window: dict) -> None:
    """Three clients (fewer than four workers) of 20 ms turns: 6 turns of warm-up, then the window, in the order in
    which turns were taken by whichever worker."""
    spec = {"warmup": {"requests": 6}, "measure": window, "drain": 1.0}
    with ScriptedServer(lambda n: slow(20)) as server:
        rows, load = drive(server.port, tmp_path, concurrency=3, requests=300, window=spec, workers=workers)
    taken = sorted(rows, key=lambda row: row["queued"])
    phases = [row["phase"] for row in taken]
    if "requests" in window:
        assert phases == sorted(phases, key=["warmup", "measure", "drain"].index)
        assert phases.count("warmup") == 6
    counted = [row for row in taken if row["phase"] == "measure"]
    assert load.window_start is not None
    assert load.window_end is not None
    if "requests" in window:
        assert len(counted) == 12
        # The bounds are the scheduled times of the first counted and the first uncounted turn. (Turns of two workers
        # may be taken in another order than they are scheduled in, by as long as a worker is late.)
        assert load.window_start == counted[0]["scheduled"]
        uncounted = [row["scheduled"] for row in taken if row["phase"] == "drain"]
        assert not uncounted or load.window_end == uncounted[0]
    else:
        assert all(load.window_start <= row["scheduled"] < load.window_end for row in counted)
        assert load.window_end - load.window_start == 500_000_000
    for client in range(3):
        mine = [row for row in rows if row["index"] % 3 == client]
        assert {row["worker"] for row in mine} == {client % workers}
        assert all(b["scheduled"] == a["end"] for a, b in pairwise(mine))


def test_the_load_stays_up_until_the_last_workers_last_counted_attempt(tmp_path: Path) -> None:
    """Worker 1 has the slow one: worker 0 goes on sending uncounted requests meanwhile."""
    window = {"warmup": {"requests": 0}, "measure": {"requests": 2}, "drain": 2.0}
    with ScriptedServer(lambda n: slow(600) if n == 1 else OK) as server:
        rows, _ = drive(server.port, tmp_path, [0, 60, *[100.0 + 50 * i for i in range(40)]], window=window, workers=2)
    counted = [row for row in rows if row["phase"] == "measure"]
    assert [row["outcome"] for row in counted] == ["ok", "ok"]
    last = max(row["end"] for row in counted)
    drain = [row for row in rows if row["phase"] == "drain"]
    assert {row["worker"] for row in drain} == {0, 1}
    assert last - max(row["scheduled"] for row in drain) < 200_000_000


def test_one_worker_that_runs_out_stops_all(tmp_path: Path) -> None:
    window = {"warmup": {"requests": 0}, "measure": {"requests": 50}, "drain": 1.0}
    with ScriptedServer(lambda n: OK) as server:
        _, load = drive(server.port, tmp_path, concurrency=2, requests=8, window=window, workers=2)
    assert load.plan_exhausted


def workers_of_this_process() -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == os.getpid() and b"client.workers" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except (OSError, IndexError):
            continue
    return found


def test_a_worker_that_dies_is_no_finished_cell(tmp_path: Path) -> None:
    def kill_one() -> None:
        deadline = time.monotonic() + 20
        while len(found := workers_of_this_process()) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.5)
        os.kill(found[0], signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    with (
        ScriptedServer(lambda n: OK) as server,
        pytest.raises(WorkerDiedError, match="ended before its share was done"),
    ):
        drive(server.port, tmp_path, [200.0 * i for i in range(60)], workers=2)
    killer.join()
    assert workers_of_this_process() == []


def test_a_worker_that_cannot_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchcard.runner.client import workers

    real = workers._spawn

    def broken(worker: int) -> object:
        process = real(worker)
        if worker == 1:
            process.kill()
            process.wait()
        return process

    monkeypatch.setattr(workers, "_spawn", broken)
    with ScriptedServer(lambda n: OK) as server, pytest.raises(WorkerDiedError, match="ended before"):
        drive(server.port, tmp_path, [0, 10], workers=2)
    assert workers_of_this_process() == []


def card(loads: list[float], kind: str = "rate", **client: object) -> dict:
    lengths = {"output": {"median": 200.0, "sigma": 0.0}}
    return {
        "workload": {
            "loads": loads,
            "load_kind": kind,
            "arrivals": {"process": "poisson"},
            "requests": {"lengths": lengths},
            "client": {"workers": "auto", "in_flight": None, "timeout_total": 60.0} | client,
        }
    }


def test_how_many_workers() -> None:
    """One for each 50,000 tokens/s, 1,000 req/s or 512 streams; at most half of the cores; the card's own number."""
    assert demand(card([8.0, 100.0])) == Demand(20_000.0, 100.0, 6000)
    assert demand(card([8.0, 1024.0], "concurrency")) == Demand(None, None, 1024)
    assert Demand(1.0, 100.0, 1).busiest_second() == 150
    assert Demand(1.0, 50.0, 1, peak=2.0).busiest_second() == 150
    assert Demand(1.0, 100.0, 1, clumping=4.0).busiest_second() == 200
    for arrivals, irregular in (
        ({"process": "gamma", "burstiness": 0.5}, (1.0, 2.0)),
        ({"process": "gamma", "burstiness": "infinite"}, (1.0, 0.0)),
        ({"process": "bursts", "size": 16}, (1.0, 16)),
        ({"process": "profile", "levels": [0.5, 1.5], "period": 60.0}, (1.5, 1.0)),
    ):
        found = demand({"workload": card([8.0])["workload"] | {"arrivals": arrivals}})
        assert (found.peak, found.clumping) == irregular
    assert workers_of(card([100.0]), cores=16) == 1
    assert workers_of(card([1000.0]), cores=16) == 4  # 200,000 tokens/s
    assert workers_of(card([1000.0]), cores=4) == 2
    assert workers_of(card([1000.0]), cores=2) == 1
    assert workers_of(card([1000.0], workers=3), cores=2) == 3
    assert workers_of(card([1000.0], in_flight=64), cores=16) == 1
    assert workers_of(card([2000.0], "concurrency"), cores=16) == 4


def test_a_job_names_no_key_in_a_file(tmp_path: Path) -> None:
    """Workers get their job through a pipe: what lies in the folder meanwhile holds no header of the target."""
    from benchcard.runner.client.wire import Target

    seen: list[str] = []

    def look(n: int) -> Script:
        for path in tmp_path.rglob("*"):
            if b"canary" in path.read_bytes():
                seen.append(path.name)
        return OK

    with ScriptedServer(look) as server:
        target = Target("127.0.0.1", server.port, False, "/v1", {"Authorization": "Bearer canary"})
        rows, _ = drive(server.port, tmp_path, [0, 10, 20, 30], workers=2, target=target)
    assert Counter(row["outcome"] for row in rows) == {"ok": 4}
    assert seen == []
    assert "canary" not in repr(target)
    assert "canary" not in json.dumps(rows)

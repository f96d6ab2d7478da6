"""Casebook 31, 32, 35, 38, 42, 43, 59: the load that was asked for is the load that was given."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from benchcard.runner.plan.prompts import Prompts
from benchcard.runner.plan.requests import plan_requests
from scipy import stats

from ..runner.client.drive import drive
from ..runner.client.scripted import DONE, FIN, ScriptedServer, content, stream, usage

WORKLOAD = {
    "arrivals": {"process": "poisson"},
    "load_kind": "rate",
    "loads": [50.0],
    "window": {"warmup": {"seconds": 0.0}, "measure": {"seconds": 60.0}, "drain": 0.0},
    "requests": {
        "lengths": {"input": {"median": 8, "sigma": 0.0}, "output": {"median": 4, "sigma": 0.0}, "correlation": 0.0},
        "prefix": None,
    },
}


def test_31_the_schedule_is_absolute(tmp_path: Path) -> None:
    """Sleeps do not add up: every request keeps its own scheduled time, whatever delay the ones before had."""
    reply = stream((0, content("a") + FIN + usage(1) + DONE))
    with ScriptedServer(lambda n: reply) as server:
        rows, load = drive(server.port, tmp_path, [5.0 * i for i in range(200)])
    assert [row["scheduled"] - load.load_start for row in rows] == [5_000_000 * i for i in range(200)]
    assert all(row["scheduled"] <= row["queued"] <= row["sent"] for row in rows)
    assert len(server.requests) == 200


@pytest.mark.parametrize("n", [150, 1100])
def test_38_no_silent_limit_on_connections(tmp_path: Path, n: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    slow = stream((4000, content("a") + FIN + usage(1) + DONE))
    with ScriptedServer(lambda i: slow) as server:
        rows, load = drive(server.port, tmp_path, [0.0] * n, timeouts_ms=(20000, 20000, 30000))
        assert max(server.arrivals) < min(times[0] for times in server.sent.values())
    assert [row["outcome"] for row in rows] == ["ok"] * n
    assert load.peak_in_flight == n


def test_42_no_prompt_comes_twice() -> None:
    seen: set[str] = set()
    for block in range(1, 4):
        requests = plan_requests({"workload": WORKLOAD}, 1, block, 1)
        digests = {Prompts({"workload": WORKLOAD}, 1).digest((block, 1), request) for request in requests}
        assert len(digests) == len(requests)
        assert not digests & seen
        seen |= digests


def test_59_arrivals_are_poisson() -> None:
    """Gaps exponential and uncorrelated, counts with variance / mean of 1 (99% bands)."""
    offsets = np.array([r.offset_ns for r in plan_requests({"workload": WORKLOAD}, 4, 1, 1)]) / 1e9
    gaps = np.array([b - a for a, b in pairwise(offsets)])
    assert stats.kstest(gaps, "expon", args=(0, 1 / 50)).pvalue > 0.01
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 2.58 / np.sqrt(len(gaps))
    counts = np.bincount((offsets / 2).astype(int), minlength=30)[:30]
    low, high = stats.chi2.ppf([0.005, 0.995], 29) / 29
    assert low < counts.var(ddof=1) / counts.mean() < high


def test_32_waiting_for_a_slot_is_in_the_latency(tmp_path: Path) -> None:
    """8 arrivals at a constant 10/s, one slot, service 500 ms: request k waits .4 k s (mean 1.4, most 2.8), so E2E is
    1.9 s from the schedule and .5 s from the sending. A machine can only add to that; how much, the server's log
    says."""
    slow = stream((500, content("a") + FIN + usage(1) + DONE))
    with ScriptedServer(lambda n: slow) as server:
        rows, _ = drive(server.port, tmp_path, [100.0 * k for k in range(8)], in_flight=1)
    replied = [times[0] for _, times in sorted(server.sent.items())]
    for k, row in enumerate(rows):
        assert row["queued"] - row["scheduled"] < 100_000_000  # the client itself was on time
        assert row["sent"] - row["scheduled"] >= 400_000_000 * k
        assert (replied[k - 1] if k else row["scheduled"]) <= row["sent"] <= server.arrivals[k]
        assert row["last_token"] >= replied[k]
    waits = [row["sent"] - row["scheduled"] for row in rows]
    ends = [row["last_token"] - row["scheduled"] for row in rows]
    assert np.mean(waits) >= 1.4e9
    assert max(waits) >= 2.8e9
    assert np.mean(ends) >= 1.9e9
    assert np.mean(waits) <= np.mean(server.arrivals) - np.mean([row["scheduled"] for row in rows])


def test_43_the_warm_up_keeps_the_cap_and_the_schedule_says_what_counts(tmp_path: Path) -> None:
    """Two slots from the first request on. A request counts by when it was scheduled: the ones that were scheduled in
    the warm-up (100 ms) and ran, or even began, inside the window do not; those that were scheduled inside and ended
    after it do."""
    slow = stream((60, content("a") + FIN + usage(1) + DONE))
    window = {"warmup": {"seconds": 0.1}, "measure": {"seconds": 0.2}, "drain": 1.0}
    with ScriptedServer(lambda n: slow) as server:
        rows, load = drive(server.port, tmp_path, [20.0 * k for k in range(20)], in_flight=2, window=window)
    assert load.peak_in_flight == 2
    sent = [(at, 1) for at in server.arrivals] + [(times[0], -1) for times in server.sent.values()]
    assert max(np.cumsum([step for _, step in sorted(sent)])) <= 2
    due = [(row["scheduled"] - load.load_start) / 1e6 for row in rows]
    assert [row["phase"] for row in rows] == [
        "warmup" if at < 100 else "measure" if at < 300 else "drain" for at in due
    ]
    assert load.window_start is not None
    assert load.window_end is not None
    assert any(row["phase"] == "warmup" and row["sent"] >= load.window_start for row in rows)
    late = [row for row in rows if row["phase"] == "measure" and row["end"] >= load.window_end]
    assert late
    assert {row["outcome"] for row in late} == {"ok"}


@pytest.mark.parametrize(("burstiness", "cv"), [(0.5, 2**0.5), (1.0, 1.0), ("infinite", 0.0)])
def test_35_burstiness_at_its_edges(burstiness: float | str, cv: float) -> None:
    """The gaps' coefficient of variation is 1/sqrt(burstiness); the mean gap stays 1/rate; 0 is refused (below)."""
    workload = WORKLOAD | {"arrivals": {"process": "gamma", "burstiness": burstiness}}
    workload = workload | {"window": {"warmup": {"seconds": 0.0}, "measure": {"requests": 20000}, "drain": 0.0}}
    planned = plan_requests({"workload": workload}, 4, 1, 1)
    gaps = np.diff([request.offset_ns for request in planned if request.offset_ns is not None]) / 1e9
    # The standard error of a mean of 20,000 gaps, and (by simulation of 2,000 such samples) of their CV: below 0.02.
    assert abs(gaps.mean() * 50 - 1) <= 4 * cv / np.sqrt(len(gaps)) + 1e-9
    assert gaps.std() / gaps.mean() == pytest.approx(cv, abs=0.05)


def test_35_a_burstiness_of_0_is_refused(tmp_path: Path) -> None:
    from benchcard.schema.card import load_card
    from benchcard.schema.errors import CardError

    from ..runner.cards import small_card

    card = small_card(tmp_path)
    card.write_text(card.read_text().replace("arrivals: poisson", "arrivals: {process: gamma, burstiness: 0}"))
    with pytest.raises(CardError, match=r"workload\.arrivals\.burstiness: found 0; wanted more than 0"):
        load_card(card)

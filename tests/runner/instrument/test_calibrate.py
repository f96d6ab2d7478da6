"""The certificate: facts that are true of the load that was run, and limits that follow from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchcard.analysis import instrument as analysis
from benchcard.runner.client.sizing import Demand
from benchcard.runner.instrument import calibrate as module
from benchcard.runner.instrument.calibrate import calibrate, rate_load, run_grid, streams_load, whole_grid
from benchcard.runner.instrument.certificate import held, limits, short_of
from benchcard.runner.instrument.point import Client, Load, measure_point
from benchcard.runner.instrument.truth import Truth

from ..cards import benchcard


def point(**changes: Any) -> dict[str, Any]:
    return {
        "rate": None, "streams": 64, "tokens": 40, "lost": 0, "ttft_p50_error": 0.0003,
        "ttft_p99_error": 0.0005, "itl_p99_error": 0.0002, "peak_in_flight": 64, "tokens_per_s": 25_000.0,
        "requests_per_s": 600.0,
    } | changes  # fmt: skip


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    "load", [Load(10, 2.0, 40, streams=8), Load(4, 2.0, 60, rate=200.0)], ids=["closed loop", "open loop"]
)
def test_a_point_is_what_was_run(load: Load, workers: int) -> None:
    with Truth() as truth:
        found = measure_point(truth, load, Client(workers))
        log = truth.log()
    assert found["requests"] == load.count
    assert found["lost"] == 0
    assert len(log) >= load.count
    # A client reads after the server has sent; its median first token is no earlier than the truth's.
    assert found["delay_p50"] > 0
    assert found["ttft_p50_error"] > 0
    assert found["lag_p50"] >= 0
    assert found["tokens_per_s"] >= load.count * load.tokens / 2 / max(found["seconds"], 1.0)
    assert found["peak_in_flight"] <= (8 if load.streams else load.count + 20)
    if load.streams:
        assert found["peak_in_flight"] >= 8


def test_replies_of_one_token_have_no_gap() -> None:
    with Truth() as truth:
        found = measure_point(truth, Load(1, 2.0, 20, rate=200.0, spread=0.0), Client())
    assert found["itl_p50_error"] is None
    assert found["itl_p99_error"] is None
    assert found["ttft_p50_error"] is not None


def test_what_holds() -> None:
    assert held(point(), 0.001)
    assert not held(point(lost=1), 0.001)
    assert not held(point(ttft_p50_error=-0.0011), 0.001)
    assert not held(point(ttft_p99_error=0.0011), 0.001)
    assert not held(point(itl_p99_error=0.0011), 0.001)
    assert not held(point(ttft_p50_error=None), 0.001)
    assert held(point(itl_p99_error=0.5, tokens=1), 0.001)
    assert held(point(ttft_p50_error=0.0011), 0.002)


def test_the_limits() -> None:
    points = [
        point(),
        point(peak_in_flight=256, tokens_per_s=50_000.0),
        point(peak_in_flight=1024, tokens_per_s=99_000.0, ttft_p50_error=0.05),
        point(rate=500.0, peak_in_flight=12, tokens_per_s=2500.0, requests_per_s=505.0),
    ]
    assert limits(points, 0.001) == {"streams": 256, "tokens_per_s": 50_000.0, "requests_per_s": 600.0}
    assert limits(points[2:3], 0.001) == {"streams": None, "tokens_per_s": None, "requests_per_s": None}


def test_runner_and_analysis_agree_on_what_holds() -> None:
    for changes in (
        {},
        {"lost": 1},
        {"ttft_p50_error": 0.002},
        {"ttft_p99_error": 0.02},
        {"itl_p99_error": -0.002},
        {"tokens": 1},
    ):
        for error in (0.0001, 0.001, 0.01):
            assert held(point(**changes), error) == analysis.held(point(**changes), error)


def test_the_grids() -> None:
    """A stream is no faster than 2 ms a token; a run is tried at what its card can ask for, or more."""
    load = streams_load(256, 50_000)
    assert (load.streams, load.itl_ms, load.tokens, load.count) == (256, 5.12, 78, 512)
    assert streams_load(64, 100_000).itl_ms == 2.0
    kinds = {(load.streams, load.itl_ms, load.rate, load.lockstep) for load in whole_grid(False)}
    assert len(kinds) == len(whole_grid(False))
    *closed, arrivals = run_grid(Demand(40_000.0, 200.0, 800))
    assert [(load.streams, round((load.streams or 0) / load.itl_ms * 1e3)) for load in closed] == [
        (64, 32_000), (256, 64_971), (800, 64_971),
    ]  # fmt: skip
    # 40,000 tokens/s x 1.2, and in the busiest second five standard deviations of 200 arrivals more: (200 + 70.7) / 200
    assert all(load.lockstep for load in closed)
    assert round(arrivals.rate or 0, 1) == 324.9
    grid = run_grid(Demand(None, None, 128))
    assert [(load.streams, load.itl_ms) for load in grid[:-1]] == [(128, 5.12), (128, 2.56), (128, 2.0)]
    assert grid[-1].rate == 1000
    assert run_grid(Demand(1.0, 1.0, 10**6))[-2].streams == module.MOST_STREAMS
    assert [load.streams for load in run_grid(Demand(1.0, 1.0, 8))] == [64, None]


def test_what_a_card_asks_for_beyond_what_held() -> None:
    points = [point(), point(rate=500.0, requests_per_s=505.0)]
    assert short_of(points, 0.001, Demand(25_000.0, 505.0, 4096)) is None
    assert short_of(points, 0.001, Demand(30_000.0, 700.0, 4096)) == (
        "30,000 tokens/s, and the client was right to 1 ms up to 25,000; "
        "700 req/s, and the client was right to 1 ms up to 600"
    )
    assert short_of([point(lost=1)], 0.001, Demand(1.0, 1.0, 8)) == (
        "1 tokens/s, and the client was right to 1 ms at none that was tried; "
        "1 req/s, and the client was right to 1 ms at none that was tried"
    )
    assert short_of(points, 0.001, Demand(None, None, 65)) == (
        "65 streams at once, and the client was right to 1 ms up to 64"
    )


def test_without_uvloop_and_timerfd_it_says_what_that_costs() -> None:
    found = calibrate([rate_load(100.0, 0.3)], Client(uvloop=False, timerfd=False))
    assert (found["client"]["loop"], found["client"]["timer"]) == ("asyncio", "event loop")
    assert [cost.split(":")[0] for cost in found["client"]["costs"]] == ["no uvloop", "no timerfd"]
    (only,) = found["points"]
    assert only["lost"] == 0


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "certificate.json"
    result = benchcard("calibrate", "--quick", "--json", "--out", path)
    document = json.loads(result.stdout)
    assert document == json.loads(path.read_text())
    assert document["certificate_version"] == 1
    assert document["client"]["costs"] == []
    assert document["limits"] == {"error": 0.001, **limits(document["points"], 0.001)}
    assert [p["rate"] for p in document["points"] if p["rate"]] == [100.0, 1000.0]
    assert all(p["lost"] == 0 for p in document["points"])
    assert result.stderr.splitlines()[0].startswith("[1/")

"""The grid: at which loads the client is measured, for a machine's certificate or for a run's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from ..client.sizing import Demand
from .certificate import certificate, held
from .point import Client, Load, measure_point
from .truth import Truth

#: streams of the whole grid, and token rates (tokens/s over all streams) at each
STREAMS = (1, 16, 64, 256, 1024, 4096)
TOKENS_PER_S = (25_000, 50_000, 100_000)
#: arrivals of the whole grid, req/s
RATES = (100.0, 500.0, 1000.0, 2000.0, 4000.0)
#: fastest stream, ms a token; length of a round of streams, s; tokens of an open loop's replies
FASTEST_ITL_MS = 2.0
ROUND_S = 0.4
OPEN_LOOP_TOKENS = 5
#: how often a point that was off is tried
TRIES = 3
#: in a run: no fewer streams, tokens/s and req/s than these are tried, and no more streams, since each takes a file
#: descriptor on either side
LEAST_STREAMS, LEAST_TOKENS_PER_S, LEAST_RATE = 64, 10_000.0, 100.0
#: req/s that are tried for a closed loop, whose rate is the server's to decide
CLOSED_RATE = 1000.0
MOST_STREAMS = 4096

Say = Callable[[str, int, int], None]


def streams_load(streams: int, tokens_per_s: float, rounds: int = 2) -> Load:
    """A closed loop of so many streams that together ask for so many tokens/s."""
    itl_ms = max(FASTEST_ITL_MS, streams / tokens_per_s * 1e3)
    tokens = max(4, round(ROUND_S * 1e3 / itl_ms))
    # Enough replies for percentiles, even of one stream.
    return Load(tokens, itl_ms, max(streams * rounds, 4), streams=streams)


def rate_load(rate: float, seconds: float = 1.0) -> Load:
    """An open loop of so many short requests a second."""
    return Load(OPEN_LOOP_TOKENS, FASTEST_ITL_MS, max(100, round(rate * seconds)), rate=rate)


def whole_grid(quick: bool) -> list[Load]:
    """Every point of `benchcard calibrate`; `quick` leaves most out."""
    streams = (1, 64, 256) if quick else STREAMS
    rates = (100.0, 1000.0) if quick else RATES
    loads = {}
    for number in streams:
        for tokens_per_s in TOKENS_PER_S:
            load = streams_load(number, tokens_per_s, 2 if quick else 4)
            loads[number, load.itl_ms] = load
    together = [replace(load, lockstep=True) for load in loads.values() if (load.streams or 0) > 1]
    return [*loads.values(), *together, *(rate_load(rate, 1.0 if quick else 3.0) for rate in rates)]


def run_grid(demand: Demand) -> list[Load]:
    """A few points that a card's cells should lie within. A closed loop's token rate is the server's to decide, so it
    is tried slow and fast; an open loop's streams too, up to as many as start within timeout_total."""
    streams = min(max(demand.streams, LEAST_STREAMS), MOST_STREAMS)
    if demand.tokens_per_s is None:
        tried = [streams_load(streams, rate) for rate in TOKENS_PER_S]
    else:
        ladder = [number for number in STREAMS if LEAST_STREAMS <= number < streams]
        busiest = demand.tokens_per_s * demand.busiest_second() / (demand.requests_per_s or 1.0)
        rate = max(busiest * 1.2, LEAST_TOKENS_PER_S)
        tried = [streams_load(number, rate) for number in [*ladder, streams]]
    closed = {(load.streams, load.itl_ms): replace(load, lockstep=True) for load in tried}
    requests = CLOSED_RATE if demand.requests_per_s is None else demand.busiest_second() * 1.2
    return [*closed.values(), rate_load(max(LEAST_RATE, requests))]


def calibrate(
    loads: Iterable[Load], client: Client, say: Say | None = None, error_s: float = math.inf
) -> dict[str, Any]:
    """Measure every point against a truth server of our own, and write down what was found. A point that was off by
    more than `error_s` is tried again, up to TRIES times: something else may have had the core for a moment."""
    loads = list(loads)
    points: list[dict[str, Any]] = []
    with Truth() as truth:
        for number, load in enumerate(loads, start=1):
            if say is not None:
                say(_label(load), number, len(loads))
            points.append(_measured(truth, load, client, error_s))
    loop, timer = points[0].pop("loop"), points[0].pop("timer")
    for point in points[1:]:
        del point["loop"], point["timer"]
    return certificate(points, client, loop, timer)


def _measured(truth: Truth, load: Load, client: Client, error_s: float) -> dict[str, Any]:
    """A point; `tries` in it says how often it was tried, and the last try is what it holds."""
    point: dict[str, Any] = {}
    for tries in range(1, TRIES + 1):
        point = measure_point(truth, load, client) | {"tries": tries}
        if held(point, error_s):
            break
    return point


def _label(load: Load) -> str:
    if load.streams is not None:
        return f"{load.streams} streams, a token every {load.itl_ms:.3g} ms{', in lockstep' if load.lockstep else ''}"
    return f"{load.rate:g} req/s"

"""The grid: at which loads the client is measured, for a machine's certificate or for a run's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..client.sizing import Demand
from .certificate import certificate
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
#: in a run: no more streams than this are tried, since each takes a file descriptor on either side
MOST_STREAMS = 4096
#: … and no fewer tokens/s
LEAST_TOKENS_PER_S = 10_000.0

Say = Callable[[str, int, int], None]


def streams_load(streams: int, tokens_per_s: float, rounds: int = 2) -> Load:
    """A closed loop of so many streams that together ask for so many tokens/s."""
    itl_ms = max(FASTEST_ITL_MS, streams / tokens_per_s * 1e3)
    tokens = max(4, round(ROUND_S * 1e3 / itl_ms))
    # Enough replies for percentiles, even of one stream.
    return Load(tokens, itl_ms, max(streams * rounds, 4), streams=streams)


def rate_load(rate: float, seconds: float = 1.0) -> Load:
    """An open loop of so many short requests a second."""
    return Load(OPEN_LOOP_TOKENS, FASTEST_ITL_MS, max(20, round(rate * seconds)), rate=rate)


def whole_grid(quick: bool) -> list[Load]:
    """Every point of `benchcard calibrate`; `quick` leaves most out."""
    streams = (1, 64, 256) if quick else STREAMS
    rates = (100.0, 1000.0) if quick else RATES
    loads = {}
    for number in streams:
        for tokens_per_s in TOKENS_PER_S:
            load = streams_load(number, tokens_per_s, 2 if quick else 4)
            loads[number, load.itl_ms] = load
    return [*loads.values(), *(rate_load(rate, 1.0 if quick else 3.0) for rate in rates)]


def run_grid(demand: Demand) -> list[Load]:
    """A few points that a card's cells must not lie beyond: as many streams, tokens/s and requests/s as it can ask for,
    or more. A closed loop's token rate is the server's to decide, so it is tried slow and fast."""
    streams = min(max(demand.streams, 64), MOST_STREAMS)
    rates = [demand.tokens_per_s * 1.2] if demand.tokens_per_s is not None else [TOKENS_PER_S[0], TOKENS_PER_S[-1]]
    closed = {}
    for rate in rates:
        load = streams_load(streams, max(rate, LEAST_TOKENS_PER_S))
        closed[load.itl_ms] = load
    requests = max(100.0, (demand.requests_per_s or 0.0) * 1.2)
    return [*closed.values(), rate_load(requests)]


def calibrate(loads: Iterable[Load], client: Client, say: Say | None = None) -> dict[str, Any]:
    """Measure every point against a truth server of our own, and write down what was found."""
    loads = list(loads)
    points: list[dict[str, Any]] = []
    with Truth() as truth:
        for number, load in enumerate(loads, start=1):
            if say is not None:
                say(_label(load), number, len(loads))
            points.append(measure_point(truth, load, client))
    loop, timer = points[0].pop("loop"), points[0].pop("timer")
    for point in points[1:]:
        del point["loop"], point["timer"]
    return certificate(points, client, loop, timer)


def _label(load: Load) -> str:
    if load.streams is not None:
        return f"{load.streams} streams, a token every {load.itl_ms:.3g} ms"
    return f"{load.rate:g} req/s"

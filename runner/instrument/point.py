"""One point of the grid: the client driven against the truth at one load, and how far off it was."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..client.attempt import Attempt
from ..client.cell import CellLoad, read_attempts, run_cell
from ..client.load import LoadSpec
from ..client.pool import Rules, Timeouts
from ..client.reply import parse_reply
from ..client.requests import RequestFile
from ..client.wire import Target, request_prefix, request_rest
from ..client.worker import CellJob
from ..plan.draws import Stream
from ..plan.requests import PlannedRequest
from ..plan.slots import CLOSED_LOOP_DRAIN_PER_CLIENT
from .truth import Reply, Truth

_S = 1_000_000_000
_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Load:
    """What a point asks of the client. Either `streams` (a closed loop) or `rate` (an open loop, Poisson, req/s).

    Replies have `tokens` tokens on average, the first `ttft_ms` after the request, the others `itl_ms` apart. `count`
    requests are measured. Their lengths vary by up to a share `spread` either way: streams that began together would
    else end together for good. `lockstep`: every stream gets its tokens at the same moments, as from an engine that
    advances all its requests in one step."""

    tokens: int
    itl_ms: float
    count: int
    streams: int | None = None
    rate: float | None = None
    ttft_ms: float = 20.0
    spread: float = 0.5
    lockstep: bool = False


@dataclass(frozen=True)
class Client:
    """How the client is set up: worker processes, and what it does without."""

    workers: int = 1
    uvloop: bool = True
    timerfd: bool = True


def measure_point(truth: Truth, load: Load, client: Client) -> dict[str, Any]:
    """Drive the client and compare it with the server's log. Times in s, rates per s; errors are the client's figure
    less the server's, each of the whole distribution (p50 against p50, p99 against p99); rates are of the busiest
    second."""
    truth.reset(load.ttft_ms, load.itl_ms, load.lockstep)
    with tempfile.TemporaryDirectory(prefix="benchcard-calibrate-") as folder:
        job = _job(truth, load, client, Path(folder))
        view = run_cell(job)
        log = truth.log()
        counted = [attempt for attempt in read_attempts(job) if attempt.phase == "measure"]
        lengths = {request.index: request.output_tokens for request in job.load.requests}
        pairs = [(a, log[_name(a.index)]) for a in counted if _whole(a, log, lengths[a.index])]
        return {
            "streams": load.streams, "rate": load.rate, "tokens": load.tokens, "itl": load.itl_ms / 1e3,
            "ttft": load.ttft_ms / 1e3, "lockstep": load.lockstep, "requests": len(counted),
            "lost": len(counted) - len(pairs),
            **_compare(pairs), **_self(view, counted, log),
        }  # fmt: skip


def _name(index: int) -> str:
    return f"calibrate-{index}"


def _job(truth: Truth, load: Load, client: Client, folder: Path) -> CellJob:
    target = Target("127.0.0.1", truth.port, False, "/v1")
    planned = planned_requests(load)
    requests = RequestFile.write(
        folder / "requests",
        (request_rest(target, _name(request.index), _body(request.output_tokens)) for request in planned),
    )
    # The first round of a closed loop starts as one burst, and is not counted.
    window = {"warmup": {"requests": load.streams or 0}, "measure": {"requests": load.count}, "drain": 1.0}
    return CellJob(
        target, request_prefix(target, "chat"), Rules(Timeouts(5 * _S, 10 * _S, 30 * _S)),
        LoadSpec(window, planned, load.streams, 0), requests, folder / "cell.spool",
        client.workers, client.uvloop, client.timerfd,
    )  # fmt: skip


def _body(tokens: int) -> bytes:
    body = {"model": "truth", "messages": [{"role": "user", "content": "x"}], "max_tokens": tokens}
    return json.dumps({**body, "stream": True, "stream_options": {"include_usage": True}}).encode()


def planned_requests(load: Load) -> list[PlannedRequest]:
    """The plan of a point: always the same for the same load."""
    if load.streams is not None:
        total = load.count + load.streams * (1 + CLOSED_LOOP_DRAIN_PER_CLIENT // 8)
        return [
            PlannedRequest(i, "", None, i % load.streams, None, 0, 1, tokens)
            for i, tokens in enumerate(_lengths(load, total))
        ]
    assert load.rate is not None
    # As many again, uncounted, as start while the last counted replies come in.
    drain = round(load.rate * (load.ttft_ms + load.tokens * load.itl_ms) / 1e3) + 10
    offsets = itertools.accumulate(Stream(1, "arrivals").exponential_ns(load.count + drain, load.rate))
    return [
        PlannedRequest(i, "", at, None, None, 0, 1, tokens)
        for i, (at, tokens) in enumerate(zip(offsets, _lengths(load, load.count + drain), strict=True))
    ]


def _lengths(load: Load, count: int) -> list[int]:
    return [max(1, round(load.tokens * (1 + load.spread * (2 * u - 1)))) for u in Stream(1, "lengths").uniforms(count)]


def _whole(attempt: Attempt, log: dict[str, Reply], tokens: int) -> bool:
    reply = log.get(_name(attempt.index))
    return attempt.fault is None and reply is not None and len(reply.times) == tokens


def _compare(pairs: Sequence[tuple[Attempt, Reply]]) -> dict[str, Any]:
    """The client's distributions against the server's."""
    if not pairs:
        return dict.fromkeys((*_ERRORS, "delay_p50", "delay_p99", "lag_p50", "lag_p99", "lag_max"))
    chunks = [[chunk.time for chunk in parse_reply(a.times, a.reads).chunks] for a, _ in pairs]
    mine = [np.array(times, dtype=np.int64) for times in chunks]
    true = [np.array(reply.times[: len(m)], dtype=np.int64) for (_, reply), m in zip(pairs, mine, strict=True)]
    ttft = np.array([times[0] - a.scheduled for (a, _), times in zip(pairs, mine, strict=True)]) / _S
    ttft_true = np.array([reply.times[0] - reply.arrival for _, reply in pairs]) / _S
    from_sent = np.array([times[0] - (a.sent or 0) for (a, _), times in zip(pairs, mine, strict=True)]) / _S
    itl, itl_true = (np.concatenate([np.diff(times) for times in side]) / _S for side in (mine, true))
    delay = np.concatenate([m - t for m, t in zip(mine, true, strict=True)]) / _S
    lag = np.array([a.queued - a.scheduled for a, _ in pairs]) / _S
    return {
        "ttft_p50_error": _off(ttft, ttft_true, 50),
        "ttft_p99_error": _off(ttft, ttft_true, 99),
        "ttft_from_sent_p50_error": _off(from_sent, ttft_true, 50),
        "itl_p50_error": _off(itl, itl_true, 50),
        "itl_p99_error": _off(itl, itl_true, 99),
        "delay_p50": _at(delay, 50), "delay_p99": _at(delay, 99),
        "lag_p50": _at(lag, 50), "lag_p99": _at(lag, 99), "lag_max": float(lag.max()),
    }  # fmt: skip


_ERRORS = ("ttft_p50_error", "ttft_p99_error", "ttft_from_sent_p50_error", "itl_p50_error", "itl_p99_error")


def _at(values: _Floats, percent: int) -> float | None:
    return float(np.percentile(values, percent, method="inverted_cdf")) if len(values) else None


def _off(mine: _Floats, true: _Floats, percent: int) -> float | None:
    """The client's percentile less the server's; None where there is nothing to take one of (no gap in replies of one
    token)."""
    client, server = _at(mine, percent), _at(true, percent)
    return None if client is None or server is None else client - server


def _self(view: CellLoad, counted: Sequence[Attempt], log: dict[str, Reply]) -> dict[str, Any]:
    """What the client did and what that cost it, over the whole load."""
    times = np.array([time for reply in log.values() for time in reply.times], dtype=np.int64)
    times = times[(times >= view.load_start) & (times <= view.load_end)]
    arrivals = np.array([reply.arrival for reply in log.values()], dtype=np.int64)
    seconds = (view.load_end - view.load_start) / _S
    lags = np.array(view.loop_lags) / _S
    return {
        "seconds": seconds,
        "tokens_per_s": busiest_rate(times),
        "requests_per_s": busiest_rate(arrivals),
        "peak_in_flight": view.peak_in_flight,
        "cpu": view.cpu / _S / seconds,
        "cpu_per_token": view.cpu / _S / len(times) if len(times) else None,
        "cpu_per_request": view.cpu / _S / len(log) if log else None,
        "run_delay": None if view.run_delay is None else view.run_delay / _S / seconds,
        "loop_lag_p50": _at(lags, 50), "loop_lag_p99": _at(lags, 99), "loop": view.loop, "timer": view.timer,
    }  # fmt: skip


def busiest_rate(times: npt.NDArray[np.int64]) -> float:
    """The most of these times (ns) within any second, per second; where all lie within less than a second (but no less
    than a tenth), their number over that. A cell is judged by the same."""
    ordered = np.sort(times)
    if not len(ordered):
        return 0.0
    second = int(min(max(ordered[-1] - ordered[0], _S // 10), _S))
    ends = np.searchsorted(ordered, ordered + second, side="right" if second < _S else "left")
    return float((ends - np.arange(len(ordered))).max() * _S / second)

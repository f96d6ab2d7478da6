"""What the measuring client must do on two cores, measured: the server on one, the client on the other.

    python tests/performance/must_hold.py [--only NAME …] [--seconds 30]

Each line is a figure, what it must be, and whether it is. The truth is the server's own log. Nothing else may run
meanwhile. Absolute CPU times are of the machine as much as of the client: read them beside aiohttp's (compare.py).
"""

from __future__ import annotations

import argparse
import os
import resource
from collections.abc import Callable, Iterator

import numpy as np
from benchcard.runner.instrument.certificate import held
from benchcard.runner.instrument.point import Client, Load, measure_point, planned_requests
from benchcard.runner.instrument.truth import Truth
from scipy import stats
from server import two_cores

Line = tuple[str, str, str, bool]


def streaming(truth: Truth, _: float) -> Iterator[Line]:
    """256 streams of 200 tokens, 20 ms to the first and 2 ms between; and 1,024 of them."""
    point = measure_point(truth, Load(200, 2.0, 1024, streams=256, spread=0.0), Client())
    yield _line(
        "256 streams: tokens/s", point["tokens_per_s"], "≥ 100,000", point["tokens_per_s"] >= 100_000, "{:,.0f}"
    )
    for what, key in (
        ("TTFT p50 from sending, less the server's", "ttft_from_sent_p50_error"),
        ("TTFT p50 from schedule, less the server's", "ttft_p50_error"),
        ("ITL p99, less the server's", "itl_p99_error"),
    ):
        yield _line(f"256 streams: {what}, ms", point[key] * 1e3, "within 1", abs(point[key]) <= 1e-3)
    per_request = measure_point(truth, Load(1, 2.0, 6000, rate=1000.0, spread=0.0), Client())["cpu_per_request"]
    # What a request costs beside its tokens is measured with one token a request, at the same rate of requests.
    per_token = point["cpu_per_token"] - per_request / 200
    yield _line("CPU a token, µs (256 streams, less what the requests cost)", per_token * 1e6, "≤ 6", per_token <= 6e-6)
    yield _line("CPU a request of one token, µs (1,000 req/s)", per_request * 1e6, "≤ 150", per_request <= 150e-6)
    point = measure_point(truth, Load(200, 2.0, 4096, streams=1024, spread=0.0), Client())
    error = point["ttft_from_sent_p50_error"]
    flagged = not held(point, 1e-3)
    text = f"within 10, or flagged ({'flagged' if flagged else 'not flagged'}: beyond the certificate)"
    yield _line("1,024 streams: TTFT p50 error, ms", error * 1e3, text, abs(error) < 10e-3 or flagged)


def arrivals(truth: Truth, seconds: float) -> Iterator[Line]:
    """Open loops of 1,000 and 2,000 req/s by one worker, and of 2,000 by two."""
    for rate, workers in ((1000.0, 1), (2000.0, 1), (2000.0, 2)):
        load = Load(1, 2.0, round(rate * seconds), rate=rate, spread=0.0)
        name = f"{rate:,.0f} req/s, {workers} worker{'s' if workers > 1 else ''}"
        point = measure_point(truth, load, Client(workers))
        lag, meant = point["lag_p99"], "< 0.5" if workers == 1 else "said only"
        yield _line(f"{name}: schedule lag p99, ms", lag * 1e3, meant, workers > 1 or lag < 0.5e-3)
        yield _line(f"{name}: counted requests lost", point["lost"], "0", point["lost"] == 0, "{:.0f}")
        planned = np.array([r.offset_ns for r in planned_requests(load)][: load.count])
        log = truth.log()  # raises where a request came twice
        seen = np.sort([log[f"calibrate-{i}"].arrival for i in range(load.count)])
        yield from _like_the_plan(name, planned, seen, rate)


def _like_the_plan(name: str, planned: np.ndarray, seen: np.ndarray, rate: float) -> Iterator[Line]:
    gaps = np.diff(planned) / 1e9
    fit = stats.kstest(gaps, "expon", args=(0, 1 / rate)).pvalue
    yield _line(f"{name}: planned gaps exponential, KS p", fit, "> 0.01", fit > 0.01, "{:.2f}")
    # The stamps of both sides jitter by some tens of µs, which is a tenth of a gap at 2,000 req/s.
    offset = float(np.median(seen - planned))
    moved = float(np.percentile(np.abs(seen - planned - offset), 99))
    yield _line(f"{name}: arrivals off the plan, p99 of |error|, ms", moved / 1e6, "< 1", moved < 1e6)
    correlation = float(np.corrcoef(np.diff(seen)[:-1], np.diff(seen)[1:])[0, 1])
    yield _line(f"{name}: lag-1 correlation of gaps at the server", correlation, "within ±0.1", abs(correlation) < 0.1)
    whole = int((seen[-1] - seen[0]) // 1e9)
    counts = np.bincount(((seen - seen[0]) // 10**9).astype(int))[:whole]
    low, high = stats.chi2.ppf([0.005, 0.995], whole - 1) / (whole - 1)
    ratio = float(counts.var(ddof=1) / counts.mean())
    text = f"within {low:.2f} … {high:.2f}"
    yield _line(f"{name}: variance / mean of counts over 1 s", ratio, text, low <= ratio <= high, "{:.2f}")


def many(truth: Truth, _: float) -> Iterator[Line]:
    """4,096 streams at once; 1,100 at once on a server that takes a second."""
    for streams, load in (
        (4096, Load(10, 200.0, 4096, streams=4096, spread=0.0)),
        (1100, Load(1, 2.0, 1100, streams=1100, spread=0.0, ttft_ms=1000.0)),
    ):
        point = measure_point(truth, load, Client())
        events = [(reply.arrival, 1) for reply in truth.log().values()]
        events += [(reply.times[-1], -1) for reply in truth.log().values() if reply.times]
        open_now = np.cumsum([step for _, step in sorted(events)])
        yield _line(f"{streams} streams: most at once, as the server saw them", int(open_now.max()), str(streams),
                    int(open_now.max()) == streams, "{:.0f}")  # fmt: skip
        yield _line(f"{streams} streams: replies lost", point["lost"], "0", point["lost"] == 0, "{:.0f}")


GROUPS: dict[str, Callable[[Truth, float], Iterator[Line]]] = {
    "streaming": streaming,
    "arrivals": arrivals,
    "many": many,
}


def _line(what: str, value: float, wanted: str, good: bool, form: str = "{:.2f}") -> Line:
    return what, form.format(value), wanted, good


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="What the measuring client must do, measured.")
    parser.add_argument("--only", nargs="+", choices=list(GROUPS), metavar="NAME")
    parser.add_argument("--seconds", type=float, default=30.0, help="length of an open loop")
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    server_core, client_core = two_cores()
    print("| figure | measured | must be | is |\n|---|---:|---|---|")
    with Truth() as truth:
        if server_core is not None and client_core is not None:
            os.sched_setaffinity(truth.pid, {server_core})
            os.sched_setaffinity(0, {client_core})
        for name in arguments.only or GROUPS:
            for what, value, wanted, good in GROUPS[name](truth, arguments.seconds):
                print(f"| {what} | {value} | {wanted} | {'yes' if good else 'NO'} |", flush=True)


if __name__ == "__main__":
    main()

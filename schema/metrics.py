"""The catalogue of metrics: name, unit, better direction and one line of meaning.

The formulas stand once, in `analysis/metrics.py`; a test checks that the two tables hold the same names. A latency
metric is a statistic of a per-attempt quantity, written `ttft.p95`. Percentiles are the smallest value with at least p
of the data at or below it (numpy's `inverted_cdf`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """A metric of a cell. `better` is 'higher' or 'lower'; `unit` is a base unit; `scale` is 'ratio' or 'proportion'
    (a proportion may be compared in points)."""

    name: str
    unit: str
    better: str
    scale: str
    meaning: str


SCALARS: tuple[Metric, ...] = (
    Metric("goodput", "req/s", "higher", "ratio", "good attempts per second of the measured window"),
    Metric("attainment", "1", "higher", "proportion", "good attempts / attempts"),
    Metric("error_rate", "1", "lower", "proportion", "attempts whose outcome is not ok / attempts"),
    Metric(
        "request_throughput", "req/s", "higher", "ratio", "attempts with outcome ok per second of the measured window"
    ),
    Metric(
        "output_throughput",
        "tokens/s",
        "higher",
        "ratio",
        "output tokens that arrived in the measured window, per second",
    ),
)

LATENCIES: dict[str, str] = {
    "ttft": "scheduled -> first token-bearing chunk",
    "ttfa": "scheduled -> first answer token",
    "tpot": "(last token - first token) / (output tokens - tokens in the first chunk), per attempt",
    "itl": "gap between token-bearing chunks / tokens in the chunk, repeated for each of its tokens",
    "itl_retokenized": "gap between token-bearing chunks / tokens by the card's tokenizer, repeated for each of them",
    "icl": "gap between token-bearing chunks, as read from the socket",
    "e2e": "scheduled -> last token",
}

#: metrics of a start and of what comes right after it; they exist on cards with `workload.test: cold_start` only
COLD_START: tuple[Metric, ...] = (
    Metric("start.ready", "s", "lower", "ratio", "launch of the server process -> the server answers that it is ready"),
    Metric(
        "start.first_token",
        "s",
        "lower",
        "ratio",
        "launch of the server process -> first token of the first answered request, less the time between ready and "
        "the first request, in which nobody had asked: what the first user of a new replica waits",
    ),
    Metric("first.ttft", "s", "lower", "ratio", "TTFT of the first counted request, by schedule"),
    Metric(
        "first.slowdown",
        "times",
        "lower",
        "ratio",
        "TTFT of the first counted request / median TTFT in the second half of the window",
    ),
)

#: the fewest counted attempts that carry first.slowdown: half of them lie in the second half of the window
SLOWDOWN_NEEDS = 10

STATISTICS = ("mean", "p50", "p90", "p95", "p97", "p99", "max")

#: the fewest values that carry a percentile of a per-attempt latency: one value beyond it is allowed for, at the 1%
#: level (binom.cdf(1, n, 1 - p) <= .01; 662 is also what the MLPerf inference rules publish for p99)
PERCENTILE_NEEDS = {"p90": 64, "p95": 130, "p97": 219, "p99": 662}

#: metrics that only the server's own metrics give; usable as evidence
SERVER_METRICS: dict[str, str] = {
    "server.prefix_cache_hit_rate": "prompt tokens found in the prefix cache / prompt tokens looked up, over the cell",
    "server.spec_decode_acceptance_length": "tokens per speculative step: 1 + accepted / drafts, over the cell",
    "server.spec_decode_acceptance_rate": "draft tokens accepted / drafted, over the cell",
    "server.preemptions": "preemptions / requests finished, over the cell",
    "server.kv_cache_usage.mean": "share of the KV cache in use, mean over the load",
    "server.kv_cache_usage.max": "share of the KV cache in use, the most seen during the load",
    "server.queue.mean": "requests waiting for the engine, mean over the load",
    "server.iteration_tokens.mean": "tokens in an engine step, prefill and decode, mean over the cell's steps",
}

#: their units; '1' is a proportion, written as a percentage on a card
SERVER_METRIC_UNITS: dict[str, str] = {
    "server.prefix_cache_hit_rate": "1",
    "server.spec_decode_acceptance_length": "tokens/step",
    "server.spec_decode_acceptance_rate": "1",
    "server.preemptions": "per request",
    "server.kv_cache_usage.mean": "1",
    "server.kv_cache_usage.max": "1",
    "server.queue.mean": "requests",
    "server.iteration_tokens.mean": "tokens/step",
}

_LATENCY_NAME = re.compile(rf"({'|'.join(LATENCIES)})\.({'|'.join(STATISTICS)})")


def metric(name: str) -> Metric | None:
    """The metric of that name, or None if the catalogue has none."""
    for scalar in (*SCALARS, *COLD_START):
        if scalar.name == name:
            return scalar
    match = _LATENCY_NAME.fullmatch(name)
    if match is None:
        return None
    quantity, statistic = match.groups()
    return Metric(name, "s", "lower", "ratio", f"{statistic} of {LATENCIES[quantity]}")


def metric_names() -> list[str]:
    """Every name the catalogue knows: scalars, latencies, then what only cold starts have."""
    latencies = [f"{quantity}.{statistic}" for quantity in LATENCIES for statistic in STATISTICS]
    return [m.name for m in SCALARS] + latencies + [m.name for m in COLD_START]

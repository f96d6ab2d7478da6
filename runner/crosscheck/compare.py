"""Two clients' numbers side by side, and why they may differ. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]

_TTFT = (
    "vllm bench counts from when it sends, benchcard from when the request was due. vllm bench ends at the first chunk "
    "with a choice, text or not (on chat the one with the role); benchcard at the first with text."
)
_TPOT = (
    "Both: time after the first token / tokens after the first. vllm bench's time ends at the last chunk with a choice "
    "(the one with the finish reason), benchcard's at the last with text."
)
_ITL = (
    "vllm bench takes the gap between chunks as it parses them (0 where several came in one read), without regard to "
    "their tokens; benchcard the gap as read from the socket, per token in the chunk."
)
_E2E = "As TTFT at the start and TPOT at the end."
_RATE = (
    "vllm bench divides by its whole run, from the first request to the last reply, as the server fills and empties; "
    "benchcard by the measured window, with load before and after it."
)
_TOKENS = f"{_RATE} Only tokens that arrived inside the window count."
_ERRORS = (
    "vllm bench waits for hours, benchcard until the card's timeouts. vllm bench leaves failed requests out and counts "
    "them apart; benchcard has them in every denominator."
)
#: what holds for every percentile
PERCENTILES = (
    "vllm bench interpolates between two values; benchcard takes the smallest value with at least so many at or below "
    "it."
)

#: metric -> (vllm bench's key, factor to the metric's unit, why they may differ)
METRICS: dict[str, tuple[str, float, str]] = {
    "ttft.mean": ("mean_ttft_ms", 1e-3, _TTFT),
    "ttft.p50": ("median_ttft_ms", 1e-3, _TTFT),
    "ttft.p95": ("p95_ttft_ms", 1e-3, _TTFT),
    "tpot.mean": ("mean_tpot_ms", 1e-3, _TPOT),
    "tpot.p50": ("median_tpot_ms", 1e-3, _TPOT),
    "itl.mean": ("mean_itl_ms", 1e-3, _ITL),
    "itl.p50": ("median_itl_ms", 1e-3, _ITL),
    "itl.p95": ("p95_itl_ms", 1e-3, _ITL),
    "e2e.mean": ("mean_e2el_ms", 1e-3, _E2E),
    "e2e.p50": ("median_e2el_ms", 1e-3, _E2E),
    "request_throughput": ("request_throughput", 1.0, _RATE),
    "output_throughput": ("output_throughput", 1.0, _TOKENS),
}


def compared(ours: dict[str, Row], theirs: Row, counted: Sequence[int] | None, summary: dict[str, Row]) -> list[Row]:
    """A row a metric: benchcard's value, vllm bench's as it reports it, its value over the requests that benchcard
    counted (`counted`: their indices; None where the two did not send the same), the difference of the first two as a
    share, what the run had (mean and stdev of its blocks), and why the two may differ. Undefined is None."""
    same = {} if counted is None else same_requests(theirs, counted)
    rows = []
    for name, (key, factor, why) in METRICS.items():
        found = ours.get(name)
        if found is None:
            continue
        told = _number(theirs.get(key))
        if told == 0 and factor != 1.0:
            told = None  # vllm bench writes a time of 0 where it has none: no reply, or none of two tokens
        value, other = found["value"], None if told is None else told * factor
        run = summary.get(name) or {}
        rows.append(
            {
                "metric": name,
                "unit": found["unit"],
                "benchcard": value,
                "vllm_bench": other,
                "vllm_bench_same_requests": same.get(name),
                "difference": other / value - 1 if value and other is not None else None,
                "run_mean": run.get("mean"),
                "run_stdev": run.get("stdev"),
                "why": why,
            }
        )
    return rows


def failures(ours: dict[str, int], theirs: Row) -> Row:
    """Attempts and failures of both."""
    done, failed = int(theirs.get("completed") or 0), int(theirs.get("failed") or 0)
    counts = sum(ours.values())
    return {
        "benchcard": {"attempted": counts, "failed": counts - ours.get("ok", 0)},
        "vllm_bench": {"attempted": done + failed, "failed": failed},
        "why": _ERRORS,
    }


def same_requests(theirs: Row, counted: Sequence[int]) -> dict[str, float | None]:
    """Means and percentiles (the smallest value with at least so many at or below it) of vllm bench's own times, over
    the requests of those indices that did not fail; its definitions of the times stay. One without a TTFT failed, too
    (the error of an HTTP status without a reason phrase is an empty text)."""
    ttfts, gaps = theirs.get("ttfts") or [], theirs.get("itls") or []
    lengths, errors = theirs.get("output_lens") or [], theirs.get("errors") or []
    told = [i for i in counted if i < min(len(ttfts), len(gaps)) and ttfts[i] > 0]
    known = [i for i in told if not (i < len(errors) and errors[i])]
    e2e = {i: ttfts[i] + sum(gaps[i]) for i in known}
    tokens = {i: lengths[i] for i in known if i < len(lengths) and lengths[i] > 1}
    times: dict[str, list[float]] = {
        "ttft": [ttfts[i] for i in known],
        "tpot": [(e2e[i] - ttfts[i]) / (count - 1) for i, count in tokens.items()],
        "itl": [gap for i in known for gap in gaps[i]],
        "e2e": list(e2e.values()),
    }
    found: dict[str, float | None] = {}
    for name in METRICS:
        quantity, _, statistic = name.partition(".")
        if quantity in times:
            found[name] = _statistic(times[quantity], statistic)
    return found


def _statistic(values: list[float], statistic: str) -> float | None:
    if not values:
        return None
    if statistic == "mean":
        return sum(values) / len(values)
    share = int(statistic.removeprefix("p")) / 100
    return sorted(values)[max(0, math.ceil(share * len(values) - 1e-9) - 1)]


def _number(value: object) -> float | None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if good else None  # type: ignore[arg-type]

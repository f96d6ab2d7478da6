"""Did the treatment take effect at all? The server's own counters say so.

A counter's change over a cell is its value after the load less its value before, summed over the server's label sets.
An arm's value is a ratio of sums over the used blocks' cells at the claimed loads. A counter that is missing or went
backwards makes the value unknown, with the reason: never 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import polars as pl

from .read import Bundle, Cell
from .records import BundleError, Record
from .servers import behind_a_balancer


@dataclass(frozen=True)
class ServerMetric:
    """A ratio of two counters' changes; `offset` is added to it; `none` says what a zero denominator means."""

    numerator: str
    denominator: str
    offset: float
    none: str


SERVER_METRICS: dict[str, ServerMetric] = {
    "server.prefix_cache_hit_rate": ServerMetric(
        "vllm:prefix_cache_hits_total",
        "vllm:prefix_cache_queries_total",
        0.0,
        "no prompt token was looked up in the cache",
    ),
    "server.spec_decode_acceptance_length": ServerMetric(
        "vllm:spec_decode_num_accepted_tokens_total",
        "vllm:spec_decode_num_drafts_total",
        1.0,
        "nothing was drafted",
    ),
}


def change(samples: pl.DataFrame, name: str) -> tuple[float | None, str | None]:
    """A counter's change over a cell, or None with the reason."""
    rows = samples.filter(pl.col("name") == name)
    before = {row["labels"]: row["value"] for row in rows.filter(pl.col("when") == "before").iter_rows(named=True)}
    after = {row["labels"]: row["value"] for row in rows.filter(pl.col("when") == "after").iter_rows(named=True)}
    if not after:
        return None, f"the server does not expose {name}"
    if not before:
        return None, f"{name} was not read before the load"
    total = 0.0
    for labels, value in after.items():
        # a label set that appears under load starts from zero
        delta = value - before.get(labels, 0.0)
        if not math.isfinite(delta):
            return None, f"{name} is not a finite number"
        if delta < 0:
            return None, f"{name} went backwards (the server was restarted within the cell?)"
        total += delta
    if set(before) - set(after):
        return None, f"{name} lost a label set (the server was restarted within the cell?)"
    return total, None


def observe(bundle: Bundle, cells: Iterable[Cell], metric: ServerMetric) -> tuple[float, float, str | None]:
    """(numerator, denominator, None) summed over cells, or zeros with the reason why they are unknown."""
    sums = [0.0, 0.0]
    read = 0
    for cell in cells:
        samples = bundle.server(cell)
        if samples is None:
            return 0.0, 0.0, f"{cell.cell}: the server's metrics were not read"
        for i, name in enumerate((metric.numerator, metric.denominator)):
            delta, reason = change(samples, name)
            if delta is None:
                return 0.0, 0.0, f"{cell.cell}: {reason}"
            sums[i] += delta
        read += 1
    return sums[0], sums[1], None if read else "no cell to read it from"


def judge_evidence(
    bundle: Bundle, rows: Iterable[dict[str, Any]], cells: Iterable[Cell], at: Iterable[float]
) -> list[Record]:
    """The card's evidence rows with what was observed and the word holds, fails or unknown.

    With a zero denominator the ratio is undefined, but what it stands for is known not to have happened: `at_most`
    holds and `at_least` fails.
    """
    claimed = set(at)
    used = [cell for cell in cells if cell.load in claimed]
    out = []
    for row in rows:
        metric = SERVER_METRICS.get(row["metric"])
        if metric is None:
            known = ", ".join(SERVER_METRICS)
            raise BundleError(
                f"card.resolved.json: evidence: no formula for {row['metric']!r}; there is one for {known}"
            )
        at_least = row["direction"] == "at_least"
        numerator, denominator, reason = observe(bundle, (c for c in used if c.arm == row["arm"]), metric)
        reason = behind_a_balancer(bundle, row["arm"]) or reason
        observed = None
        if reason is not None:
            word = "unknown"
        elif denominator == 0:
            word, reason = "fails" if at_least else "holds", metric.none
        else:
            observed = metric.offset + numerator / denominator
            holds: Callable[[float, float], bool] = (lambda x, y: x >= y) if at_least else (lambda x, y: x <= y)
            word = "holds" if holds(observed, row["limit"]) else "fails"
        kept = {key: row[key] for key in ("metric", "arm", "direction", "limit")}
        out.append({**kept, "observed": observed, "word": word, "reason": reason})
    return out

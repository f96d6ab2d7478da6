"""The checks that a cell must pass before its numbers count. All are blind to the arm and to the result, and fixed by
the card.

One registry, `CHECKS`; each check observes one number and compares it with its limit. A check that cannot be made (no
telemetry) fails with the reason: validity is shown, not assumed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from . import as_planned, instrument, reuse, servers, start, turns
from .compared import against_server, compared_as
from .records import Record
from .view import NO_TELEMETRY, CellView, Observation
from .window import chunk_times


@dataclass(frozen=True)
class Check:
    """A named check: `observe` gives (number, None), or (None, reason); it passes if the number is at most `limit`."""

    name: str
    unit: str
    meaning: str
    advice: str
    limit: Callable[[Record], float]
    observe: Callable[[CellView], Observation]
    applies: Callable[[CellView], bool] = lambda _: True


@dataclass(frozen=True)
class CheckResult:
    """What a check found in one cell."""

    check: Check
    observed: float | None
    limit: float
    reason: str | None

    @property
    def passed(self) -> bool:
        """Observed, and within the limit."""
        return self.observed is not None and self.observed <= self.limit


def _client_cpu(view: CellView) -> Observation:
    if view.client is None:
        return NO_TELEMETRY
    elapsed = view.client["load_end"] - view.client["load_start"]
    return (view.client["cpu"] / elapsed, None) if elapsed > 0 else (None, "the load has no length")


def _clock_ratio(view: CellView) -> Observation:
    if view.client is None:
        return NO_TELEMETRY
    elapsed = view.client["load_end"] - view.client["load_start"]
    wall = view.client["wall_end"] - view.client["wall_start"]
    return (abs(wall / elapsed - 1), None) if elapsed > 0 else (None, "the load has no length")


def _out_of_order(view: CellView) -> Observation:
    marks = ("scheduled", "first_token", "last_token", "end")
    wrong = pl.lit(False)
    for i, earlier in enumerate(marks):
        for later in marks[i + 1 :]:
            wrong |= (pl.col(earlier) > pl.col(later)).fill_null(False)
    listed = pl.col("chunk_times").list
    ends = (listed.first() != pl.col("first_token")) | (listed.last() != pl.col("last_token"))
    times, rows = chunk_times(view.events)
    backwards = np.zeros(view.events.height, dtype=bool)
    backwards[rows[1:][(times[1:] < times[:-1]) & (rows[1:] == rows[:-1])]] = True
    return float(view.events.filter(wrong | ends.fill_null(False) | pl.Series(backwards)).height), None


def _zero(_: Record) -> float:
    return 0.0


def _card_limit(key: str) -> Callable[[Record], float]:
    return lambda card: float(card["validity"][key])


CHECKS: tuple[Check, ...] = (
    Check(
        "schedule_lag_p99", "s", "how late the client took up 99% of the counted requests, against the schedule",
        "Give the client more CPU, lower the load, or raise the limit in the card before the next run.",
        _card_limit("schedule_lag_p99"), as_planned.lag_p99, lambda view: view.open_loop,
    ),
    Check(
        "delivered_load", "1",
        "share of the planned counted requests that the client was not ready to send on time (lag "
        f"≤ {as_planned.ON_TIME:g} × the limit on schedule_lag_p99), whatever the server did",
        "The load that was run is not the load that was declared: lower it, or give the client more CPU.",
        _card_limit("delivered_load_within"), as_planned.delivered,
    ),
    Check(
        "client_cpu", "1", "CPU time of the measuring client / elapsed time of the load",
        "A client that is nearly saturated measures itself: give it a core of its own, or lower the load.",
        _card_limit("client_cpu"), _client_cpu,
    ),
    Check(
        "client_starved", "1", "share of the load's time in which the client was ready to run and had no core",
        "Something else used the client's core, so its times are late: leave it one of its own.",
        _card_limit("client_starved"), instrument.starved, instrument.starvation_known,
    ),
    Check(
        "loop_lag_p99", "s", "how late the client's event loop was in the window, at the 99th percentile of a timer",
        "Chunks were taken late by as much: give the client a core of its own, more workers, or less load.",
        _card_limit("loop_lag_p99"), instrument.loop_lag,
    ),
    Check(
        "coalesced_chunks", "1", "share of the token-bearing chunks that came in one read with the chunk before",
        "Gaps between tokens are not what the server made them: relieve the client, or look for a buffer on the way.",
        _card_limit("coalesced_chunks"), instrument.coalesced, instrument.has_chunks,
    ),
    Check(
        "certified_load", "1",
        "the cell's load (attempts at once, tokens/s and requests/s in its busiest second) / the largest at which the "
        "client was seen to be right, in the certificate made before the run's first cell",
        "Nobody has seen the client work at this load: lower it, or give the client more workers or a quieter machine.",
        lambda _: 1.0, instrument.certified,
    ),
    Check(
        "clock_ratio", "1", "wall clock against monotonic clock over the load, less 1",
        "The clock was stepped or the machine was suspended: run again on a quiet machine.",
        _card_limit("clock_ratio"), _clock_ratio,
    ),
    Check(
        "accounted", "attempts", "planned attempts without exactly one row, and rows that are not in the plan",
        "Attempts were lost or invented: the events cannot be trusted. This is a fault of the runner, or tampering.",
        _zero, as_planned.accounted,
    ),
    Check(
        "on_plan", "attempts", "attempts whose cell, prompt, phase or scheduled time is not the planned one",
        "The events are not of this plan: a fault of the runner, or tampering.",
        _zero, as_planned.off_plan,
    ),
    Check(
        "history", "attempts", "later turns whose prompt the server counts as another than what was said before",
        "The conversation that was measured is not the one that was declared: is the server's tokenizer the model's?",
        _zero, turns.history, turns.exact_history,
    ),
    Check(
        "cached_beyond_plan", "1",
        "by how much the cached share of prompt tokens exceeds what the plan lets be reused",
        "The cache held what this cell did not put there: start the server anew, or use cache_state: reset. A server "
        "that stays up keeps what an earlier run of the same card and seed sent: take another method.seed.",
        _card_limit("cached_beyond_plan"), reuse.beyond_plan, reuse.share_known,
    ),
    Check(
        "window", "attempts", "counted attempts outside the measured window (all, if it is not the planned one)",
        "Rates divide by this window: a fault of the runner.",
        _zero, as_planned.outside_window,
    ),
    Check(
        "time_order", "attempts", "attempts whose times run backwards or do not fit their chunks",
        "The clock or the events are broken: a fault of the runner, or tampering.",
        _zero, _out_of_order,
    ),
    Check(
        "plan_exhausted", "", "the load outran the planned requests (1: it did)",
        "The server was faster than planned for: plan more requests, or a shorter window.",
        _zero, as_planned.plan_exhausted,
    ),
    Check(
        "complete", "attempts", "counted attempts that were cut off before their end or their timeout",
        "Let the drain last at least timeout_total, and do not stop the run inside a cell.",
        _zero, as_planned.cut_off,
    ),
    Check(
        "server_requests", "1",
        "how far the requests that the server counts lie outside what this client can have caused / requests sent",
        "Somebody else uses the server, or its metrics page is another server's: give the run a server of its own.",
        _card_limit("server_requests"), against_server("server_requests"), compared_as("server_requests"),
    ),
    Check(
        "server_tokens", "1",
        "how far the prompt and output tokens that the server counts lie outside what this client sent and received",
        "Somebody else uses the server, or tokens are counted wrongly: look at token_counts and the tokenizer.",
        _card_limit("server_tokens"), against_server("server_tokens"), compared_as("server_tokens"),
    ),
    Check(
        "server_latency", "1",
        "how far the client's mean TTFT, ITL or E2E is off the server's, beyond validity.server_latency.absolute / the "
        "server's",
        "Something between the server's engine and the client takes time: a proxy, the network, or a lack of CPU.",
        lambda card: float(card["validity"]["server_latency"]["relative"]),
        against_server("server_latency"), compared_as("server_latency"),
    ),
    Check(
        "littles_law", "1",
        "how far the requests that the server runs and queues are off the client's requests in the system / the latter",
        "Requests wait where the server does not count them: look at proxies, and at limits before its queue.",
        _card_limit("littles_law"), against_server("littles_law"), compared_as("littles_law"),
    ),
    Check(
        "server_start", "faults",
        "what is wrong with the record of the server's start: none, of another cell, or with times that run backwards",
        "What a cold start is about was not measured: a fault of the runner, or tampering.",
        _zero, start.start_faults, start.applies,
    ),
    Check(
        "replicas", "processes",
        "servers that answered at the address of the metrics beyond those that the card declares",
        "Several servers share the load, and the metrics are of another each time: give the address of one, or declare "
        "them all (replicas).",
        _zero, servers.unknown_processes, servers.is_external,
    ),
)  # fmt: skip


def check_cell(view: CellView) -> tuple[CheckResult, ...]:
    """Every check that applies to the cell."""
    results = []
    for check in CHECKS:
        if not check.applies(view):
            continue
        observed, reason = check.observe(view)
        results.append(CheckResult(check, observed, check.limit(view.card), reason))
    return tuple(results)

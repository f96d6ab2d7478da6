"""The checks that a cell must pass before its numbers count. All are blind to the arm and to the result, and fixed by
the card.

One registry, `CHECKS`; each check observes one number and compares it with its limit. A check that cannot be made (no
telemetry) fails with the reason: validity is shown, not assumed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from . import instrument, reuse, start, turns
from .metrics import inverted_cdf
from .records import Record
from .view import NO_TELEMETRY, CellView, Observation
from .window import NS_PER_S, chunk_times

#: a request counts as ready on time if its lag is at most this many times the limit on the lag's p99
ON_TIME = 10.0


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


def _lags(view: CellView) -> np.ndarray[Any, np.dtype[np.float64]]:
    lags = view.counted.select((pl.col("queued") - pl.col("scheduled")) / NS_PER_S).to_series().drop_nulls()
    return np.sort(lags.to_numpy())


def _lag_p99(view: CellView) -> Observation:
    lags = _lags(view)
    return (inverted_cdf(lags, 99), None) if len(lags) else (None, "no counted attempt was taken up")


def _counted_planned(view: CellView) -> int | None:
    if view.open_loop:
        due = view.planned.filter((pl.col("phase") == "measure") & pl.col("offset").is_not_null()).height
        # later turns come when answers do: those that came, and those that should have
        return due + view.counted.filter(pl.col("turn") > 0).height + turns.turns_missing(view)
    return None if view.client is None else view.client["counted_planned"]


def _delivered(view: CellView) -> Observation:
    planned = _counted_planned(view)
    if planned is None:
        # closed loop by time: the load decides how many there are, so there is no number to deliver
        return (None, "no client telemetry") if view.client is None else (0.0, None)
    if planned == 0:
        return None, "the plan puts no request into the window"
    if not view.open_loop:
        return abs(view.counted.height / planned - 1), None
    on_time = int((_lags(view) <= ON_TIME * view.card["validity"]["schedule_lag_p99"]).sum())
    return abs(on_time / planned - 1), None


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


def _accounted(view: CellView) -> Observation:
    """Planned attempts without a row + rows too many + rows that the plan does not have."""
    rows = view.events["index"]
    planned = view.planned.select("index", "phase", "client")
    repeated = view.events.height - rows.n_unique()
    strangers = view.events.filter(~pl.col("index").is_in(planned["index"].to_list())).height
    if view.open_loop:
        due = view.planned.filter((pl.col("phase") == "measure") & pl.col("offset").is_not_null())["index"]
    elif turns.has_turns(view):
        # a client begins its conversations in order, and leaves out what a failed turn left unsaid
        first = view.planned.filter(pl.col("turn") == 0).select("index", "client")
        due = _before_the_last(first, rows)
    else:
        # client c takes its own requests in order
        due = _before_the_last(planned, rows)
    missing = due.len() - due.is_in(rows.to_list()).sum()
    missing += turns.turns_missing(view) if turns.has_turns(view) else 0
    return float(repeated + strangers + missing), None


def _before_the_last(planned: pl.DataFrame, rows: pl.Series) -> pl.Series:
    """The planned requests that must be there, since the same client has taken one after them."""
    taken = planned.filter(pl.col("index").is_in(rows.to_list()))
    last = taken.group_by("client").agg(last=pl.col("index").max())
    return planned.join(last, on="client").filter(pl.col("index") <= pl.col("last"))["index"]


def _off_plan(view: CellView) -> Observation:
    """Rows whose cell, arm, load, prompt or (open loop) phase or scheduled time is not the planned one; later turns
    that do not follow from an answer; in a closed loop, rows whose phase does not follow from their scheduled time (a
    window that is a time), or from the order in which clients took them up (a count)."""
    plan = view.planned.select("index", "phase", "offset", "prompt_digest")
    rows = view.events.join(plan, on="index", suffix="_planned")
    wrong = (pl.col("cell") != view.cell.cell) | pl.col("prompt_digest").ne_missing(pl.col("prompt_digest_planned"))
    wrong |= (pl.col("arm") != view.cell.arm) | (pl.col("load") != view.cell.load)
    if turns.has_turns(view):
        wrong |= pl.col("index").is_in(turns.off_course(view).to_list())
    if view.open_loop:
        if view.client is None:
            return NO_TELEMETRY
        at = pl.col("scheduled") - view.client["load_start"]
        elsewhere = (pl.col("phase") != pl.col("phase_planned")) | at.ne_missing(pl.col("offset"))
        if view.window is not None and turns.has_turns(view):
            inside = (pl.col("scheduled") >= view.window.start) & (pl.col("scheduled") < view.window.end)
            elsewhere = pl.when(pl.col("turn") > 0).then(inside != (pl.col("phase") == "measure")).otherwise(elsewhere)
        return float(rows.filter(wrong | elsewhere).height), None
    if "seconds" in view.card["workload"]["window"]["measure"] and view.window is not None:
        # the window is a time: what was scheduled inside it counts, and nothing else, in whatever order it was taken up
        inside = (pl.col("scheduled") >= view.window.start) & (pl.col("scheduled") < view.window.end)
        return float(rows.filter(wrong | (inside != (pl.col("phase") == "measure"))).height), None
    rank = pl.col("phase").replace_strict({"warmup": 0, "measure": 1, "drain": 2}, default=3, return_dtype=pl.Int32)
    taken = view.events.sort("queued", "scheduled", "index").select(step=rank.diff())
    return float(rows.filter(wrong).height + taken.filter(pl.col("step") < 0).height), None


def _planned_window(view: CellView) -> tuple[int, int] | None:
    """The window of an open loop as card and plan have it: start and end, ns of the run."""
    if view.client is None:
        return None
    spec, start = view.card["workload"]["window"], int(view.client["load_start"])
    first = {phase: view.planned.filter(pl.col("phase") == phase)["offset"].min() for phase in ("measure", "drain")}
    warmup, measure = ((spec.get(part) or {}).get("seconds") for part in ("warmup", "measure"))
    opens: Any = first["measure"] if warmup is None or measure is None else round(warmup * NS_PER_S)
    if opens is None:
        return None
    closes: Any = first["drain"] if measure is None else opens + round(measure * NS_PER_S)
    return None if closes is None else (start + int(opens), start + int(closes))


def _outside_window(view: CellView) -> Observation:
    if view.window is None:
        return None, "no client telemetry" if view.client is None else "no measured window"
    window = view.card["workload"]["window"]
    by_count = any("requests" in (window.get(part) or {}) for part in ("warmup", "measure"))
    if by_count and not view.open_loop:
        # the counted ones are told by the order in which clients took them up, which may differ from that of their
        # scheduled times by the length of a client's turn
        return 0.0, None
    if view.open_loop and _planned_window(view) != (view.window.start, view.window.end):
        return float(max(1, view.counted.height)), None
    inside = (pl.col("scheduled") >= view.window.start) & (pl.col("scheduled") < view.window.end)
    return float(view.counted.filter(~inside).height), None


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


def _plan_exhausted(view: CellView) -> Observation:
    return NO_TELEMETRY if view.client is None else (float(bool(view.client["plan_exhausted"])), None)


def _cut_off(view: CellView) -> Observation:
    cut = (pl.col("outcome") == "cancelled") | (pl.col("end").is_null() & (pl.col("outcome") != "unsent"))
    return float(view.counted.filter(cut).height), None


def _zero(_: Record) -> float:
    return 0.0


def _card_limit(key: str) -> Callable[[Record], float]:
    return lambda card: float(card["validity"][key])


CHECKS: tuple[Check, ...] = (
    Check(
        "schedule_lag_p99", "s", "how late the client took up 99% of the counted requests, against the schedule",
        "Give the client more CPU, lower the load, or raise the limit in the card before the next run.",
        _card_limit("schedule_lag_p99"), _lag_p99, lambda view: view.open_loop,
    ),
    Check(
        "delivered_load", "1",
        f"share of the planned counted requests that the client was not ready to send on time (lag ≤ {ON_TIME:g} × the "
        "limit on schedule_lag_p99), whatever the server did",
        "The load that was run is not the load that was declared: lower it, or give the client more CPU.",
        _card_limit("delivered_load_within"), _delivered,
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
        _zero, _accounted,
    ),
    Check(
        "on_plan", "attempts", "attempts whose cell, prompt, phase or scheduled time is not the planned one",
        "The events are not of this plan: a fault of the runner, or tampering.",
        _zero, _off_plan,
    ),
    Check(
        "history", "attempts", "later turns whose prompt the server counts as another than what was said before",
        "The conversation that was measured is not the one that was declared: is the server's tokenizer the model's?",
        _zero, turns.history, turns.exact_history,
    ),
    Check(
        "cached_beyond_plan", "1",
        "by how much the cached share of prompt tokens exceeds what the plan lets be reused",
        "The cache held what this cell did not put there: start the server anew, or use cache_state: reset.",
        _card_limit("cached_beyond_plan"), reuse.beyond_plan, reuse.share_known,
    ),
    Check(
        "window", "attempts", "counted attempts outside the measured window (all, if it is not the planned one)",
        "Rates divide by this window: a fault of the runner.",
        _zero, _outside_window,
    ),
    Check(
        "time_order", "attempts", "attempts whose times run backwards or do not fit their chunks",
        "The clock or the events are broken: a fault of the runner, or tampering.",
        _zero, _out_of_order,
    ),
    Check(
        "plan_exhausted", "", "the load outran the planned requests (1: it did)",
        "The server was faster than planned for: plan more requests, or a shorter window.",
        _zero, _plan_exhausted,
    ),
    Check(
        "complete", "attempts", "counted attempts that were cut off before their end or their timeout",
        "Let the drain last at least timeout_total, and do not stop the run inside a cell.",
        _zero, _cut_off,
    ),
    Check(
        "server_start", "faults",
        "what is wrong with the record of the server's start: none, of another cell, or with times that run backwards",
        "What a cold start is about was not measured: a fault of the runner, or tampering.",
        _zero, start.start_faults, start.applies,
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

"""Whether a cell ran as card and plan have it: every request that was due, on time, of the planned prompt, phase and
window."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from . import turns
from .metrics import inverted_cdf
from .view import NO_TELEMETRY, CellView, Observation
from .window import NS_PER_S

#: a request counts as ready on time if its lag is at most this many times the limit on the lag's p99
ON_TIME = 10.0


def _lags(view: CellView) -> np.ndarray[Any, np.dtype[np.float64]]:
    lags = view.counted.select((pl.col("queued") - pl.col("scheduled")) / NS_PER_S).to_series().drop_nulls()
    return np.sort(lags.to_numpy())


def lag_p99(view: CellView) -> Observation:
    """The 99th percentile of how late the client took up the counted attempts, s."""
    lags = _lags(view)
    return (inverted_cdf(lags, 99), None) if len(lags) else (None, "no counted attempt was taken up")


def _counted_planned(view: CellView) -> int | None:
    if view.open_loop:
        due = view.planned.filter((pl.col("phase") == "measure") & pl.col("offset").is_not_null()).height
        # later turns come when answers do: those that came, and those that should have
        return due + view.counted.filter(pl.col("turn") > 0).height + turns.turns_missing(view)
    return None if view.client is None else view.client["counted_planned"]


def delivered(view: CellView) -> Observation:
    """How far the number of requests the client was ready to send on time is from the planned one, as a share of it."""
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


def accounted(view: CellView) -> Observation:
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
        due = before_the_last(first, rows)
    else:
        # client c takes its own requests in order
        due = before_the_last(planned, rows)
    missing = due.len() - due.is_in(rows.to_list()).sum()
    missing += turns.turns_missing(view) if turns.has_turns(view) else 0
    return float(repeated + strangers + missing), None


def before_the_last(planned: pl.DataFrame, rows: pl.Series) -> pl.Series:
    """The planned requests that must be there, since the same client has taken one after them."""
    taken = planned.filter(pl.col("index").is_in(rows.to_list()))
    last = taken.group_by("client").agg(last=pl.col("index").max())
    return planned.join(last, on="client").filter(pl.col("index") <= pl.col("last"))["index"]


def off_plan(view: CellView) -> Observation:
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


def outside_window(view: CellView) -> Observation:
    """Counted attempts outside the measured window; all of them where it is not the planned one."""
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


def plan_exhausted(view: CellView) -> Observation:
    """1 if the load outran the planned requests."""
    return NO_TELEMETRY if view.client is None else (float(bool(view.client["plan_exhausted"])), None)


def cut_off(view: CellView) -> Observation:
    """Counted attempts that were cut off before their end or their timeout."""
    cut = (pl.col("outcome") == "cancelled") | (pl.col("end").is_null() & (pl.col("outcome") != "unsent"))
    return float(view.counted.filter(cut).height), None

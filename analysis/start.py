"""Cold starts (`workload.test: cold_start`): the start of a cell's server and the first requests that it answered.

The server's start is evidence of the runner's (telemetry/start-<cell>.parquet); everything else is in the events. Times
are ns since the run's epoch, values seconds. What is undefined is None with a counted reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl

from .records import Record
from .view import CellView, Observation
from .window import NS_PER_S, Window

#: the fewest replies in the second half of the window whose median says how fast the server is once it is warm
SETTLED_REPLIES = 5

NO_START = "no record of the server's start"
_NO_ATTEMPTS = "no attempts in the window"
_NO_TIME = "no time of a first token"

#: (value, samples, reasons by count)
Found = tuple[float | None, int, dict[str, int]]


@dataclass(frozen=True)
class Started:
    """What remains of a cold start once its cell's events are closed: its server's start, and the seconds between ready
    and the schedule of the first counted request."""

    start: Record | None
    idle: float | None


@dataclass(frozen=True)
class ColdStart:
    """A cell of a cold start. `start` is its server's start (launched, looked, ready), None where no record of it is
    left; `attempts` are the counted ones in the order of their schedule."""

    start: Record | None
    attempts: pl.DataFrame
    window: Window | None

    @property
    def started(self) -> Started:
        """What is kept of it."""
        if self.start is None or self.attempts.height == 0:
            return Started(self.start, None)
        return Started(self.start, float(self.attempts["scheduled"][0] - self.start["ready"]) / NS_PER_S)


def cold_start(card: Record) -> bool:
    """Whether starts and first requests are what the card measures. A card of before has no such key: serving."""
    return bool(card["workload"].get("test") == "cold_start")


def facts(start: Record | None, attempts: pl.DataFrame, window: Window | None) -> ColdStart:
    """What the metrics of a cold start are computed from, of the counted attempts."""
    columns = attempts.select("scheduled", "index", "outcome", "first_token", "streamed")
    return ColdStart(start, columns.sort("scheduled", "index"), window)


def ready(cell: ColdStart) -> Found:
    """ready - launched."""
    if cell.start is None:
        return None, 0, {NO_START: 1}
    return (cell.start["ready"] - cell.start["launched"]) / NS_PER_S, 1, {}


def first_token(cell: ColdStart) -> Found:
    """(first token of any answered request - launched) - (first request's schedule - ready).

    Requests that failed before the first answer stay in it: their user waited, too.
    """
    if cell.start is None:
        return None, 0, {NO_START: 1}
    if cell.attempts.height == 0:
        return None, 0, {_NO_ATTEMPTS: 0}
    answered = cell.attempts.filter(pl.col("outcome") == "ok")
    if answered.height == 0:
        return None, 0, {"no request was answered": cell.attempts.height}
    at = answered["first_token"].drop_nulls().to_list()
    if not at:
        return None, 0, {_NO_TIME: answered.height}
    waited = (min(at) - cell.attempts["scheduled"][0]) + (cell.start["ready"] - cell.start["launched"])
    return waited / NS_PER_S, 1, {}


def first_ttft(cell: ColdStart) -> Found:
    """TTFT of the first counted request."""
    if cell.attempts.height == 0:
        return None, 0, {_NO_ATTEMPTS: 0}
    first = cell.attempts.row(0, named=True)
    if first["outcome"] != "ok":
        return None, 0, {f"the first request failed: {first['outcome']}": 1}
    if first["first_token"] is None:
        return None, 0, {"not streamed" if first["streamed"] is False else _NO_TIME: 1}
    return (first["first_token"] - first["scheduled"]) / NS_PER_S, 1, {}


def first_slowdown(cell: ColdStart) -> Found:
    """TTFT of the first counted request / median TTFT of the ok requests in the second half of the window."""
    first, _, reasons = first_ttft(cell)
    if first is None:
        return None, 0, reasons
    if cell.window is None:
        return None, 0, {"no measured window": 1}
    half = (cell.window.start + cell.window.end) / 2
    later = cell.attempts.slice(1).filter((pl.col("scheduled") >= half) & (pl.col("outcome") == "ok"))
    ttfts = (later["first_token"] - later["scheduled"]).drop_nulls().to_numpy()
    if len(ttfts) < SETTLED_REPLIES:
        return None, 0, {f"fewer than {SETTLED_REPLIES} replies in the second half of the window": 1}
    settled = float(np.quantile(ttfts, 0.5, method="inverted_cdf")) / NS_PER_S
    if settled <= 0:
        return None, 0, {"a median TTFT of 0 in the second half of the window": 1}
    return first / settled, 1 + len(ttfts), {}


def applies(view: CellView) -> bool:
    """The check of the start is one of cold starts."""
    return cold_start(view.card)


def start_faults(view: CellView) -> Observation:
    """How much is wrong with the start's record: it is of another cell; its times run backwards; the load began before
    the server was ready."""
    start = view.start
    if start is None:
        return None, NO_START
    order = [start["launched"], start["launched"] if start["looked"] is None else start["looked"], start["ready"]]
    if view.client is not None:
        order.append(view.client["load_start"])
    backwards = sum(earlier > later for earlier, later in pairwise(order))
    return float((start["cell"] != view.cell.cell) + backwards), None

"""What the machine did over a cell's window, from samples: counters become rates, gauges means.

A counter's mean rate over the window [s, e] is (C(e) − C(s)) / (e − s), with C on straight lines between the looks; its
least and most are over the intervals between looks that the window touches, so that the mean, their weighted average,
lies between. A gauge's are over the looks in the window; where none lies inside, over the last before and the first
after it. A counter that falls was reset (or its process ended): what stands on it is undefined, never negative.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from .window import NS_PER_S

Floats = npt.NDArray[np.float64]

RESET = "a counter fell: it was reset, or its process ended"
OUTSIDE = "the looks do not enclose the measured window"
GONE = "not told at every look"


@dataclass(frozen=True)
class Found:
    """A quantity over a window: mean, least, most over `n` looks or intervals; or why it is undefined."""

    mean: float | None
    min: float | None
    max: float | None
    n: int
    undefined: str | None = None


def undefined(reason: str) -> Found:
    """A quantity that has no value, and why."""
    return Found(None, None, None, 0, reason)


@dataclass(frozen=True)
class Looks:
    """The looks at a machine: their times (ns, rising) and each series' values at them (NaN where it was not told)."""

    times: npt.NDArray[np.int64]
    series: dict[str, list[tuple[dict[str, str], Floats]]]

    def of(self, name: str, **match: str) -> list[Floats]:
        """The values of each series of that name whose labels match."""
        return [
            values
            for labels, values in self.series.get(name, [])
            if all(labels.get(key) == wanted for key, wanted in match.items())
        ]


def looks(frame: pl.DataFrame) -> Looks:
    """A cell's host telemetry (time, name, labels, value) as series over its looks."""
    times = np.unique(frame["time"].to_numpy())
    series: dict[str, list[tuple[dict[str, str], Floats]]] = {}
    for (name, labels), rows in frame.group_by(["name", "labels"], maintain_order=True):
        values = np.full(len(times), np.nan)
        values[np.searchsorted(times, rows["time"].to_numpy())] = rows["value"].to_numpy()
        found = json.loads(str(labels))
        told = found if isinstance(found, dict) else {}
        series.setdefault(str(name), []).append((told, unwrapped(values, told.get("wraps"))))
    return Looks(times, series)


def unwrapped(values: Floats, wraps: object) -> Floats:
    """A counter that starts again from 0 at `wraps`, as one that does not."""
    try:
        limit = float(str(wraps))
    except ValueError:
        return values
    falls = np.concatenate([[0.0], np.cumsum(np.diff(values) < 0)])
    return values + limit * falls if np.isfinite(limit) else values


Window = tuple[int, int]


def ratio(looked: Looks, window: Window, above: Floats, below: Floats) -> Found:
    """The growth of one counter over that of another, over the window."""
    start, end = window
    times = looked.times
    if len(times) < 2 or not times[0] <= start < end <= times[-1]:
        return undefined(OUTSIDE)
    first = int(np.searchsorted(times, start, side="right")) - 1
    last = int(np.searchsorted(times, end, side="left"))
    part = slice(first, last + 1)
    if np.isnan(above[part]).any() or np.isnan(below[part]).any():
        return undefined(GONE)
    grown, base = np.diff(above[part]), np.diff(below[part])
    if (grown < 0).any() or (base <= 0).any():
        return undefined(RESET)
    at = np.array([start, end], dtype=np.float64)
    numerator, denominator = (np.diff(np.interp(at, times[part], values[part]))[0] for values in (above, below))
    if denominator <= 0:
        return undefined(OUTSIDE)
    rates = grown / base
    # rounding must not put the mean outside of what it is the mean of
    mean = float(np.clip(numerator / denominator, rates.min(), rates.max()))
    return Found(mean, float(rates.min()), float(rates.max()), len(rates))


def at_most_one(found: Found) -> Found:
    """A share of a whole: what rounding put above 1 is 1."""
    if found.mean is None or found.min is None or found.max is None:
        return found
    return Found(min(1.0, found.mean), min(1.0, found.min), min(1.0, found.max), found.n)


def rate(looked: Looks, window: Window, counter: Floats) -> Found:
    """A counter's growth a second."""
    # from the first look on: monotonic ns are too large for differences of a counter to keep their digits
    seconds = (looked.times - looked.times[0]) / NS_PER_S
    return ratio(looked, window, counter, seconds)


def gauge(looked: Looks, window: Window, values: Floats) -> Found:
    """A gauge over the looks of the window."""
    start, end = window
    inside = values[(looked.times >= start) & (looked.times <= end)]
    if not len(inside):
        before, after = values[looked.times < start], values[looked.times > end]
        inside = np.concatenate([before[-1:], after[:1]])
    inside = inside[~np.isnan(inside)]
    if not len(inside):
        return undefined(GONE)
    return Found(float(inside.mean()), float(inside.min()), float(inside.max()), len(inside))


def over(found: list[Floats], how: str) -> Floats:
    """Several series as one: their sum, mean or max at each look (NaN where one is missing)."""
    stacked = np.stack(found)
    if how == "sum":
        return np.asarray(stacked.sum(axis=0), dtype=np.float64)
    return np.asarray(stacked.mean(axis=0) if how == "mean" else stacked.max(axis=0), dtype=np.float64)

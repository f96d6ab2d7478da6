"""The samples of a cell's metrics pages (before, during, after the load) -> changes, gauges over time, and resets."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import polars as pl

from .server_names import BY_NAME, PROCESS_START, SERVER_NAMES, ServerName
from .window import NS_PER_S

#: in `gauges`: over all engines together
ALL = ""


#: of one sample: labels -> value
Samples = dict[str, float]


@dataclass(frozen=True)
class Gauge:
    """A gauge over the load: the integral over time (its unit × s), the time (s), the most, the number of samples, and
    their standard deviation (None from fewer than two)."""

    integral: float
    seconds: float
    most: float
    samples: int
    stdev: float | None

    @property
    def mean(self) -> float:
        """Mean over time."""
        return self.integral / self.seconds


@lru_cache(maxsize=4096)
def _engine(labels: str) -> str:
    try:
        return str(json.loads(labels).get("engine", "0"))
    except (ValueError, AttributeError):
        return "0"


@lru_cache(maxsize=4096)
def _reason(labels: str) -> str | None:
    """Why requests ended that are counted under these labels."""
    try:
        found = json.loads(labels).get("finished_reason")
    except (ValueError, AttributeError):
        return None
    return None if found is None else str(found)


def _within(time: int, value: float, span: tuple[int, int] | None) -> bool:
    return math.isfinite(value) and (span is None or span[0] <= time <= span[1])


class Page:
    """The samples by when and name. Of `during`, each label set's values in the order of time."""

    def __init__(self, samples: pl.DataFrame) -> None:
        wanted = [PROCESS_START]
        wanted += [s for row in SERVER_NAMES for name in row.exposed for s in (*row.samples(name), f"{name}_created")]
        rows = samples.lazy().filter(pl.col("name").is_in(wanted)).collect()
        self.ends: dict[str, dict[str, Samples]] = {"before": {}, "after": {}}
        self.during: dict[str, dict[str, list[tuple[int, float]]]] = {}
        for when, name, labels, value, time in rows.select("when", "name", "labels", "value", "time").iter_rows():
            if when == "during" and time is not None:
                self.during.setdefault(name, {}).setdefault(labels, []).append((time, value))
            elif when in self.ends:
                self.ends[when].setdefault(name, {})[labels] = value
        for by_labels in self.during.values():
            for series in by_labels.values():
                series.sort()

    def exposed(self, row: ServerName) -> str | None:
        """The first of a row's names that the page has after the load or had during it; else before it."""
        for pages in ((self.ends["after"], self.during), (self.ends["before"],)):
            for name in row.exposed:
                if any(row.samples(name)[0] in page for page in pages):
                    return name
        return None

    def reset(self) -> str | None:
        """What shows that the server was restarted, its counters reset, or that another server answered; or None."""
        again = "(was the server restarted within the cell, or did another replica answer?)"
        if len(self._values(PROCESS_START)) > 1:
            return f"{PROCESS_START} changed {again}"
        for row in SERVER_NAMES:
            exposed = None if row.kind == "gauge" else self.exposed(row)
            if exposed is None:
                continue
            made = f"{exposed}_created"
            before, after = self.ends["before"].get(made, {}), self.ends["after"].get(made, {})
            if any(before[labels] != after[labels] for labels in before.keys() & after.keys()):
                return f"{made} changed {again}"
            for name in row.samples(exposed):
                what = self._broken(name)
                if what is not None:
                    return f"{name} {what} {again}"
        return None

    def _values(self, name: str) -> set[float]:
        ends = [value for when in self.ends.values() for value in when.get(name, {}).values()]
        during = [value for series in self.during.get(name, {}).values() for _, value in series]
        return set(filter(math.isfinite, [*ends, *during]))

    def _broken(self, name: str) -> str | None:
        before, after = self.ends["before"].get(name, {}), self.ends["after"].get(name, {})
        if after and set(before) - set(after):
            return "lost a label set"
        for labels in {*before, *after, *self.during.get(name, {})}:
            values = [before.get(labels), *(v for _, v in self.during.get(name, {}).get(labels, [])), after.get(labels)]
            # NaN is neither before nor after anything, and would hide a fall
            known = [value for value in values if value is not None and math.isfinite(value)]
            if any(later < former for former, later in itertools.pairwise(known)):
                return "went backwards"
        return None

    def changes(self, row: ServerName, exposed: str) -> tuple[dict[str, dict[str, float]], str | None]:
        """By key (`name`, or `name.sum` and `name.count`) and engine; or nothing, with the reason."""
        found: dict[str, dict[str, float]] = {}
        keys = (row.name,) if row.kind == "counter" else (f"{row.name}.sum", f"{row.name}.count")
        for key, sample in zip(keys, row.samples(exposed), strict=True):
            before, after = self.ends["before"].get(sample), self.ends["after"].get(sample)
            if after is None:
                return {}, f"{sample} was not read after the load"
            if before is None:
                return {}, f"{sample} was not read before the load"
            by_engine: dict[str, float] = {}
            for labels, value in after.items():
                # a label set that appears under load starts from zero
                change = value - before.get(labels, 0.0)
                if not math.isfinite(change):
                    return {}, f"{sample} is not a finite number"
                by_engine[_engine(labels)] = by_engine.get(_engine(labels), 0.0) + change
            found[key] = by_engine
        return found, None

    def aborted(self) -> float:
        """Requests that the server counts as finished because they were aborted."""
        exposed = self.exposed(BY_NAME["finished"])
        after = self.ends["after"].get(f"{exposed}_total", {})
        before = self.ends["before"].get(f"{exposed}_total", {})
        return sum(value - before.get(labels, 0.0) for labels, value in after.items() if _reason(labels) == "abort")

    def in_system(self, missing: Mapping[str, str], span: tuple[int, int] | None) -> tuple[Gauge | None, str | None]:
        """Running and waiting together, sample by sample."""
        at: dict[int, float] = {}
        for name in ("running", "waiting"):
            exposed = self.exposed(BY_NAME[name])
            if exposed is None or name in missing:
                return None, missing.get(name)
            for series in self.during[exposed].values():
                for time, value in series:
                    at[time] = at.get(time, 0.0) + value
        return over_time({time: value for time, value in at.items() if _within(time, value, span)}, span), None

    def gauge(self, row: ServerName, exposed: str, span: tuple[int, int] | None) -> dict[str, Gauge]:
        """By engine, and over all: the sum over labels and engines, or of a share the mean."""
        by_engine: dict[str, dict[int, list[float]]] = {}
        for labels, series in self.during.get(row.samples(exposed)[0], {}).items():
            at = by_engine.setdefault(_engine(labels), {})
            for time, value in series:
                at.setdefault(time, []).append(value)
        of_engine = {engine: _combined(row, at) for engine, at in by_engine.items()}
        together: dict[int, list[float]] = {}
        for values in of_engine.values():
            for time, value in values.items():
                together.setdefault(time, []).append(value)
        found: dict[str, Gauge] = {}
        for engine, values in {**of_engine, ALL: _combined(row, together)}.items():
            gauge = over_time({at: value for at, value in values.items() if _within(at, value, span)}, span)
            found |= {} if gauge is None else {engine: gauge}
        return found


def _combined(row: ServerName, at: Mapping[int, list[float]]) -> dict[int, float]:
    """Several values at each time as one: their sum, or of a share the mean. One that is no number leaves none."""
    return {time: sum(values) / (len(values) if row.unit == "1" else 1) for time, values in at.items()}


def over_time(at: Mapping[int, float], span: tuple[int, int] | None) -> Gauge | None:
    """A gauge from its samples by time (ns): each stands for the time that is nearer to it than to any other, up to the
    ends of the span. None where there is no sample, or no
    time between them."""
    if not at:
        return None
    times = np.array(sorted(at), dtype=np.float64)
    values = np.array([at[int(time)] for time in times])
    start, end = span if span is not None else (times[0], times[-1])
    edges = np.concatenate(([start], (times[1:] + times[:-1]) / 2, [end]))
    widths = np.diff(edges) / NS_PER_S
    seconds = float(widths.sum())
    if not seconds > 0:
        return None
    stdev = float(values.std(ddof=1)) if len(values) > 1 else None
    return Gauge(float(values @ widths), seconds, float(values.max()), len(values), stdev)

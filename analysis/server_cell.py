"""A cell's samples of the server's metrics page -> what changed over the load, and how gauges stood while it ran.

A counter's (or histogram's) change is its value after the load less its value before, by engine, summed over the other
labels. A gauge's mean is over the time of the load: each sample taken during it stands for the time that is nearer to
it than to any other sample. The page before and after the load shows an idle server, so neither counts in it.

What a reset has touched is unknown, never negative: one counter that went backwards (between any two samples), a label
set that was lost, another start time of the process or another creation time of a counter make every number of the
cell unknown, since a counter that was at 0 before would not show that it was reset, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from .records import Record
from .server_names import SERVER_NAMES, ServerName
from .server_page import ALL, Gauge, Page
from .window import NS_PER_S


@dataclass(frozen=True)
class ServerCell:
    """What the server told of itself over one cell. `changes` holds counters by canonical name, and histograms as
    `name.sum` and `name.count`, each by engine; `gauges` likewise, with their combination over engines under ALL.
    `missing` says of a canonical name why there is no number; `reset` says that there was one, and what showed it."""

    seconds: float | None
    changes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    gauges: Mapping[str, Mapping[str, Gauge]] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    reset: str | None = None
    engines: tuple[str, ...] = ()
    #: requests that the server counts as finished because they were aborted
    aborted: float = 0.0
    #: running and waiting together, sample by sample; or None with the reason
    in_system: tuple[Gauge | None, str | None] = (None, "it was not read")

    def mean_of(self, name: str) -> float | None:
        """The mean of a histogram over the cell, or None."""
        total, count = self.change(f"{name}.sum")[0], self.change(f"{name}.count")[0]
        return total / count if total is not None and count else None

    def change(self, name: str, engine: str | None = None) -> tuple[float | None, str | None]:
        """The change of a counter, or of `name.sum` or `name.count`; or None with the reason."""
        found = self.changes.get(name)
        if found is None or self.reset is not None:
            return None, self.why(name)
        if engine is not None:
            return (found[engine], None) if engine in found else (None, f"engine {engine} does not expose it")
        return sum(found.values()), None

    def gauge(self, name: str, engine: str | None = None) -> tuple[Gauge | None, str | None]:
        """A gauge over the load; or None with the reason."""
        found = self.gauges.get(name, {}).get(ALL if engine is None else engine)
        return (None, self.why(name)) if found is None else (found, None)

    def why(self, name: str) -> str:
        """Why there is no number of that name."""
        return self.reset or self.missing.get(name.split(".")[0], "it was not read")


def read_server(samples: pl.DataFrame | None, client: Record | None = None) -> ServerCell | None:
    """The cell's server, or None where its metrics were not read. `client` (the client's telemetry) bounds the load."""
    if samples is None or samples.is_empty():
        return None
    page = Page(samples)
    span = None if client is None else (int(client["load_start"]), int(client["load_end"]))
    seconds = None if span is None or span[1] <= span[0] else (span[1] - span[0]) / NS_PER_S
    reset = page.reset()
    changes: dict[str, dict[str, float]] = {}
    gauges: dict[str, dict[str, Gauge]] = {}
    missing: dict[str, str] = {}
    absent = set()
    for row in SERVER_NAMES:
        exposed = page.exposed(row)
        if exposed is None:
            missing[row.name] = _exposes_none(row)
            absent.add(row.name)
        elif reset is None and row.kind == "gauge":
            found = page.gauge(row, exposed, span)
            gauges |= {row.name: found} if found else {}
            missing |= {} if found else {row.name: f"{exposed} was not sampled during the load"}
        elif reset is None:
            parts, why = page.changes(row, exposed)
            changes |= parts
            missing |= {} if why is None else {row.name: why}
    engines = sorted({*itertools.chain(*changes.values(), *gauges.values())} - {ALL})
    together = (None, reset) if reset else page.in_system(missing, span)
    return ServerCell(
        seconds, changes, gauges, missing, frozenset(absent), reset, tuple(engines), page.aborted(), together
    )


def _exposes_none(row: ServerName) -> str:
    names = [row.samples(name)[0].removesuffix("_sum") for name in row.exposed]
    if len(names) == 1:
        return f"the server does not expose {names[0]}"
    return f"the server exposes none of {', '.join(names)}"

"""Telemetry tables (columns: schema/event.py): the client's view of itself, and the server's own metrics."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...schema.event import CLIENT_COLUMNS, SERVER_COLUMNS, START_COLUMNS
from ...schema.server_names import dated, watched
from ..client.cell import CellLoad
from ..client.record import polars_type
from ..engines.fleet import Start
from ..engines.probe import Endpoint, Probe, parse_metrics
from .page import Page, text_of
from .sampler import Sampler

if TYPE_CHECKING:
    import polars as pl

ServerSample = tuple[int, str, str, str, float]

#: how often, on a card from before there was the key, s
TELEMETRY_EVERY = 1.0
_WATCHED, _DATED = watched(), dated()


def scrape(probe: Probe, when: str) -> list[ServerSample]:
    """The server's metrics now: (monotonic ns, 'before' or 'after', name, labels, value)."""
    now = time.monotonic_ns()
    # Every counter and histogram has a twin that tells when it was made: wanted of those that the analysis reads.
    rows = [row for row in probe.metrics() if not row[0].endswith("_created") or row[0] in _DATED]
    return [(now, when, name, labels, value) for name, labels, value in rows]


@contextmanager
def watch(endpoint: Endpoint, every_s: float) -> Iterator[list[ServerSample]]:
    """The server's metrics while the `with` block runs, every so often; the list is filled when it has ended. A page
    that cannot be had is left out."""
    found: list[ServerSample] = []
    if endpoint.metrics is None:
        yield found
        return
    page = Page(endpoint)
    with Sampler(page.fetch, every_s, "server metrics") as sampler:
        yield found
    page.close()
    for at, kept in sampler.samples:
        rows = parse_metrics(text_of(kept), _WATCHED)
        found += [(at, "during", name, labels, value) for name, labels, value in rows]


def server_frame(cell: str, epoch_ns: int, samples: list[ServerSample]) -> pl.DataFrame:
    """Samples as the server telemetry table."""
    import polars as pl

    rows = [(cell, at - epoch_ns, when, name, labels, value) for at, when, name, labels, value in samples]
    return pl.DataFrame(rows, schema={c.name: polars_type(c) for c in SERVER_COLUMNS}, orient="row")


def client_frame(
    cell: str, epoch_ns: int, load: CellLoad, counted_planned: int | None, certificate: int | None
) -> pl.DataFrame:
    """The client's view of itself over a cell, one row."""
    import polars as pl

    def since(at: int | None) -> int | None:
        """A monotonic time, ns, from the epoch on."""
        return None if at is None else at - epoch_ns

    lags = load.loop_lags
    row = {
        "cell": cell,
        "load_start": since(load.load_start),
        "load_end": since(load.load_end),
        "window_start": since(load.window_start),
        "window_end": since(load.window_end),
        "wall_start": load.wall_start,
        "wall_end": load.wall_end,
        "cpu": load.cpu,
        "run_delay": load.run_delay,
        "loop_lag_p50": _percentile(lags, 50),
        "loop_lag_p99": _percentile(lags, 99),
        "loop_lag_max": lags[-1] if lags else None,
        "peak_in_flight": load.peak_in_flight,
        "reads": load.reads,
        "workers": load.workers,
        "loop": load.loop,
        "timer": load.timer,
        "certificate": certificate,
        "counted_planned": counted_planned,
        "plan_exhausted": load.plan_exhausted,
    }
    return pl.DataFrame([row], schema={c.name: polars_type(c) for c in CLIENT_COLUMNS}, orient="row")


def start_frame(cell: str, epoch_ns: int, start: Start) -> pl.DataFrame:
    """The start of the server that was started for a cell, one row."""
    import polars as pl

    looked = None if start.looked_ns is None else start.looked_ns - epoch_ns
    rows = [(cell, start.launched_ns - epoch_ns, looked, start.ready_ns - epoch_ns)]
    return pl.DataFrame(rows, schema={c.name: polars_type(c) for c in START_COLUMNS}, orient="row")


def _percentile(values: Sequence[int], percent: int) -> int | None:
    """The smallest value with at least so many percent at or below it; `values` are sorted."""
    return values[max(0, -(-percent * len(values) // 100) - 1)] if values else None

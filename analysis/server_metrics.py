"""What servers tell of themselves, over cells: formulas, verdict.json's `server`, and what evidence may rest on.

Each metric is a numerator and a denominator of one cell; over cells it is the ratio of their sums (of a `.max`: the
largest). Counters and histograms are read as their change over the load, so they include its warm-up and drain; gauges
are means over its time. Unknown in one cell is unknown over all, with the reason and the cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from .records import Record
from .server_cell import ServerCell

#: (numerator, denominator, None) of a cell, or zeros with the reason
Part = tuple[float, float, str | None]
Formula = Callable[[ServerCell, str | None], Part]


@dataclass(frozen=True)
class ServerMetric:
    """A metric: unit, what it is, its parts in one cell, what a zero denominator means, what is added to the ratio.
    `largest` combines cells by the most instead of the ratio of sums; `needs` are the canonical names it is made of;
    `optional` ones are left out where no server of the run exposes them (speculation that is off)."""

    unit: str
    meaning: str
    part: Formula
    needs: tuple[str, ...]
    none: str = "nothing was counted"
    offset: float = 0.0
    largest: bool = False
    optional: bool = False


def _ratio(numerator: str, denominator: str) -> Formula:
    def part(cell: ServerCell, engine: str | None) -> Part:
        """The change of one counter over that of the other."""
        above, why = cell.change(numerator, engine)
        below, why_not = cell.change(denominator, engine)
        return (0.0, 0.0, why or why_not) if above is None or below is None else (above, below, None)

    return part


def _rate(name: str) -> Formula:
    def part(cell: ServerCell, engine: str | None) -> Part:
        """The counter's change over the seconds of the load."""
        change, why = cell.change(name, engine)
        if change is None:
            return 0.0, 0.0, why
        return (
            (0.0, 0.0, "the length of the load is not known") if cell.seconds is None else (change, cell.seconds, None)
        )

    return part


def _mean(name: str) -> Formula:
    return _ratio(f"{name}.sum", f"{name}.count")


def _over_time(name: str) -> Formula:
    def part(cell: ServerCell, engine: str | None) -> Part:
        """The gauge's integral over the seconds in which it was sampled."""
        gauge, why = cell.gauge(name, engine)
        return (0.0, 0.0, why) if gauge is None else (gauge.integral, gauge.seconds, None)

    return part


def _most(name: str) -> Formula:
    def part(cell: ServerCell, engine: str | None) -> Part:
        """The gauge's largest sample, over 1."""
        gauge, why = cell.gauge(name, engine)
        return (0.0, 0.0, why) if gauge is None else (gauge.most, 1.0, None)

    return part


def _metric(unit: str, meaning: str, part: Formula, *needs: str, none: str = "nothing was counted") -> ServerMetric:
    return ServerMetric(unit, meaning, part, needs, none)


def _largest(unit: str, meaning: str, name: str) -> ServerMetric:
    return ServerMetric(unit, meaning, _most(name), (name,), largest=True)


_NO_REQUEST = "no request was finished"

SERVER_METRICS: dict[str, ServerMetric] = {
    "server.requests": _metric("req/s", "requests finished, for whatever reason", _rate("finished"), "finished"),
    "server.prompt_tokens": _metric(
        "tokens/s", "prompt tokens of requests that were prefilled, cached ones too", _rate("prompt_tokens"),
        "prompt_tokens",
    ),
    "server.generation_tokens": _metric(
        "tokens/s", "output tokens made", _rate("generation_tokens"), "generation_tokens"
    ),
    "server.running.mean": _metric("requests", "requests in the engine's batches", _over_time("running"), "running"),
    "server.running.max": _largest("requests", "the same, the most seen", "running"),
    "server.queue.mean": _metric("requests", "requests waiting for the engine", _over_time("waiting"), "waiting"),
    "server.queue.max": _largest("requests", "the same, the most seen", "waiting"),
    "server.kv_cache_usage.mean": _metric("1", "share of the KV cache in use", _over_time("kv_usage"), "kv_usage"),
    "server.kv_cache_usage.max": _largest("1", "the same, the most seen", "kv_usage"),
    "server.preemptions": _metric(
        "per request", "preemptions / requests finished", _ratio("preemptions", "finished"), "preemptions", "finished",
        none=_NO_REQUEST,
    ),
    "server.prefix_cache_hit_rate": _metric(
        "1", "prompt tokens found in the prefix cache / looked up", _ratio("prefix_hits", "prefix_queries"),
        "prefix_hits", "prefix_queries", none="no prompt token was looked up in the cache",
    ),
    "server.spec_decode_acceptance_length": ServerMetric(
        "tokens/step", "tokens per speculative step: 1 + accepted / drafts", _ratio("accepted_tokens", "drafts"),
        ("accepted_tokens", "drafts"), "nothing was drafted", 1.0, optional=True,
    ),
    "server.spec_decode_acceptance_rate": ServerMetric(
        "1", "draft tokens accepted / drafted", _ratio("accepted_tokens", "draft_tokens"),
        ("accepted_tokens", "draft_tokens"), "nothing was drafted", optional=True,
    ),
    "server.iteration_tokens.mean": _metric(
        "tokens/step", "tokens in an engine step, prefill and decode", _mean("iteration_tokens"), "iteration_tokens",
        none="the engine made no step",
    ),
    "server.ttft.mean": _metric("s", "arrival at the server -> first token", _mean("ttft"), "ttft"),
    "server.itl.mean": _metric("s", "between a request's engine steps", _mean("itl"), "itl"),
    "server.e2e.mean": _metric("s", "arrival at the server -> last token", _mean("e2e"), "e2e", none=_NO_REQUEST),
    "server.queue_time.mean": _metric("s", "waiting for the engine", _mean("queue_time"), "queue_time"),
    "server.prefill_time.mean": _metric("s", "first scheduled -> first token", _mean("prefill_time"), "prefill_time"),
}  # fmt: skip

#: what a card may name as evidence: mechanisms, not the latencies that they are to change
EVIDENCE = (
    "server.prefix_cache_hit_rate", "server.spec_decode_acceptance_length", "server.spec_decode_acceptance_rate",
    "server.preemptions", "server.kv_cache_usage.mean", "server.kv_cache_usage.max", "server.queue.mean",
    "server.iteration_tokens.mean",
)  # fmt: skip

#: a cell's name and what its server told, None where that was not read
Told = tuple[str, ServerCell | None]


def over_cells(metric: ServerMetric, cells: Iterable[Told], engine: str | None = None) -> Part:
    """(numerator, denominator, None) over cells, or zeros with the reason why they are unknown."""
    above = below = 0.0
    read = 0
    for name, cell in cells:
        if cell is None:
            return 0.0, 0.0, f"{name}: the server's metrics were not read"
        numerator, denominator, why = metric.part(cell, engine)
        if why is not None:
            return 0.0, 0.0, f"{name}: {why}"
        above = max(above, numerator) if metric.largest else above + numerator
        below = 1.0 if metric.largest else below + denominator
        read += 1
    return above, below, None if read else "no cell to read it from"


def server(places: Mapping[tuple[str, int, float], list[Told]]) -> Record:
    """verdict.json's `server`. `places`: the used cells of each (arm, load point, load).

    `rows`: each metric at each place, over all engines (`engine` null) and, where there are several, of each; `cells`
    is how many cells it is over, `samples` how often gauges were sampled in them, `empty` says that there was nothing
    to divide by. `warnings`: what was not exposed, not read, or reset, each once with its cells.
    """
    every = [cell for cells in places.values() for _, cell in cells if cell is not None]
    shown = {name: metric for name, metric in SERVER_METRICS.items() if every and not _idle(metric, every)}
    rows = []
    for (arm, point, load), cells in places.items():
        engines = sorted({engine for _, cell in cells if cell is not None for engine in cell.engines})
        for engine in (None, *(engines if len(engines) > 1 else ())):
            place = {"arm": arm, "load_point": point, "load": load, "engine": engine}
            rows += [place | _row(name, metric, cells, engine) for name, metric in shown.items()]
    return {"rows": rows, "warnings": _warnings(places, shown)}


def _idle(metric: ServerMetric, cells: list[ServerCell]) -> bool:
    return metric.optional and all(set(metric.needs) & cell.absent for cell in cells)


def _row(name: str, metric: ServerMetric, cells: list[Told], engine: str | None) -> Record:
    above, below, why = over_cells(metric, cells, engine)
    value = None if why is not None or below == 0 else metric.offset + above / below
    known = [cell for _, cell in cells if cell is not None]
    gauges = [cell.gauge(metric.needs[0], engine)[0] for cell in known]
    return {
        "metric": name,
        "unit": metric.unit,
        "meaning": metric.meaning,
        "value": value,
        "cells": len(cells),
        "samples": sum(gauge.samples for gauge in gauges if gauge is not None) or None,
        "empty": why is None and below == 0,
        "undefined": why if why is not None else metric.none if below == 0 else None,
    }


def _warnings(places: Mapping[tuple[str, int, float], list[Told]], shown: Mapping[str, ServerMetric]) -> list[Record]:
    """One for each kind and text, with the cells that it is about."""
    found: dict[tuple[str, str], list[str]] = {}
    wanted = list(dict.fromkeys(need for metric in shown.values() for need in metric.needs))
    for cells in places.values():
        for name, cell in cells:
            if cell is None:
                found.setdefault(("unread", "the server's metrics were not read"), []).append(name)
            elif cell.reset is not None:
                found.setdefault(("reset", cell.reset), []).append(name)
            else:
                for need in wanted:
                    if need in cell.missing:
                        found.setdefault(("missing", cell.missing[need]), []).append(name)
    return [{"kind": kind, "text": text, "cells": cells} for (kind, text), cells in found.items()]

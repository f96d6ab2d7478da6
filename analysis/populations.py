"""The populations of a cell's requests, each measured apart.

A population's metrics are those of the whole cell (`metrics.METRICS`) over its own counted attempts: judged by its own
objectives where it has some, its own output tokens, and rates over the cell's window, since that is the time in which
they were served. So the populations' goodputs and throughputs add up to the cell's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from .curves import Curve, thin
from .goodput import Judgement, judge
from .lengths import shorter_than_asked
from .metrics import Measured, Value, measure
from .quantities import quantities
from .records import Record
from .window import Window, tokens_inside


@dataclass(frozen=True)
class Part:
    """What remains of one population of a cell: its metrics, its attempts judged, how many of its replies are `short`
    (as in `CellResult`), and its distribution of TTFT."""

    values: dict[str, Value]
    judgement: Judgement
    short: int
    ttft: Curve


def declared(card: Record) -> dict[str, Record]:
    """The card's populations by name, in its order; none where it declares none."""
    return dict(card["workload"].get("populations") or {})


def own_objectives(card: Record) -> dict[str, dict[str, Any] | None]:
    """Each population's own objectives; None: the card's hold."""
    return {name: own.get("objectives") for name, own in declared(card).items()}


def all_have_objectives(card: Record) -> bool:
    """Whether every attempt can be judged: by the card's objectives, or by its population's own."""
    own = own_objectives(card)
    return card.get("objectives") is not None or (bool(own) and None not in own.values())


def share(population: Record) -> float:
    """The declared share of the requests; where it follows a profile, the mean over its levels."""
    if population.get("share_by_level") is None:
        return float(population["share"])
    levels = [float(level) for level in population["share_by_level"]]
    return sum(levels) / len(levels)


def measure_parts(card: Record, events: pl.DataFrame, counted: pl.DataFrame, window: Window | None) -> dict[str, Part]:
    """Each population of a cell measured; a population without a counted attempt is there, and has undefined values."""
    return {name: _part(card, name, events, counted, window) for name in declared(card)}


def _part(card: Record, name: str, events: pl.DataFrame, counted: pl.DataFrame, window: Window | None) -> Part:
    mine = pl.col("population") == name
    attempts = counted.filter(mine)
    found = quantities(attempts)
    own = declared(card)[name]
    judgement = judge(attempts, found, own.get("objectives") or card.get("objectives"))
    measured = Measured(
        attempted=attempts.height,
        ok=int(found.ok.sum()),
        good=judgement.good,
        tokens=tokens_inside(events.filter(mine), window) if window else 0,
        window_s=window.seconds if window else None,
        quantities=found,
    )
    sampling = own.get("sampling") or {}
    short = shorter_than_asked(attempts) if sampling.get("ignore_eos") else 0
    return Part(measure(measured), judgement, short, thin(found.samples["ttft"]))

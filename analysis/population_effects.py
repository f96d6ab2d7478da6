"""What the treatment did to each population: descriptive, it decides nothing.

The effect is that of `effect.py` without a threshold: over the blocks, the mean of ln(m_candidate / m_baseline) (or of
the difference, for a proportion or where some block has a zero) and its t interval. Each interval stands by itself:
there is no correction for the number of populations, metrics and loads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from . import wording
from .cells import Reading
from .claim import Pairs, pairs
from .effect import MIN_BLOCKS, differences, t_interval
from .metrics import METRICS
from .populations import declared
from .records import Record
from .tables import mean_and_stdev

#: what is compared beside the claim's metric
COMPARED = ("ttft.p50", "tpot.p50", "goodput")


@dataclass(frozen=True)
class Change:
    """A metric's change in one population at one load; on `scale` log or difference. None where undefined."""

    population: str
    load_point: int
    load: float
    metric: str
    pairs: Pairs
    scale: str
    mean: float | None
    stdev: float | None
    interval: tuple[float, float] | None
    reason: str | None

    @property
    def direction(self) -> int:
        """1: better, −1: worse, 0: the interval includes zero, or there is none to go by (too few blocks)."""
        if self.interval is None or len(self.pairs.blocks) < MIN_BLOCKS:
            return 0
        up = 1 if METRICS[self.metric].better == "higher" else -1
        return up if self.interval[0] > 0 else -up if self.interval[1] < 0 else 0


def changes(reading: Reading) -> list[Change]:
    """Every population's change in each compared metric at each load."""
    card = reading.bundle.card
    # metrics of a server's start are nobody's in particular
    metrics = [name for name in dict.fromkeys((card["claim"]["metric"], *COMPARED)) if name in METRICS]
    confidence = float(card["analysis"]["confidence"])
    return [
        _change(name, point, float(load), metric, pairs(reading, metric, point, name), confidence)
        for metric in metrics
        for point, load in enumerate(card["workload"]["loads"], start=1)
        for name in declared(card)
    ]


def _change(population: str, point: int, load: float, metric: str, both: Pairs, confidence: float) -> Change:
    at = (population, point, load, metric, both)
    if both.reason is not None:
        return Change(*at, "log", None, None, None, both.reason)
    ratio = METRICS[metric].scale == "ratio"
    # without a threshold, what effect.py calls "scaled" (a zero in some block) is the plain difference
    scale, d, _ = differences(*both.numbers(), 0.0, ratio, "must_rise_by")
    scale = "difference" if scale == "scaled" else scale
    if len(d) < 2:
        return Change(*at, scale, float(d[0]), None, None, "one block has no spread")
    mean, stdev, lower, upper = t_interval(d, confidence)
    reason = "zero in some block, so no log ratio" if ratio and scale == "difference" else None
    return Change(*at, scale, mean, stdev, (lower, upper), reason)


def effect_rows(found: Sequence[Change]) -> list[Record]:
    """verdict.json's population_effects."""
    return [_row(change) for change in found]


def _row(change: Change) -> Record:
    baseline, _, _ = mean_and_stdev(change.pairs.baseline)
    candidate, _, _ = mean_and_stdev(change.pairs.candidate)
    log = change.scale == "log"
    return {
        "population": change.population,
        "load_point": change.load_point,
        "load": change.load,
        "metric": change.metric,
        "unit": METRICS[change.metric].unit,
        "better": METRICS[change.metric].better,
        "scale": change.scale,
        "blocks": len(change.pairs.blocks),
        "baseline": baseline,
        "candidate": candidate,
        "mean": change.mean,
        "stdev": change.stdev,
        "interval": change.interval,
        "ratio": None if change.mean is None or not log else math.exp(change.mean),
        "ratio_interval": None if change.interval is None or not log else [math.exp(end) for end in change.interval],
        "reason": change.reason,
    }


@dataclass(frozen=True)
class Reversal:
    """A metric at a load that got better in some populations and worse in others, each by its own interval."""

    load_point: int
    load: float
    metric: str
    better: tuple[Change, ...]
    worse: tuple[Change, ...]


def reversals(reading: Reading, found: Sequence[Change]) -> list[Reversal]:
    """Where the treatment made one population better off and another worse; none in a run that is invalid."""
    if not reading.complete:
        return []
    out = []
    for metric, point, load in dict.fromkeys((c.metric, c.load_point, c.load) for c in found):
        here = [change for change in found if (change.metric, change.load_point) == (metric, point)]
        better, worse = (tuple(c for c in here if c.direction == side) for side in (1, -1))
        if better and worse:
            out.append(Reversal(point, load, metric, better, worse))
    return out


def reversal_rows(found: Sequence[Reversal], kind: str, confidence: float) -> list[Record]:
    """verdict.json's population_reversals: the flag, where, who, and a clause for people."""
    return [
        {
            "flag": "reversed_between_populations",
            "load_point": one.load_point,
            "load": one.load,
            "metric": one.metric,
            "better": [change.population for change in one.better],
            "worse": [change.population for change in one.worse],
            "text": _in_words(one, kind, confidence),
        }
        for one in found
    ]


def _in_words(one: Reversal, kind: str, confidence: float) -> str:
    """`at 40 req/s ttft.p50 got better for chat (−12%, 95% interval −16% to −8%) and worse for batch (…)`."""

    def side(changes_: Sequence[Change]) -> str:
        """The populations of one side, each with its change."""
        return wording.listed([f"{c.population} ({_size(c, confidence)})" for c in changes_])

    where = wording.load(one.load, kind)
    return f"at {where} {one.metric} got better for {side(one.better)} and worse for {side(one.worse)}"


def _size(change: Change, confidence: float) -> str:
    if change.interval is None or change.mean is None:
        return "no interval"
    ends = change.interval
    decimals = wording.enough_decimals(ends, 0.0, change.scale, change.metric)
    mean, low, high = (
        wording.signed(wording.on_scale(value, change.scale, change.metric, decimals)) for value in (change.mean, *ends)
    )
    return f"{mean}, {100 * confidence:g}% interval {low} to {high}"

"""Every metric, once: name, formula, unit, better direction, when it is undefined.

Two kinds of rows make the table `METRICS`: scalars of a cell (goodput, error_rate, …) and statistics of a quantity
(`ttft.p95`). `START_METRICS` has those that only cells of a cold start have; `ALL_METRICS` is both. Quantities are
taken from counted attempts with outcome ok; an attempt without one is left out with a counted reason, never as 0.
Percentiles: the smallest value with at least p of the data at or below it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from . import start
from .quantities import QUANTITIES, Quantities
from .records import Record

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """What a cell's metrics are computed from. `good` is None where the card has no objectives; `window_s` is None
    where no window was recorded; samples are sorted, in seconds. `cold` is there where the card measures starts."""

    attempted: int
    ok: int
    good: int | None
    tokens: int
    window_s: float | None
    quantities: Quantities
    cold: start.ColdStart | None = None


@dataclass(frozen=True)
class Value:
    """A metric of a cell: a number, or None with the reasons; `n` is how many samples it stands on."""

    value: float | None
    n: int
    undefined: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Metric:
    """A row of the table. `scale` says how arms are compared: 'ratio' (log ratio) or 'proportion' (points allowed)."""

    name: str
    unit: str
    better: str
    scale: str
    formula: str
    undefined_when: str
    compute: Callable[[Measured], Value]


def _per_second(count: Callable[[Measured], int | None]) -> Callable[[Measured], Value]:
    def compute(cell: Measured) -> Value:
        """The count over the window, per second."""
        number = count(cell)
        if number is None:
            return Value(None, cell.attempted, {"the card has no objectives": cell.attempted})
        if cell.window_s is None:
            return Value(None, cell.attempted, {"no measured window": cell.attempted})
        return Value(number / cell.window_s, cell.attempted)

    return compute


def _per_attempt(count: Callable[[Measured], int | None]) -> Callable[[Measured], Value]:
    def compute(cell: Measured) -> Value:
        """The count over the attempts."""
        number = count(cell)
        if number is None:
            return Value(None, cell.attempted, {"the card has no objectives": cell.attempted})
        if cell.attempted == 0:
            return Value(None, 0, {"no attempts in the window": 0})
        return Value(number / cell.attempted, cell.attempted)

    return compute


_NO_WINDOW = "no measured window"
_NO_ATTEMPTS = "no attempts in the window"

_SCALARS = (
    Metric(
        "goodput", "req/s", "higher", "ratio",
        "good attempts / window", f"{_NO_WINDOW}; no objectives", _per_second(lambda c: c.good),
    ),
    Metric(
        "attainment", "1", "higher", "proportion",
        "good attempts / attempts", f"{_NO_ATTEMPTS}; no objectives", _per_attempt(lambda c: c.good),
    ),
    Metric(
        "error_rate", "1", "lower", "proportion",
        "attempts whose outcome is not ok / attempts", _NO_ATTEMPTS, _per_attempt(lambda c: c.attempted - c.ok),
    ),
    Metric(
        "request_throughput", "req/s", "higher", "ratio",
        "attempts with outcome ok / window", _NO_WINDOW, _per_second(lambda c: c.ok),
    ),
    Metric(
        "output_throughput", "tokens/s", "higher", "ratio",
        "output tokens of ok replies that arrived in the window / window", _NO_WINDOW, _per_second(lambda c: c.tokens),
    ),
)  # fmt: skip


def inverted_cdf(ordered: Floats, percent: int) -> float:
    """The smallest of the sorted values with at least `percent`% of them at or below it (exact: rank
    ⌈n·percent/100⌉)."""
    rank = -(-len(ordered) * percent // 100)
    return float(ordered[max(rank, 1) - 1])


def _percentile(percent: int) -> Callable[[Floats], float]:
    return lambda ordered: inverted_cdf(ordered, percent)


#: statistic -> function of the sorted samples (at least one)
STATISTICS: dict[str, Callable[[Floats], float]] = {
    "mean": lambda ordered: float(np.mean(ordered)),
    **{f"p{percent}": _percentile(percent) for percent in (50, 90, 95, 97, 99)},
    "max": lambda ordered: float(ordered[-1]),
}


def _statistic(quantity: str, statistic: str) -> Metric:
    row = QUANTITIES[quantity]

    def compute(cell: Measured) -> Value:
        """The statistic of the quantity's samples, s."""
        ordered = cell.quantities.samples[quantity]
        undefined = cell.quantities.undefined[quantity]
        if len(ordered) == 0:
            return Value(None, 0, undefined or {_NO_ATTEMPTS: 0})
        return Value(STATISTICS[statistic](ordered), len(ordered), undefined)

    return Metric(
        f"{quantity}.{statistic}", "s", "lower", "ratio",
        f"{statistic} of {row.formula}", row.undefined_when, compute,
    )  # fmt: skip


#: the table: every metric by name, scalars first
METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (*_SCALARS, *(_statistic(quantity, statistic) for quantity in QUANTITIES for statistic in STATISTICS))
}


def _of_start(find: Callable[[start.ColdStart], start.Found]) -> Callable[[Measured], Value]:
    def compute(cell: Measured) -> Value:
        """What is found in the cell's cold start; undefined where there was none."""
        return Value(None, 0, {start.NO_START: 1}) if cell.cold is None else Value(*find(cell.cold))

    return compute


_FIRST = "the first counted request"

#: what only cells of a cold start have, by name
START_METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            "start.ready", "s", "lower", "ratio",
            "ready - launched", start.NO_START, _of_start(start.ready),
        ),
        Metric(
            "start.first_token", "s", "lower", "ratio",
            f"(first token of the first answered request - launched) - (scheduled of {_FIRST} - ready)",
            f"{start.NO_START}; no request was answered", _of_start(start.first_token),
        ),
        Metric(
            "first.ttft", "s", "lower", "ratio",
            f"scheduled -> first token-bearing chunk of {_FIRST}", f"{_FIRST} failed, or was not streamed",
            _of_start(start.first_ttft),
        ),
        Metric(
            "first.slowdown", "times", "lower", "ratio",
            "first.ttft / median TTFT of the ok requests scheduled in the second half of the window",
            f"first.ttft is; fewer than {start.SETTLED_REPLIES} of them", _of_start(start.first_slowdown),
        ),
    )
}  # fmt: skip

ALL_METRICS: dict[str, Metric] = {**METRICS, **START_METRICS}


def metrics_of(card: Record) -> dict[str, Metric]:
    """The metrics that the cells of a card have."""
    return ALL_METRICS if start.cold_start(card) else METRICS


def measure(cell: Measured) -> dict[str, Value]:
    """Every metric of a cell."""
    table = METRICS if cell.cold is None else ALL_METRICS
    return {name: metric.compute(cell) for name, metric in table.items()}

"""The curves that reports draw: series/goodput.parquet (one row a cell), series/latency.parquet (pooled distributions)
series/populations.parquet (those of TTFT, by population) and series/steady.parquet (TTFT over each cell's window).

Pooled distributions describe: requests inside a run are not independent, so the interval beside each value is pointwise
and as if they were, and no verdict stands on it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from .cells import CURVES, Reading
from .curves import Curve, pool
from .percentiles import interval_ranks, value_rank
from .populations import declared
from .tables import arms_and_loads

#: a distribution is drawn at these cumulated shares, in percent
PERCENTS = tuple(range(101))

_GOODPUT = {
    "arm": pl.String,
    "block": pl.Int32,
    "load_point": pl.Int32,
    "load": pl.Float64,
    "attempted_per_s": pl.Float64,
    "goodput": pl.Float64,
    "attainment": pl.Float64,
}
_LATENCY = {
    "arm": pl.String,
    "load_point": pl.Int32,
    "load": pl.Float64,
    "metric": pl.String,
    "percentile": pl.Float64,
    "value_s": pl.Float64,
    "n": pl.Int64,
    "lower_s": pl.Float64,
    "upper_s": pl.Float64,
}
_STEADY = {
    "arm": pl.String,
    "block": pl.Int32,
    "load_point": pl.Int32,
    "load": pl.Float64,
    "batch": pl.Int32,
    "index": pl.Float64,
    "ttft_s": pl.Float64,
}


def goodput_series(reading: Reading) -> pl.DataFrame:
    """Attempted and good requests a second in each used cell."""
    rows = [
        (
            result.cell.arm,
            result.cell.block,
            result.cell.load_point,
            result.cell.load,
            result.judgement.attempted / result.window_s if result.window_s else None,
            result.values["goodput"].value,
            result.values["attainment"].value,
        )
        for result in reading.used()
    ]
    return pl.DataFrame(rows, schema=_GOODPUT, orient="row")


def latency_series(reading: Reading) -> pl.DataFrame:
    """Each latency's distribution at up to 101 shares, pooled over the used blocks of an arm and load."""
    rows: list[tuple[object, ...]] = []
    confidence = float(reading.bundle.card["analysis"]["confidence"])
    for arm, point, load in arms_and_loads(reading):
        cells = reading.used(arm, point)
        for name in CURVES:
            rows += [
                (arm, point, load, name, *row) for row in _pooled([cell.curves[name] for cell in cells], confidence)
            ]
    return pl.DataFrame(rows, schema=_LATENCY, orient="row")


def steady_series(reading: Reading) -> pl.DataFrame:
    """Mean TTFT of each of the parts of a used cell's window, in order of schedule; `index` is the mean position of the
    part's requests among the counted ones."""
    rows = [
        (cell.cell.arm, cell.cell.block, cell.cell.load_point, cell.cell.load, number, batch.index, batch.mean)
        for cell in reading.used()
        for number, batch in enumerate(cell.steady.batches, start=1)
    ]
    return pl.DataFrame(rows, schema=_STEADY, orient="row")


def population_series(reading: Reading) -> pl.DataFrame:
    """Each population's distribution of TTFT, pooled as in `latency_series`."""
    rows: list[tuple[object, ...]] = []
    confidence = float(reading.bundle.card["analysis"]["confidence"])
    for arm, point, load in arms_and_loads(reading):
        cells = reading.used(arm, point)
        for name in declared(reading.bundle.card):
            rows += [
                (arm, point, load, "ttft", *row, name)
                for row in _pooled([cell.parts[name].ttft for cell in cells], confidence)
            ]
    return pl.DataFrame(rows, schema=_LATENCY | {"population": pl.String}, orient="row")


def _pooled(curves: Sequence[Curve], confidence: float) -> list[tuple[float, float, int, float | None, float | None]]:
    """(share, value, samples in all, lower and upper end of the value's interval) of several cells' curves taken
    together, at most at `PERCENTS`; an end is null where n carries none."""
    pooled = pool(curves)
    n = pooled.n
    if n == 0:
        return []
    shares = np.array(PERCENTS) / 100
    values = pooled.at(np.array([value_rank(n, percent) for percent in PERCENTS]))
    lower, upper = interval_ranks(n, shares, confidence)
    low = [float(v) if rank >= 1 else None for v, rank in zip(pooled.at(lower), lower, strict=True)]
    high = [float(v) if rank <= n else None for v, rank in zip(pooled.at(upper), upper, strict=True)]
    points = dict(zip(shares.tolist(), zip(values.tolist(), low, high, strict=True), strict=True))
    if len(pooled.values) < len(PERCENTS):
        points = _distinct(points)
    return [(share, value, n, *ends) for share, (value, *ends) in points.items()]


_Point = tuple[float, float | None, float | None]


def _distinct(points: dict[float, _Point]) -> dict[float, _Point]:
    """The last share at each value (and the first point), so that few samples do not look like many."""
    last = {point[0]: share for share, point in points.items()}
    first = next(iter(points))
    return {share: points[share] for share in (first, *(share for share in last.values() if share != first))}


def write_series(reading: Reading, folder: Path, *, goodput: bool) -> None:
    """Write the series beside the result; each under a temporary name first."""
    folder.mkdir(parents=True, exist_ok=True)
    frames = {"latency": latency_series(reading), "steady": steady_series(reading)}
    if goodput:
        frames["goodput"] = goodput_series(reading)
    if declared(reading.bundle.card):
        frames["populations"] = population_series(reading)
    for name, frame in frames.items():
        temporary = folder / f".{name}.parquet.part"
        frame.write_parquet(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(folder / f"{name}.parquet")

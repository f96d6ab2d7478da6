"""Rows that verdict.json and inference_baseline.json share: blocks, metrics, summary, attribution, validity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .card import ARMS
from .cells import BlockResult, Reading, metric_rows
from .effect import is_rounding
from .goodput import add
from .metrics import metrics_of
from .records import Record
from .validity import validity_rows


def arms_and_loads(reading: Reading) -> list[tuple[str, int, float]]:
    """(arm, load point, load) of the card, arms in the order baseline, candidate."""
    card = reading.bundle.card
    return [
        (arm, point, float(load))
        for arm in ARMS
        if arm in card["arms"]
        for point, load in enumerate(card["workload"]["loads"], start=1)
    ]


def block_rows(blocks: Sequence[BlockResult]) -> list[Record]:
    """Every planned block: used or not, and why not."""
    rows = []
    for result in blocks:
        cells = [
            {
                "cell": planned.cell,
                "arm": planned.arm,
                "load_point": planned.load_point,
                "load": planned.load,
                "valid": cell is not None and not cell.failed_checks,
                "failed_checks": [] if cell is None else cell.failed_checks,
            }
            for planned, cell in zip(result.block.cells, result.cells, strict=True)
        ]
        spare, number = result.block.spare, result.block.block
        rows.append({"block": number, "spare": spare, "used": result.used, "reason": result.reason, "cells": cells})
    return rows


def all_metric_rows(reading: Reading) -> list[Record]:
    """Every metric of every used cell."""
    return metric_rows(reading, {name: metric.unit for name, metric in metrics_of(reading.bundle.card).items()})


def mean_and_stdev(values: Sequence[float | None]) -> tuple[float | None, float | None, str | None]:
    """(mean, stdev over blocks, reason); undefined as soon as one block is, because a block is never dropped."""
    numbers = [value for value in values if value is not None]
    if not values:
        return None, None, "no valid block"
    if len(numbers) < len(values):
        return None, None, f"undefined in {len(values) - len(numbers)} of {len(values)} blocks"
    mean = float(np.mean(numbers))
    if len(numbers) < 2:
        return mean, None, "one block has no spread"
    stdev = float(np.std(numbers, ddof=1))
    return mean, 0.0 if is_rounding(stdev, numbers) else stdev, None


def summary_rows(reading: Reading) -> list[Record]:
    """Mean ± stdev over blocks of every metric, for each arm and load."""
    rows = []
    metrics = metrics_of(reading.bundle.card)
    for arm, point, load in arms_and_loads(reading):
        cells = reading.used(arm, point)
        for name, metric in metrics.items():
            values = [cell.values[name].value for cell in cells]
            mean, stdev, reason = mean_and_stdev(values)
            rows.append(
                {
                    "arm": arm,
                    "load_point": point,
                    "load": load,
                    "metric": name,
                    "unit": metric.unit,
                    "better": metric.better,
                    "mean": mean,
                    "stdev": stdev,
                    "blocks": len(values),
                    "values": values,
                    "reason": reason,
                }
            )
    return rows


def attribution_rows(reading: Reading) -> list[Record]:
    """attempted = good + misses by first cause, for each arm and load over the used blocks, as counts and per
    second."""
    rows = []
    for arm, point, load in arms_and_loads(reading):
        cells = reading.used(arm, point)
        if not cells:
            continue
        total = add(cell.judgement for cell in cells)
        windows = [cell.window_s for cell in cells if cell.window_s is not None]
        window = sum(windows) if len(windows) == len(cells) else None
        rows.append(
            {
                "arm": arm,
                "load_point": point,
                "load": load,
                "window_s": window,
                "attempted": total.attempted,
                "good": total.good,
                "missed": total.missed,
                "first_cause": total.first_cause,
                "outcomes": total.outcomes,
                "per_second": None
                if window is None
                else {
                    "attempted": total.attempted / window,
                    "good": None if total.good is None else total.good / window,
                    "missed": {cause: count / window for cause, count in total.missed.items()},
                    "first_cause": {cause: count / window for cause, count in total.first_cause.items()},
                },
            }
        )
    return rows


def validity(reading: Reading) -> list[Record]:
    """Each check over all cells that were run, and the run's own."""
    ends = [str(line.get("why")) for line in reading.bundle.log if line.get("kind") == "run_ended"]
    early = ends[-1] if ends and ends[-1].startswith(("no spare block left", "identity: ")) else None
    return validity_rows(reading.checked(), reading.valid_blocks, reading.wanted, early)

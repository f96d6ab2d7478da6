"""Metrics pages made by hand: rows as the telemetry table holds them."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

SECOND = 1_000_000_000
TYPES = {"time": pl.Int64, "when": pl.String, "name": pl.String, "labels": pl.String, "value": pl.Float64}


def row(when: str, name: str, value: float, at: float = 0.0, **labels: str) -> dict[str, Any]:
    """One sample, `at` seconds."""
    return {
        "time": round(at * SECOND), "when": when, "name": name, "value": value,
        "labels": json.dumps(labels, separators=(",", ":"), sort_keys=True),
    }  # fmt: skip


def both(name: str, before: float, after: float, **labels: str) -> list[dict[str, Any]]:
    """A counter before and after the load."""
    return [row("before", name, before, -1, **labels), row("after", name, after, 99, **labels)]


def histogram(name: str, before: tuple[float, int], after: tuple[float, int], **labels: str) -> list[dict[str, Any]]:
    """(sum, count) before and after the load, and a bucket, which nothing reads."""
    return [
        *both(f"{name}_sum", before[0], after[0], **labels),
        *both(f"{name}_count", before[1], after[1], **labels),
        *both(f"{name}_bucket", before[1], after[1], le="+Inf", **labels),
    ]


def gauge(name: str, *values: tuple[float, float], **labels: str) -> list[dict[str, Any]]:
    """(second, value) of each sample during the load; idle before and after."""
    return [
        row("before", name, 0.0, -1, **labels),
        *(row("during", name, value, at, **labels) for at, value in values),
        row("after", name, 0.0, 99, **labels),
    ]


def page(*rows: list[dict[str, Any]]) -> pl.DataFrame:
    """The table."""
    return pl.DataFrame([sample for some in rows for sample in some], schema=TYPES)


def load(start: float, end: float) -> dict[str, Any]:
    """What is needed of the client's telemetry: when the load began and ended, s."""
    return {"load_start": round(start * SECOND), "load_end": round(end * SECOND)}

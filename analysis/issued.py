"""Issued against scheduled: whether the arrivals that were declared are the arrivals that were made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from .metrics import inverted_cdf
from .window import NS_PER_S

#: fewer gaps say nothing of how they vary
_GAPS = 10


@dataclass(frozen=True)
class Issued:
    """Of a cell's counted requests: how late 99% of them were taken up at most (s), and the coefficient of variation of
    the gaps between them, by the schedule and as they were taken up. None where there are too few."""

    late: float | None
    planned: float | None
    made: float | None


def issued(counted: pl.DataFrame) -> Issued:
    """How a cell's counted requests were issued."""
    known = counted.filter(pl.col("queued").is_not_null())
    lags = np.sort(((known["queued"] - known["scheduled"]) / NS_PER_S).to_numpy())
    late = inverted_cdf(lags, 99) if len(lags) else None
    return Issued(late, _variation(known["scheduled"]), _variation(known["queued"]))


def _variation(times: pl.Series) -> float | None:
    gaps = times.sort().diff().drop_nulls().to_numpy()
    mean = gaps.mean() if len(gaps) >= _GAPS else 0.0
    return float(gaps.std() / mean) if mean else None


def in_words(cells: Iterable[Issued]) -> str:
    """How a run's requests were issued."""
    parts = list(cells)
    late = [part.late for part in parts if part.late is not None]
    if not late:
        return "unknown (no request was taken up)"
    text = f"99% of the counted requests were taken up within {1000 * max(late):.3g} ms of their time (worst cell)"
    pairs = sorted((p.planned, p.made) for p in parts if p.planned is not None and p.made is not None)
    if not pairs:
        return text
    planned, made = pairs[len(pairs) // 2]
    return f"{text}; gaps vary by {planned:.3g} of their mean in the schedule, by {made:.3g} as made (median cell)"

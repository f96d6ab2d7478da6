"""The measured window of a cell, the attempts that count, and the tokens that arrived inside.

An attempt counts if it was *scheduled* inside the window (`phase == "measure"`), whatever became of it and whenever it
ended. The window's bounds come from the client's telemetry: [window_start, window_end) in ns since the run's epoch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from .records import Record

Ints = npt.NDArray[np.int64]

NS_PER_S = 1_000_000_000


@dataclass(frozen=True)
class Window:
    """[start, end) in ns since the run's epoch."""

    start: int
    end: int

    @property
    def seconds(self) -> float:
        """Its length in seconds, by which every rate is divided."""
        return (self.end - self.start) / NS_PER_S


def measured_window(client: Record | None) -> Window | None:
    """The cell's window, or None where the client recorded none or an empty one."""
    if client is None or client["window_start"] is None or client["window_end"] is None:
        return None
    start, end = int(client["window_start"]), int(client["window_end"])
    return Window(start, end) if end > start else None


def counted(events: pl.DataFrame) -> pl.DataFrame:
    """The attempts of the measured window: the denominator of everything."""
    return events.filter(pl.col("phase") == "measure")


def tokens_inside(events: pl.DataFrame, window: Window) -> int:
    """Output tokens whose chunk came in [start, end), from every phase's attempts with outcome ok.

    Tokens of a reply that failed are work the user could not use; they are in no total.
    """
    chunks = (
        events.lazy()
        .filter((pl.col("outcome") == "ok") & (pl.col("chunk_times").list.len() > 0))
        .select("chunk_times", "chunk_tokens")
        .explode("chunk_times", "chunk_tokens")
        .filter((pl.col("chunk_times") >= window.start) & (pl.col("chunk_times") < window.end))
        .select(pl.col("chunk_tokens").cast(pl.Int64).sum())
        .collect()
    )
    return int(chunks.item() or 0)


def chunk_times(attempts: pl.DataFrame) -> tuple[Ints, Ints]:
    """The times of all chunks (ns), attempt by attempt, and the row of the attempt that each belongs to."""
    lists = attempts["chunk_times"]
    counts = lists.list.len().fill_null(0).to_numpy()
    if not counts.any():
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    return lists.filter(pl.Series(counts > 0)).explode().to_numpy(), np.repeat(np.arange(len(lists)), counts)

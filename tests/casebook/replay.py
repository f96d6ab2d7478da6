"""Exact bytes at exact times, without a clock.

A script goes through the client's parser, the event row and the analysis's formulas as if the socket had delivered each
piece at its millisecond. (On a real socket: tests/runner/client.)
"""

from __future__ import annotations

from typing import Any

import polars as pl
from benchcard.analysis.goodput import judge
from benchcard.analysis.metrics import Measured, Value, measure
from benchcard.analysis.quantities import quantities
from benchcard.runner.client.attempt import Attempt
from benchcard.runner.client.record import CellContext, event_frame, event_row
from benchcard.runner.plan.blocks import Cell
from benchcard.runner.plan.requests import PlannedRequest
from benchcard.runner.tokens.tokenizer import Tokenizer

from ..runner.client.scripted import END, Script

MS = 1_000_000


def attempt(script: Script, index: int = 0, fault: str | None = None) -> Attempt:
    """An attempt scheduled at 0 that reads each piece at its time; a piece of None is the connection's end."""
    found = Attempt(index, "measure", 0, 0)
    found.sent = 0
    found.fault = fault
    found.end = 0
    for at, piece in script:
        found.end = round(at * MS)
        if isinstance(piece, bytes):
            found.times.append(found.end)
            found.reads.append(piece)
        else:
            found.closed = True
    return found


def rows(
    *attempts: Attempt, token_counts: str = "chunk", asked: int = 8, tokenizer: Tokenizer | None = None
) -> pl.DataFrame:
    """Event rows of attempts."""
    planned = [PlannedRequest(i, "measure", 0, None, None, 0, 5, asked) for i in range(len(attempts))]
    context = CellContext(
        "run", Cell("b01-baseline-l1", 1, "baseline", 1, 1.0), 0, token_counts, planned, ["d"] * len(planned), [],
        tokenizer=tokenizer,
    )  # fmt: skip
    return event_frame(event_row(context, one) for one in attempts)


def row(script: Script, **options: Any) -> dict[str, Any]:
    """The event row of one scripted attempt."""
    return rows(attempt(script), **options).row(0, named=True)


def metrics(frame: pl.DataFrame, objectives: dict[str, Any] | None = None, window_s: float = 1.0) -> dict[str, Value]:
    """The analysis's metrics of some counted attempts."""
    found = quantities(frame)
    return measure(
        Measured(
            attempted=frame.height,
            ok=int(found.ok.sum()),
            good=judge(frame, found, objectives).good,
            tokens=0,
            window_s=window_s,
            quantities=found,
        )
    )


def ms(value: Value) -> float | None:
    """A metric in ms."""
    return None if value.value is None else round(value.value * 1e3, 6)


def closing(script: list[tuple[float, bytes]]) -> Script:
    """The script with the end of the chunked body at its last piece."""
    at, last = script[-1]
    return [*script[:-1], (at, last if last.endswith(END) else last + END)]

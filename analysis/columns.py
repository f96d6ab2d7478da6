"""The columns of a bundle's tables that the analysis reads, with their types."""

from __future__ import annotations

from typing import Any

import polars as pl

#: the event columns the analysis uses, with their types; others may be there
EVENT_COLUMNS: dict[str, Any] = {
    "cell": pl.String,
    "arm": pl.String,
    "load": pl.Float64,
    "phase": pl.String,
    "index": pl.Int64,
    "prompt_digest": pl.String,
    "asked_input_tokens": pl.Int32,
    "asked_output_tokens": pl.Int32,
    "input_tokens": pl.Int32,
    "output_tokens": pl.Int32,
    "scheduled": pl.Int64,
    "queued": pl.Int64,
    "connect_start": pl.Int64,
    "connect_end": pl.Int64,
    "sent": pl.Int64,
    "first_token": pl.Int64,
    "first_answer_token": pl.Int64,
    "last_token": pl.Int64,
    "end": pl.Int64,
    "chunk_times": pl.List(pl.Int64),
    "chunk_tokens": pl.List(pl.Int32),
    "token_counts": pl.String,
    "outcome": pl.String,
    "tries": pl.Int32,
    "finish_reason": pl.String,
    "population": pl.String,
    "conversation": pl.Int64,
    "turn": pl.Int32,
    "turns": pl.Int32,
    "own_tokens": pl.Int32,
    "reusable_tokens": pl.Int32,
    "cached_tokens": pl.Int32,
    "chunk_tokens_retokenized": pl.List(pl.Int32),
    "streamed": pl.Boolean,
}
REQUEST_COLUMNS: dict[str, Any] = {
    "block": pl.Int32,
    "load_point": pl.Int32,
    "index": pl.Int64,
    "phase": pl.String,
    "offset": pl.Int64,
    "client": pl.Int32,
    "prompt_digest": pl.String,
    "population": pl.String,
    "turn": pl.Int32,
    "think": pl.Int64,
}
#: columns that came later: null in a bundle that has none of them
LATER_COLUMNS = (
    "population", "turns", "own_tokens", "reusable_tokens", "turn", "think", "chunk_tokens_retokenized",
)  # fmt: skip
CLIENT_COLUMNS: dict[str, Any] = {
    "load_start": pl.Int64,
    "load_end": pl.Int64,
    "window_start": pl.Int64,
    "window_end": pl.Int64,
    "wall_start": pl.Int64,
    "wall_end": pl.Int64,
    "cpu": pl.Int64,
    "run_delay": pl.Int64,
    "loop_lag_p99": pl.Int64,
    "peak_in_flight": pl.Int64,
    "certificate": pl.Int32,
    "counted_planned": pl.Int64,
    "plan_exhausted": pl.Boolean,
}
SERVER_COLUMNS: dict[str, Any] = {
    "time": pl.Int64,
    "when": pl.String,
    "name": pl.String,
    "labels": pl.String,
    "value": pl.Float64,
}
HOST_COLUMNS: dict[str, Any] = {
    "time": pl.Int64,
    "name": pl.String,
    "labels": pl.String,
    "value": pl.Float64,
}
START_COLUMNS: dict[str, Any] = {
    "cell": pl.String,
    "launched": pl.Int64,
    "looked": pl.Int64,
    "ready": pl.Int64,
}

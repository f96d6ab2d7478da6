"""Attempts -> the event table (columns: schema/event.py). Pure but for reading the spool."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...schema.event import EVENT_COLUMNS, Column
from ..plan.blocks import Cell
from ..plan.requests import PlannedRequest
from ..secrets import redact
from .attempt import Attempt
from .outcome import outcome
from .reply import parse_reply

if TYPE_CHECKING:
    import polars as pl


_ROWS_AT_A_TIME = 2000
#: the most of an error text that is kept; cut after the secrets are out of it, since half a key is a key's half
_ERROR_LENGTH = 500


@dataclass(frozen=True)
class CellContext:
    """What the rows of a cell have in common, and what was planned for them (`reusable`: see plan/reuse.py).
    `secrets` are taken out of error texts; None: they are not known, so no error text is kept."""

    run: str
    cell: Cell
    epoch_ns: int
    token_counts: str
    planned: list[PlannedRequest]
    prompt_digests: list[str]
    secrets: list[str] | None
    reusable: list[int | None] | None = None


def event_row(context: CellContext, attempt: Attempt) -> dict[str, Any]:
    """One attempt as a row; times are ns since the run's epoch."""
    reply = parse_reply(attempt.times, attempt.reads, context.token_counts)
    planned = context.planned[attempt.index]
    kind, failure, error = outcome(attempt, reply)
    answers = [chunk.time for chunk in reply.chunks if chunk.kind != "reasoning"]

    def since(time: int | None) -> int | None:
        return None if time is None else time - context.epoch_ns

    return {
        "run": context.run,
        "cell": context.cell.cell,
        "block": context.cell.block,
        "arm": context.cell.arm,
        "load_point": context.cell.load_point,
        "load": context.cell.load,
        "phase": attempt.phase,
        "index": attempt.index,
        "population": planned.population,
        "conversation": planned.conversation,
        "turn": planned.turn,
        "turns": planned.turns,
        "prefix_group": planned.prefix_group,
        "prompt_digest": context.prompt_digests[attempt.index],
        "asked_input_tokens": planned.input_tokens,
        "asked_output_tokens": planned.output_tokens,
        "own_tokens": None if planned.input_tokens is None else planned.own_tokens,
        "reusable_tokens": None if context.reusable is None else context.reusable[attempt.index],
        "input_tokens": reply.input_tokens,
        "output_tokens": reply.output_tokens,
        "cached_tokens": reply.cached_tokens,
        "retokenized_tokens": None,
        "scheduled": since(attempt.scheduled),
        "queued": since(attempt.queued),
        "connect_start": since(attempt.connect_start),
        "connect_end": since(attempt.connect_end),
        "sent": since(attempt.sent),
        "headers": since(reply.headers_time),
        "first_chunk": since(reply.first_event_time),
        "first_token": since(reply.chunks[0].time if reply.chunks else None),
        "first_answer_token": since(answers[0] if answers else None),
        "last_token": since(reply.chunks[-1].time if reply.chunks else None),
        "end": since(attempt.end),
        "chunk_times": [chunk.time - context.epoch_ns for chunk in reply.chunks],
        "chunk_bytes": [len(chunk.text.encode("utf-8", "replace")) for chunk in reply.chunks],
        "chunk_tokens": [chunk.tokens for chunk in reply.chunks],
        "chunk_kinds": [chunk.kind for chunk in reply.chunks],
        "token_counts": context.token_counts,
        "outcome": kind,
        "status": reply.status,
        "finish_reason": reply.finish_reason,
        "failure": failure,
        "tries": attempt.tries,
        "error": None if context.secrets is None else _short(redact(error, context.secrets)),
        "streamed": reply.streamed if reply.status is not None else None,
        "reads": len(attempt.reads),
        "reused": attempt.reused,
        "worker": attempt.worker,
        "fingerprint": reply.fingerprint,
        "output_digest": reply.output_digest(),
    }


def _short(text: str | None) -> str | None:
    return text if text is None else text[:_ERROR_LENGTH]


def polars_type(column: Column) -> Any:
    """The polars type of a column."""
    import polars as pl

    if column.type.startswith("List("):
        return pl.List(getattr(pl, column.type[5:-1]))
    return getattr(pl, column.type)


def event_frame(rows: Iterable[dict[str, Any]]) -> pl.DataFrame:
    """Rows as the event table, sorted by index. Rows are taken up some at a time: as columns they are ten times
    smaller."""
    import polars as pl

    schema = {column.name: polars_type(column) for column in EVENT_COLUMNS}
    rows = iter(rows)
    frames = [pl.DataFrame([], schema=schema, orient="row")]
    while some := list(itertools.islice(rows, _ROWS_AT_A_TIME)):
        frames.append(pl.DataFrame(some, schema=schema, orient="row"))
    return pl.concat(frames).sort("index")

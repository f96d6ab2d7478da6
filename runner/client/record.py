"""Attempts -> the event table (columns: schema/event.py). Pure but for reading the spool."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...schema.event import EVENT_COLUMNS, Column
from ..plan.blocks import Cell
from ..plan.requests import PlannedRequest
from ..secrets import MASK, redact, redactor
from ..tokens.tokenizer import Tokenizer
from .attempt import Attempt
from .outcome import outcome
from .reply import Reply, parse_reply

if TYPE_CHECKING:
    import polars as pl


_ROWS_AT_A_TIME = 2000
#: the most of an error text that is kept; cut after the secrets are out of it, since half a key is a key's half
_ERROR_LENGTH = 500
_ERROR_LOOKED_AT = 1 << 16


@dataclass(frozen=True)
class CellContext:
    """What the rows of a cell have in common, and what was planned for them (`reusable`: see plan/reuse.py).
    `secrets` are taken out of error texts; None: they are not known, so no error text is kept. `tokenizer`: what texts
    are counted again with, if anything."""

    run: str
    cell: Cell
    epoch_ns: int
    token_counts: str
    planned: list[PlannedRequest]
    prompt_digests: list[str]
    secrets: list[str] | None
    reusable: list[int | None] | None = None
    tokenizer: Tokenizer | None = None


def event_row(context: CellContext, attempt: Attempt) -> dict[str, Any]:
    """One attempt as a row; times are ns since the run's epoch."""
    reply = parse_reply(attempt.times, attempt.reads, context.token_counts)
    kind, failure, error = outcome(attempt, reply)
    return {
        "run": context.run,
        "cell": context.cell.cell,
        "block": context.cell.block,
        "arm": context.cell.arm,
        "load_point": context.cell.load_point,
        "load": context.cell.load,
        "phase": attempt.phase,
        **_planned(context, attempt.index),
        "input_tokens": reply.input_tokens,
        "output_tokens": reply.output_tokens,
        "cached_tokens": reply.cached_tokens,
        **_times(context, attempt, reply),
        **_chunks(context, reply),
        "outcome": kind,
        "status": reply.status,
        "finish_reason": _told(reply.finish_reason),
        "failure": failure,
        "tries": attempt.tries,
        "error": None if error is None or context.secrets is None else _error(error, context.secrets),
        "streamed": reply.streamed if reply.status is not None else None,
        "reads": len(attempt.reads),
        "reused": attempt.reused,
        "worker": attempt.worker,
        "fingerprint": _told(reply.fingerprint),
        "output_digest": reply.output_digest(),
    }


def _planned(context: CellContext, index: int) -> dict[str, Any]:
    """What the plan says of the request."""
    planned = context.planned[index]
    return {
        "index": index,
        "population": planned.population,
        "conversation": planned.conversation,
        "turn": planned.turn,
        "turns": planned.turns,
        "prefix_group": planned.prefix_group,
        "prompt_digest": context.prompt_digests[index],
        "asked_input_tokens": planned.input_tokens,
        "asked_output_tokens": planned.output_tokens,
        "own_tokens": None if planned.input_tokens is None else planned.own_tokens,
        "reusable_tokens": None if context.reusable is None else context.reusable[index],
    }


def _times(context: CellContext, attempt: Attempt, reply: Reply) -> dict[str, int | None]:
    """When what happened, ns since the run's epoch."""
    answers = [chunk.time for chunk in reply.chunks if chunk.kind != "reasoning"]
    times = {
        "scheduled": attempt.scheduled,
        "queued": attempt.queued,
        "connect_start": attempt.connect_start,
        "connect_end": attempt.connect_end,
        "sent": attempt.sent,
        "headers": reply.headers_time,
        "first_chunk": reply.first_event_time,
        "first_token": reply.chunks[0].time if reply.chunks else None,
        "first_answer_token": answers[0] if answers else None,
        "last_token": reply.chunks[-1].time if reply.chunks else None,
        "end": attempt.end,
    }
    return {name: None if time is None else time - context.epoch_ns for name, time in times.items()}


def _chunks(context: CellContext, reply: Reply) -> dict[str, Any]:
    """The token-bearing chunks, their tokens by the card's source and by its tokenizer."""
    again = None if context.tokenizer is None else context.tokenizer.tokens_by_piece([c.text for c in reply.chunks])
    counted = [chunk.tokens for chunk in reply.chunks]
    return {
        "retokenized_tokens": sum(again) if again else None,
        "chunk_times": [chunk.time - context.epoch_ns for chunk in reply.chunks],
        "chunk_bytes": [len(chunk.text.encode("utf-8", "replace")) for chunk in reply.chunks],
        "chunk_tokens": again if again is not None and context.token_counts == "retokenized" else counted,
        "chunk_tokens_retokenized": again,
        "chunk_kinds": [chunk.kind for chunk in reply.chunks],
        "token_counts": context.token_counts,
    }


def _told(text: str | None) -> str | None:
    """A word that the server chose."""
    return text if text is None or text in ("stop", "length") else _short(redactor().value(text))


def _error(text: str, secrets: list[str]) -> str:
    """An error text without secrets, cut. Of a page of megabytes the beginning is looked at; should that be nearly all
    secrets, what is left of it may end within one."""
    clean = redact(text[:_ERROR_LOOKED_AT], secrets) or ""
    return MASK if len(text) > _ERROR_LOOKED_AT and len(clean) <= _ERROR_LENGTH else clean[:_ERROR_LENGTH]


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

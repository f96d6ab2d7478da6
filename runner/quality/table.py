"""The table of a kind of gate: one row an item, arm and repeat. Pure.

A comparison needs both sides: an output whose counterpart of the baseline is missing counts as diverged at once for the
candidate, and as not diverged for the baseline's second pass, which then excuses nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..plan.blocks import BASELINE, BASELINE_AA
from ..tokens.tokenizer import Tokenizer
from .divergence import Output, diverged_at
from .items import Question
from .scoring import conforms, is_right

if TYPE_CHECKING:
    import polars as pl

COLUMNS: dict[str, str] = {
    "risk": "String",
    "item": "String",
    "arm": "String",
    "repeat": "Int32",
    "prompt_digest": "String",
    "answered": "Boolean",
    "outcome": "String",
    "finish_reason": "String",
    "tokens": "Int32",
    "cached_tokens": "Int32",
    "output_digest": "String",
    "diverged_at": "Int32",
    "compared_by": "String",
    "correct": "Boolean",
    "conforms": "Boolean",
}

#: arm -> the outputs of a gate: for each repeat (from 1) one an item; None for what was not asked
Outputs = Mapping[str, Sequence[Sequence[Output | None]]]


def gate_rows(
    row: Mapping[str, Any], asked: Sequence[Question], outputs: Outputs, schema: Any, tokenizer: Tokenizer | None
) -> Iterator[dict[str, Any]]:
    """The rows of one gate of the card. What was not asked has none."""
    for arm, repeats in outputs.items():
        for repeat, found in enumerate(repeats, 1):
            for at, (question, output) in enumerate(zip(asked, found, strict=True)):
                if output is None:
                    continue
                values = {
                    "risk": row["risk"], "item": question.id, "arm": arm, "repeat": repeat,
                    "prompt_digest": question.digest, "answered": output.answered, "outcome": output.outcome,
                    "finish_reason": output.finish_reason, "tokens": output.tokens,
                    "cached_tokens": output.cached_tokens, "output_digest": _digest(output),
                }  # fmt: skip
                if row["gate"] == "greedy_divergence":
                    first = outputs[BASELINE][0][at]
                    values["diverged_at"], values["compared_by"] = _diverged(arm, first, output, tokenizer)
                elif row["gate"] == "task_metric":
                    text = _first_line(row, output.text or "")
                    values["correct"] = output.answered and is_right(row["scorer"], text, question.answer or "")
                elif row["gate"] == "conformance":
                    values["conforms"] = output.answered and conforms(output.text or "", schema)
                yield values


def _diverged(
    arm: str, first: Output | None, output: Output, tokenizer: Tokenizer | None
) -> tuple[int | None, str | None]:
    if not output.answered:
        return None, None
    if first is None or not first.answered:
        return (None if arm in (BASELINE, BASELINE_AA) else 0), None
    return diverged_at(first, output, tokenizer)


def _first_line(row: Mapping[str, Any], text: str) -> str:
    """Of a built-in set's reply the first line: a completion goes on with questions of its own."""
    return text.strip().partition("\n")[0] if isinstance(row["items"], str) else text


def _digest(output: Output) -> str | None:
    """SHA-256 (hex) over the output's text in UTF-8."""
    if not output.answered:
        return None
    return hashlib.sha256((output.text or "").encode("utf-8", "surrogatepass")).hexdigest()


def as_frame(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """The rows of a kind of gate as a data frame."""
    import polars as pl

    full = {name: [row.get(name) for row in rows] for name in COLUMNS}
    return pl.DataFrame(full, schema={name: getattr(pl, kind) for name, kind in COLUMNS.items()})

"""Conversations: whether every turn that was due is there, came when its user had thought, and held what was said."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from .records import Record
from .view import CellView, Observation

_OF_TURNS = (
    "index", "conversation", "turn", "turns", "scheduled", "end", "outcome", "phase", "input_tokens", "output_tokens",
    "own_tokens",
)  # fmt: skip


@dataclass(frozen=True)
class Told:
    """Of a cell's conversations that began in its window: how many, how many had every turn, how many were cut short by
    a failed turn or by the end of the load, and the turns that were never sent for that; of its later turns, how many
    have a server's count to compare with what was said before, and of how many it is another."""

    begun: int
    whole: int
    failed: int
    over: int
    missing: int
    compared: int
    other_history: int


def has_turns(view: CellView) -> bool:
    """Whether the plan has conversations."""
    return view.planned["turn"].null_count() < view.planned.height


def later_turns(view: CellView) -> pl.DataFrame:
    """The rows of every turn but the first, each beside the turn before (`…_before`, null where that has no row) and
    the planned pause (`think`)."""
    rows = view.events.select(_OF_TURNS)
    before = rows.with_columns(index=pl.col("index") + 1)
    think = view.planned.select("index", "think")
    return (
        rows.filter(pl.col("turn") > 0).join(think, on="index").join(before, on="index", how="left", suffix="_before")
    )


def turns_missing(view: CellView) -> int:
    """Turns that were due before the last counted attempt ended (so the load was still on), and have no row."""
    last = view.counted["end"].max()
    if last is None:
        return 0
    answered = view.events.filter((pl.col("outcome") == "ok") & (pl.col("turn") + 1 < pl.col("turns")))
    following = answered.select(index=pl.col("index") + 1, end="end").join(
        view.planned.select("index", "think"), on="index"
    )
    due = following.filter(pl.col("end") + pl.col("think") < pl.lit(last))
    return due.filter(~pl.col("index").is_in(view.events["index"].to_list())).height


def off_course(view: CellView) -> pl.Series:
    """The indexes of later turns that do not follow from an answer: no answer before, or another time than its end and
    the pause."""
    rows = later_turns(view)
    follows = (pl.col("outcome_before") == "ok") & (pl.col("end_before") + pl.col("think") == pl.col("scheduled"))
    return rows.filter(~follows.fill_null(False))["index"]


def other_history(view: CellView) -> pl.DataFrame:
    """Later turns whose prompt, by the server's count, is not what was said before (prompt and answer of the turn
    before, by the same count) and what the turn says itself: with a column `other`."""
    rows = later_turns(view).filter((pl.col("outcome") == "ok") & (pl.col("outcome_before") == "ok"))
    said = pl.col("input_tokens_before") + pl.col("output_tokens_before") + pl.col("own_tokens")
    return rows.with_columns(other=pl.col("input_tokens") != said).filter(pl.col("other").is_not_null())


def history(view: CellView) -> Observation:
    """How many turns held another history, by the server's count."""
    return float(other_history(view)["other"].sum()), None


def exact_history(view: CellView) -> bool:
    """Whether counts of prompts add up: token ids do; a chat template adds tokens of its own."""
    return has_turns(view) and view.card["workload"].get("endpoint") == "completions"


def comparable(card: Record) -> bool:
    """Whether the plan knows a prompt's own tokens as the server counts them: of a chat only by the model's tokenizer,
    and on the embedded engine, whose chats are words and nothing else."""
    system = card["system"]
    tokenizer = (system.get("model") or {}).get("tokenizer")
    exact = isinstance(tokenizer, dict) and "unknown" not in tokenizer
    return card["workload"].get("endpoint") != "chat" or system["engine"]["kind"] == "simulated" or exact


def told(view: CellView) -> Told | None:
    """What became of the conversations that began in the window; None where there are none."""
    if not has_turns(view):
        return None
    begun = view.counted.filter(pl.col("turn") == 0)["conversation"]
    rows = view.events.filter(pl.col("conversation").is_in(begun.to_list())).sort("index")
    last = rows.group_by("conversation", maintain_order=True).last()
    ended = last.filter((pl.col("turn") + 1 == pl.col("turns")) & (pl.col("outcome") == "ok"))
    failed = last.filter(~pl.col("outcome").is_in(["ok", "cancelled", "unsent"]))
    compared = other_history(view)
    return Told(
        begun.len(), ended.height, failed.height, begun.len() - ended.height - failed.height,
        int((last["turns"] - last["turn"] - 1).sum()), compared.height, int(compared["other"].sum()),
    )  # fmt: skip


def in_words(cells: Iterable[Told | None], comparable: bool = True) -> str | None:
    """What became of a run's conversations; None where there were none. `comparable`: as of the function."""
    parts = [part for part in cells if part is not None]
    if not parts:
        return None
    begun, whole, failed, over, missing, compared, other = (
        sum(getattr(part, name) for part in parts)
        for name in ("begun", "whole", "failed", "over", "missing", "compared", "other_history")
    )
    text = f"{whole} of {begun} that began in the window had every turn"
    if begun > whole:
        text += f"; {failed} ended with a turn that failed, {over} with the load: {missing} turns were never due"
    if not comparable:
        text += "; their history is not compared with the server's count, since the card names no tokenizer"
    elif compared:
        as_said = "as it was said" if not other else f"as it was said but in {other}"
        text += f"; in {compared} later turns the server counts the history {as_said}"
    return text

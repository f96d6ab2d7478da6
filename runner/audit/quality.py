"""The audit's check of the quality gates: their tables are those that the run wrote, about the planned prompts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...schema.digest import digest_file
from ..quality.items import Question, questions
from ..quality.passes import gates_of, passes
from .context import Context


def quality(context: Context) -> Iterator[str]:
    """The tables of the quality gates are the ones that were written when the arms had been asked, and hold the prompts
    that card and seed give, in every arm and repeat."""
    folder = context.bundle.root / "quality"
    written: dict[str, str] = {}
    for line in context.lines("quality_compared"):
        written |= line["files"]
    for path in sorted(folder.glob("*")) if folder.is_dir() else ():
        if not path.name.startswith(".") and f"quality/{path.name}" not in written:
            yield f"quality/{path.name}: the log knows of no such table"
    gates = context.card.get("quality") or []
    if gates and not written and _asked_for(context):
        yield "attempts.jsonl: the run ended complete, and its quality gates were not run"
    for name, digest in written.items():
        if not (context.bundle.root / name).exists():
            yield f"{name}: missing, though the log says that it was written"
        elif digest_file(context.bundle.root / name) != digest:
            yield f"{name}: not the table that was written when the arms had been asked"
    yield from _order(context, bool(written))
    for index, row in enumerate(gates if written else ()):
        if context.bundle.quality(row["gate"]).exists():
            yield from _as_planned(context, index, row)


def _asked_for(context: Context) -> bool:
    """Whether the run was one that asks its gates: to its end, in real time, and no pilot."""
    virtual = bool(context.log and context.log[0].get("virtual"))
    ended = context.lines("run_ended")
    return bool(ended) and ended[-1].get("why") == "complete" and not virtual and not context.bundle.is_pilot


def _order(context: Context, written: bool) -> Iterator[str]:
    """The arms were asked after the last block, in their order; a pass that was begun again counts once."""
    begun = context.lines("quality_started", "cell_started")
    arms = [line["arm"] for line in begun if line["kind"] == "quality_started"]
    if arms and begun[-1]["kind"] == "cell_started":
        yield "attempts.jsonl: a cell was run after the quality gates"
    if written:
        ended = list(dict.fromkeys(line["arm"] for line in context.lines("quality_ended")))
        if ended != passes(context.card):
            yield f"attempts.jsonl: the gates asked {', '.join(ended)}; planned are {', '.join(passes(context.card))}"


def _as_planned(context: Context, index: int, row: dict[str, Any]) -> Iterator[str]:
    import polars as pl

    name = f"quality/{row['gate']}.parquet"
    table = context.parquet(context.bundle.quality(row["gate"])).filter(pl.col("risk") == row["risk"])
    unsent = {line["arm"]: line["unsent"] for line in context.lines("quality_ended")}
    asked = {one.id: one for one in questions(context.plan, index)}
    arms = [arm for arm in passes(context.card) if index in gates_of(context.card, arm)]
    for arm in sorted({*table["arm"].to_list()} - {*arms}):
        yield f"{name}: rows of {arm}, which this gate does not ask"
    for arm in arms:
        found = table.filter(pl.col("arm") == arm)
        yield from _prompts(f"{name}: {row['risk']}, {arm}", found, asked)
        wanted = len(asked) * row["repeats"]
        if found.height > wanted or (found.height < wanted and not unsent.get(arm)):
            yield f"{name}: {row['risk']}, {arm}: {found.height} rows; {wanted} prompts were to be asked"


def _prompts(where: str, found: Any, asked: dict[str, Question]) -> Iterator[str]:
    """The first row about another prompt than the planned one."""
    for item, digest in found.select("item", "prompt_digest").iter_rows():
        if item not in asked:
            yield f"{where}: item {item}, which is not planned"
            return
        if digest != asked[item].digest:
            yield f"{where}: item {item} is another prompt than card and seed give"
            return

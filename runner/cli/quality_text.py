"""What `benchcard plan` says of the quality gates."""

from __future__ import annotations

from typing import Any

from ..people import people_time
from ..plan.plan import Plan
from ..quality.items import Question, gate_name, questions
from ..quality.passes import gates_of, longest_seconds, passes


def quality_as_json(plan: Plan) -> list[dict[str, Any]]:
    """Each gate with the arms that it asks and the digests of its prompts, for `plan --json`."""
    return [
        {
            "risk": row["risk"],
            "gate": row["gate"],
            "arms": _arms(plan, index),
            "prompts": [{"item": one.id, "prompt_digest": one.digest} for one in questions(plan, index)],
        }
        for index, row in enumerate(plan.card.get("quality") or [])
    ]


def quality_lines(plan: Plan) -> list[str]:
    """The gates as lines; none on a card without."""
    card = plan.card
    if not card.get("quality"):
        return []
    lines = ["", "Quality gates, after the last block:"]
    for index, row in enumerate(card["quality"]):
        lines.append(
            f"  {gate_name(row)}: {_what(row, questions(plan, index))}; asked: {', '.join(_arms(plan, index))}"
        )
    worst = people_time(longest_seconds(card))
    return [*lines, f"  at the worst {worst} together (`within` of each gate in each pass); server starts come on top"]


def _what(row: dict[str, Any], asked: list[Question]) -> str:
    source = "made as the workload's" if row["items"] is None else f"of {_name(row['items'])}"
    again = f", {row['repeats']} times each" if row["repeats"] > 1 else ""
    reuse = ", each sent once before for the prefix cache" if row["reuse"] else ""
    size = f"{row['concurrency']} at a time, {row['output_tokens']} output tokens"
    return f"{len(asked)} prompts {source}{again}, {size}{reuse}"


def _name(items: str | dict[str, Any]) -> str:
    return items if isinstance(items, str) else str(items["name"])


def _arms(plan: Plan, index: int) -> list[str]:
    return [arm for arm in passes(plan.card) if index in gates_of(plan.card, arm)]

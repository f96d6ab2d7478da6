"""What a gate asks: its prompts, made from card and seed alone. Pure.

Prompts of the workload are made by its own laws (lengths, prefixes, populations) from draws of their own: those of a
block 0, which no timed cell belongs to. Of recorded requests those rows are taken that no timed cell has.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

from ...schema.digest import canonical_json
from ...schema.errors import InputError
from ...schema.items import Item
from ..client.wire import Prompt
from ..plan.draws import Stream
from ..plan.plan import Plan
from ..plan.requests import PlannedRequest, requests_of, require_context
from ..plan.slots import Slot
from .builtin import as_completion, as_message, built_in
from .scoring import last_number

#: the block that the gates' prompts are drawn for
BLOCK = 0


@dataclass(frozen=True)
class Question:
    """One item of a gate: its id, its prompt as it is sent, the SHA-256 (hex) of the prompt, and its answer."""

    id: str
    prompt: Prompt
    digest: str
    answer: str | None = None


def gate_name(row: dict[str, Any]) -> str:
    """A gate as messages name it."""
    return f"{row['gate']} ({row['risk']})"


def questions(plan: Plan, index: int) -> list[Question]:
    """The items of the card's gate of that index (from 0), in the order in which they are asked. Raises InputError for
    what cannot be asked: too few recorded requests, a prompt that does not fit the context, an answer that no reply can
    match."""
    row = plan.card["quality"][index]
    if row["items"] is None:
        return _of_the_workload(plan, index, row)
    found = _built_in(plan, row) if isinstance(row["items"], str) else _of_a_file(plan, index, row)
    if row.get("scorer") == "exact_number":
        for question in found:
            if last_number(question.answer or "") is None:
                what = f"the answer of item {question.id} of {gate_name(row)} holds no number"
                raise InputError(f"{what}; scorer: exact_number wants one")
    return found


def require_questions(plan: Plan) -> None:
    """Refuse, before anything is measured, gates whose prompts cannot be made. Raises InputError."""
    for index, _ in enumerate(plan.card.get("quality") or []):
        questions(plan, index)


def _built_in(plan: Plan, row: dict[str, Any]) -> list[Question]:
    chat = plan.card["workload"]["endpoint"] == "chat"
    asked = []
    for number, (text, answer) in enumerate(built_in(row["items"], plan.seed, row["prompts"]), 1):
        prompt: Prompt = _message(as_message(text)) if chat else as_completion(row["items"], text)
        asked.append(Question(f"{row['items']}-{number}", prompt, _digest(prompt), answer))
    return asked


def _message(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def _digest(prompt: Prompt) -> str:
    return hashlib.sha256(canonical_json(prompt)).hexdigest()


def _of_a_file(plan: Plan, index: int, row: dict[str, Any]) -> list[Question]:
    """All items of the file in its order, or so many drawn from it."""
    items: list[Item] = plan.inputs.items(row["items"], plan.card["workload"]["endpoint"]).items
    order = Stream(plan.seed, "quality rows", index + 1).shuffled(list(range(len(items))))
    chosen = [items[at] for at in sorted(order[: row["prompts"]])]
    return [Question(item.id, item.prompt, _digest(item.prompt), item.answer) for item in chosen]


def _of_the_workload(plan: Plan, index: int, row: dict[str, Any]) -> list[Question]:
    key = (BLOCK, index + 1)
    requests = _recorded(plan, index, row) if plan.card["workload"]["requests"].get("file") else _made(plan, key, row)
    require_context(plan.card, requests)
    asked = []
    for number, request in enumerate(requests, 1):
        recorded = plan.prompts.recorded(request)
        prompt: Prompt = plan.prompts.tokens(key, request).tolist() if recorded is None else recorded.prompt
        asked.append(Question(f"w{number}", prompt, plan.prompts.digest(key, request)))
    return asked


def _made(plan: Plan, key: tuple[int, int], row: dict[str, Any]) -> list[PlannedRequest]:
    """Requests as the workload's, spread evenly over a profile's period and over a trace's rows."""
    n, arrivals = row["prompts"], plan.card["workload"]["arrivals"]
    period_ns = round((arrivals.get("period") or 0.0) * 1e9)
    rows = arrivals["file"]["rows"] if isinstance(arrivals.get("file"), dict) else n
    slots = [Slot("quality", i * period_ns // n, None, i, row=i * rows // n) for i in range(n)]
    made = requests_of(plan.card, (plan.seed, *key), slots, plan.inputs)
    return [replace(request, output_tokens=row["output_tokens"]) for request in made]


def _recorded(plan: Plan, index: int, row: dict[str, Any]) -> list[PlannedRequest]:
    """Rows that no timed cell has (reuse: in_each_block: any rows, since all of them are used over and over)."""
    file = plan.card["workload"]["requests"]["file"]
    rows, n = file["path"]["rows"], row["prompts"]
    taken = {request.row for requests in plan.requests.values() for request in requests}
    order = Stream(plan.seed, "quality rows", index + 1).shuffled(list(range(rows)))
    left = order if file["reuse"] == "in_each_block" else [at for at in order if at not in taken]
    if len(left) < n:
        raise InputError(
            f"{file['path']['name']} holds {rows} requests, of which the timed cells take {rows - len(left)}; "
            f"{gate_name(row)} needs {n} more. Take a longer file, fewer prompts, or `items` with a file of their own"
        )
    return [
        PlannedRequest(number, "quality", 0, None, None, 0, None, row["output_tokens"], row=at)
        for number, at in enumerate(left[:n])
    ]

"""A plan's chat prompts, checked to be as long as planned by the card's own tokenizer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from ..tokens.verify import PlannedPrompt, one_in, require_room, verify_prompts
from ..tokens.words import Words
from .requests import PlannedRequest

if TYPE_CHECKING:
    from .plan import Plan


def verify_plan(plan: Plan) -> None:
    """Refuse a plan with a prompt that is not as long as it says: all are encoded, of a large plan one in so many
    (tokens/verify.py). Raises InputError."""
    words = Words.from_card(plan.card, plan.inputs)
    if not words.exact:
        return
    require_room(plan.card["workload"], words)
    total = sum(request.input_tokens or 0 for requests in plan.requests.values() for request in requests)
    verify_prompts(words, planned_prompts(plan, one_in(total)))


def some_prompts(plan: Plan, n: int) -> list[PlannedPrompt]:
    """n prompts, spread over the plan."""
    total = sum(map(len, plan.requests.values()))
    return list(islice(planned_prompts(plan, max(1, total // n)), n))


def planned_prompts(plan: Plan, step: int = 1) -> Iterator[PlannedPrompt]:
    """Every `step`-th prompt of the plan that is made up and whole when it is planned, before any salt: recorded text
    is as long as it is, and later turns hold answers."""

    def requests() -> Iterator[tuple[tuple[int, int], PlannedRequest]]:
        """Each such request with its (block, load point)."""
        for key, rows in plan.requests.items():
            for request in rows:
                if not request.turn and plan.prompts.recorded(request) is None:
                    yield key, request

    for (block, load_point), request in islice(requests(), 0, None, step):
        name = f"the prompt of request {request.index} of block {block} at load point {load_point}"
        yield PlannedPrompt(name, plan.prompts.tokens((block, load_point), request))

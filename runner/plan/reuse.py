"""What of each prompt a prefix cache could hold when it comes, by the plan alone. Pure.

It is what a cache could reuse that never evicts and has computed every earlier prompt of the cell: a prompt's longest
beginning that an earlier one of the cell has, too, in tokens. An engine reuses whole blocks, so it reuses at most that
rounded down; and one token of a prompt is always computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .prompts import Prompts
from .requests import PlannedRequest


def reusable_tokens(card: dict[str, Any], prompts: Prompts, requests: Sequence[PlannedRequest]) -> list[int | None]:
    """For each request of a load point the tokens that it shares with an earlier one; None where nobody knows (recorded
    text, or the template of a chat whose tokenizer the card does not name). What a chat template begins with, every
    request before has had, of this cell or another."""
    workload, words = card["workload"], prompts.words
    unknown_template = workload["endpoint"] == "chat" and not words.exact and _has_template(card)
    if workload["requests"].get("file") is not None or unknown_template:
        return [None] * len(requests)
    if workload["requests"].get("from") == "trace":
        shared = _of_blocks(prompts, requests)
    else:
        warm = isinstance(workload["cache_state"], dict)
        shared = _of_documents(requests, set(shared_documents(card, requests)) if warm else set())
    head, own = (words.head_tokens, words.template_tokens) if words.exact else (0, 0)
    return [
        tokens if request.turn else head + min(tokens, (request.input_tokens or 0) - own)
        for request, tokens in zip(requests, shared, strict=True)
    ]


def _has_template(card: dict[str, Any]) -> bool:
    """The embedded engine's chats are words and nothing else."""
    return bool(card["system"]["engine"]["kind"] != "simulated")


def shared_documents(card: dict[str, Any], requests: Sequence[PlannedRequest]) -> dict[int, int]:
    """The documents of which there is a number, in the order in which the requests come to them: their tokens."""
    populations = card["workload"].get("populations") or {None: card["workload"]["requests"]}
    limited = {name for name, own in populations.items() if (own.get("prefix") or {}).get("documents") is not None}
    return {
        request.prefix_group: request.prefix_tokens
        for request in requests
        if request.prefix_group is not None and request.population in limited
    }


def _of_documents(requests: Sequence[PlannedRequest], seen: set[int]) -> Iterator[int]:
    for request in requests:
        group = request.prefix_group
        if request.turn:
            # Of an answer the last token was never put through the model.
            yield request.prefix_tokens + request.history_tokens - 1
        else:
            yield request.prefix_tokens if group in seen else 0
        if group is not None:
            seen.add(group)


def _of_blocks(prompts: Prompts, requests: Sequence[PlannedRequest]) -> Iterator[int]:
    size = prompts.hash_block
    # A tree of blocks: (parent, block) -> (node, the most tokens of this block that a prompt had).
    tree: dict[tuple[int, tuple[int, int]], tuple[int, int]] = {}
    for request in requests:
        node, shared, left, known = 0, 0, request.own_tokens, True
        for block in prompts.blocks(request):
            here = min(size, left)
            child, had = tree.get((node, block), (len(tree) + 1, 0))
            if known:
                shared += min(here, had)
                known = had >= here == size
            tree[node, block] = (child, max(had, here))
            node, left = child, left - here
            if left <= 0:
                break
        yield shared

"""What of each prompt a prefix cache could hold when it comes, by the plan alone. Pure.

It is what a cache could reuse that never evicts and has computed every earlier prompt of the cell: a prompt's longest
beginning that an earlier one of the cell has, too, in tokens. An engine reuses whole blocks, so it reuses at most that
rounded down; and one token of a prompt is always computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .prompts import Key, Prompts
from .requests import PlannedRequest


def reusable_tokens(card: dict[str, Any], prompts: Prompts, requests: Sequence[PlannedRequest]) -> list[int | None]:
    """For each request of a load point the tokens that it shares with an earlier one; None where nobody knows (recorded
    text)."""
    if card["workload"]["requests"].get("file") is not None:
        return [None] * len(requests)
    warm = isinstance(card["workload"]["cache_state"], dict)
    if card["workload"]["requests"].get("from") == "trace":
        return list(_of_blocks(prompts, requests))
    return list(_of_documents(requests, set(shared_documents(card, requests)) if warm else set()))


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


def reusable_by_key(
    card: dict[str, Any], prompts: Prompts, requests: dict[Key, list[PlannedRequest]]
) -> dict[Key, list[int | None]]:
    """`reusable_tokens` of every load point of every block."""
    return {key: reusable_tokens(card, prompts, rows) for key, rows in requests.items()}

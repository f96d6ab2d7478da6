"""Prompts of arms that share one server are told apart by their first tokens, at equal length. Pure."""

from __future__ import annotations

from typing import Any

from .blocks import Cell, arms_run, declared_arm
from .plan import Plan


def shared_server(card: dict[str, Any]) -> bool:
    """Whether two arms are one server, so that one would warm the other's prefix cache. Where somebody else runs it,
    the baseline's second run in A/A blocks is on the baseline's, unless they run across the servers."""
    across = (card["method"].get("aa") or {}).get("across")
    arms = list(card["arms"]) if across else arms_run(card)
    servers = [card["arms"][declared_arm(arm)].get("server") for arm in arms]
    urls = [server["url"] for server in servers if server]
    return len(urls) != len(set(urls))


def salt_of(plan: Plan, cell: Cell) -> str | None:
    """A cell's salt; None where no other cell could warm its cache."""
    return f"{plan.seed}/{cell.cell}" if shared_server(plan.card) else None

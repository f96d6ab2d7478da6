"""Prompts of arms that share one server are told apart by their first tokens, at equal length. Pure."""

from __future__ import annotations

from typing import Any

from .blocks import Cell
from .plan import Plan


def shared_server(card: dict[str, Any]) -> bool:
    """Whether both arms are one server, so that one would warm the other's prefix cache."""
    urls = [arm["server"]["url"] for arm in card["arms"].values() if arm.get("server")]
    return len(urls) != len(set(urls))


def salt_of(plan: Plan, cell: Cell) -> str | None:
    """A cell's salt; None where no other cell could warm its cache."""
    return f"{plan.seed}/{cell.cell}" if shared_server(plan.card) else None

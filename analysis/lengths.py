"""Planned prompt lengths against the server's own count. Both stand in the events; neither replaces the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True)
class PromptLengths:
    """Of some counted attempts: how many have the server's count, of how many it is not the planned one, and the least
    and the most by which it differs (server less plan, tokens; None where no count differs)."""

    counted: int
    differing: int
    least: int | None
    most: int | None


def prompt_lengths(attempts: pl.DataFrame) -> PromptLengths:
    """Compare the prompts of a cell's counted attempts."""
    excess = attempts.select((pl.col("input_tokens") - pl.col("asked_input_tokens")).alias("excess"))["excess"]
    known = excess.drop_nulls()
    other = known.filter(known != 0)
    if other.is_empty():
        return PromptLengths(len(known), 0, None, None)
    least, most = other.sort().gather([0, -1]).to_list()
    return PromptLengths(len(known), len(other), int(least), int(most))


def in_words(cells: Iterable[PromptLengths]) -> str:
    """What the server's counts say of a run's prompts."""
    parts = list(cells)
    counted, differing = sum(part.counted for part in parts), sum(part.differing for part in parts)
    if not counted:
        return "unknown (no reply says how many tokens its prompt had)"
    if not differing:
        return f"as planned in all {counted} replies that count them"
    least = min(part.least for part in parts if part.least is not None)
    most = max(part.most for part in parts if part.most is not None)
    by = f"{least:+d}" if least == most else f"{least:+d} to {most:+d}"
    return f"not as planned in {differing} of {counted} replies: the server counts {by} tokens; both are kept"

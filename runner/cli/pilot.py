"""What a pilot found, for people: spreads, joint chance, blocks and hours, reach, the lines to paste. No verdict."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

from ...schema.errors import InputError
from ...schema.pilot import read_pilot
from ...schema.quantity import format_quantity
from ..bundle import Bundle
from ..files import read_json
from ..people import people_time
from ..plan.reach import out_of_reach
from ..prospects import ask, question
from .prospects_text import power_lines


def require_ab(card: dict[str, Any], source: Path) -> None:
    """Refuse a pilot of a baseline. Raises InputError."""
    if card["kind"] != "ab":
        raise InputError(f"{source}: a baseline has no differences between arms; a pilot is for a card of kind ab")


def pilot_text(bundle: Bundle, source: Path | None = None) -> str:
    """The text of a finished pilot; the pasted path is relative to `source`, the card's file (without it, to where the
    command runs)."""
    card, found = read_json(bundle.resolved), read_json(bundle.result())
    path = os.path.relpath(bundle.result(), source.resolve().parent if source else None)
    lines = [f"pilot: {found['blocks_used']} of 3 blocks; no verdict, and its data enter none"]
    lines += [_spread_line(card, row) for row in found["differences"]]
    lines += [_baseline_line(card, row) for row in found["baseline"] if any(x is not None for x in row["attainment"])]
    if found["seconds_a_block"] is not None:
        lines.append(f"A block takes {people_time(found['seconds_a_block'])}, server starts included")
    seen = read_pilot(bundle.result().read_bytes())
    known = any(row["stdev"] is not None for row in found["differences"] if row["kind"] == "claim")
    if known:
        lines += power_lines(card, ask(question(card, seen)), "pilot")
    for one in out_of_reach(card, seen, "the pilot"):
        lines += [f"Out of reach: {one.seen}", f"  What would mend it: {one.mend}"]
    if not known:
        return "\n".join([*lines, "There is nothing to plan with: no spread of the claim's metric was found"])
    declared = card["power"] or {}
    threshold = card["claim"]["threshold"]
    expect = "…" if not declared else format_quantity("change", threshold | {"value": declared["expect"]})
    chance = format_quantity("fraction", declared.get("chance") or 0.8)
    pasted = f"power: {{expect: {expect}, chance: {chance}, spread: {{from: {path}}}}}"
    lines += ["To plan with it, on the card:" if source else "To plan with it, on a card in this folder:", pasted]
    return "\n".join(lines)


def _spread_line(card: dict[str, Any], row: dict[str, Any]) -> str:
    of = f" of {row['population']}" if row.get("population") else ""
    what = f"{row['kind']} {row['metric']}{of} at {_load(card, row['load'])}"
    if row["stdev"] is None:
        return f"{what}: no spread: {row['reason']}"
    change = math.expm1(row["mean"]) * 100 if row["scale"] == "log" else row["mean"] * 100
    unit = "%" if row["scale"] == "log" else " pt"
    spread = f"spread {row['stdev'] * 100:.2f}{unit}, {row['blocks']} blocks"
    return f"{what}: differences {change:+.1f}{unit} on average, {spread}"


def _baseline_line(card: dict[str, Any], row: dict[str, Any]) -> str:
    shares = ", ".join("-" if share is None else f"{share:.1%}" for share in row["attainment"])
    return f"The baseline met its objectives at {_load(card, row['load'])} in {shares} of the requests"


def _load(card: dict[str, Any], load: float) -> str:
    rate = card["workload"]["load_kind"] == "rate"
    return f"{load:.4g} req/s" if rate else f"concurrency {load:g}"

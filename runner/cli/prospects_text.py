"""What can be expected of an experiment, for people; and the refusal of one that cannot answer."""

from __future__ import annotations

import math
from typing import Any

from ...schema.errors import InputError
from ...schema.quantity import format_quantity
from ..people import people_time
from ..prospects import Prospects


def prospect_lines(card: dict[str, Any], found: Prospects | None) -> list[str]:
    """The lines of `plan`: power, blocks needed, virtual time, what is out of reach, the override."""
    if found is None:
        return []
    if found.source is None:
        lines = [
            "Power: unknown, since the card declares no spread of the A/B differences (power: {expect: …, spread: …}); "
            "`benchcard run CARD --pilot` finds it in three blocks. The verdict will say that the power was unknown"
        ]
    else:
        lines = power_lines(card, found.power, found.source)
    lines += virtual_lines(card, found)
    lines += [f"Out of reach: {one.seen}" for one in found.reach]
    if found.override is not None:
        lines.append(f"Override: {found.override}")
    return lines


def power_lines(card: dict[str, Any], power: dict[str, Any], source: str) -> list[str]:
    """Each statement's spread and chance, the joint chance, and the blocks that the wanted chance needs."""
    lines = [_part_line(card, part, power["blocks"], power["wanted_power"], source) for part in power["parts"]]
    joint = power["joint"]
    if joint is None:
        return [*lines, f"Joint chance: not known: {power['reason']}"]
    expect = format_quantity("change", card["claim"]["threshold"] | {"value": card["power"]["expect"]})
    text = f"Joint chance at the expected effect of {expect}: {_chance(joint['power'])}"
    known = [part for part in power["parts"] if part["power"] is not None]
    if len(known) > 1:
        text += (
            f" (taken as independent; whatever the correlation, {_chance(joint['lower'])} to {_chance(joint['upper'])})"
        )
    lines.append(text + f"; wanted {power['wanted_power']:.0%}")
    if not power["complete"]:
        unknown = [
            f"{part['metric']} at {_load(card, part['load'])}" for part in power["parts"] if part["power"] is None
        ]
        lines.append(f"  not in it: {', '.join(unknown)}, whose spread is not known; with them it can only be lower")
    lines.append("  " + needed_text(power, source))
    return lines


def needed_text(power: dict[str, Any], source: str) -> str:
    """How many blocks give the chance wanted, and how long they take (server starts are in a pilot's time alone)."""
    if power["blocks_needed"] is None:
        return f"no number of blocks up to 1,000 gives {power['wanted_power']:.0%}"
    blocks = f"{power['blocks_needed']} blocks give {_chance(power['power_needed'])}"
    return blocks + _time_text(power, source)


def _time_text(power: dict[str, Any], source: str) -> str:
    if power["seconds_needed"] is None:
        return ""
    starts = "" if source == "pilot" else "; server starts come on top"
    return f" (about {people_time(power['seconds_needed'])}{starts})"


def _part_line(card: dict[str, Any], part: dict[str, Any], blocks: int, wanted: float, source: str) -> str:
    of = f" of {part['population']}" if part.get("population") else ""
    what = f"{part['metric']}{of} at {_load(card, part['load'])}"
    if part["spread"] is None:
        return f"{_kind(part)} {what}: spread not known ({part['reason']})"
    spread = f"{part['spread']:.2%}"
    if part["spread_df"]:
        spread = f"{spread} (upper 80% bound of {part['estimate']:.2%} from {part['spread_df'] + 1} blocks)"
    if part["kind"] == "guard":
        if part["spread"] == 0:
            return f"{_kind(part)} {what}: no block differed from another, so its chance is counted as {_chance(1.0)}"
        passes = f"passes with chance {_chance(part['power'])} if its true change is 0"
        return f"{_kind(part)} {what}: spread {spread}; {passes}"
    detects = f"{blocks} blocks detect {part['smallest_effect']:.1%} with chance {wanted:.0%}, threshold included"
    chance = "" if part["power"] is None else f"; chance at the expected effect {_chance(part['power'])}"
    return f"{_kind(part)} {what}: {'declared ' if source == 'declared' else ''}spread {spread}; {detects}{chance}"


def _kind(part: dict[str, Any]) -> str:
    return "Power, claim:" if part["kind"] == "claim" else "Power, guard:"


def virtual_lines(card: dict[str, Any], found: Prospects) -> list[str]:
    """The claim's effect in virtual time, and how far the baseline meets its objectives there."""
    if found.virtual is None:
        return [] if found.source == "pilot" else [f"Virtual time: not estimated: {found.no_virtual}"]
    lines = []
    for row in found.virtual["differences"]:
        if row["kind"] != "claim":
            continue
        at = next(line for line in found.virtual["baseline"] if line["load"] == row["load"])
        text = f"Virtual time (the model, not the machine; a real spread is larger), {_load(card, row['load'])}: "
        if row["stdev"] is None:
            text += f"no spread of {row['metric']} ({row['reason']})"
        else:
            change = math.expm1(row["mean"]) if row["scale"] == "log" else row["mean"]
            unit = "" if row["scale"] == "log" else " pt"
            text += f"{row['metric']} {change * 100:+.1f}{unit or '%'}"
            text += f", spread {row['stdev']:.2%} over {row['blocks']} blocks"
        known = [share for share in at["attainment"] if share is not None]
        if known:
            text += f"; the baseline met its objectives in {sum(known) / len(known):.1%}"
        lines.append(text)
    return lines


def require_answerable(card: dict[str, Any], found: Prospects | None) -> None:
    """Refuse an experiment that cannot answer, unless its card says why to run it all the same. Raises InputError."""
    if found is None or found.override is not None:
        return
    texts = [f"{one.seen}. What would mend it: {one.mend}" for one in found.reach]
    if found.falls_short:
        texts.append(_short_text(found.power, found.source or ""))
    if texts:
        way_out = "Or say on the card why to run it all the same: "
        way_out += 'power: {expect: …, override: "why"}; the verdict will say so'
        raise InputError(
            "the experiment cannot answer:\n" + "\n".join(f"  - {text}" for text in [*texts]) + f"\n{way_out}"
        )


def _short_text(power: dict[str, Any], source: str) -> str:
    joint, wanted = power["joint"], power["wanted_power"]
    least = joint["power"] if power["complete"] else joint["upper"]
    most = "" if power["complete"] else "at most "
    text = f"the joint chance is too small: power.chance is {wanted:.0%}, and {power['blocks']} blocks give "
    text += f"{most}{_chance(least)}"
    if power["blocks_needed"] is None:
        return text + "; no number of blocks up to 1,000 would do: less spread, or a threshold farther from the effect"
    alone = "" if power["complete"] else " for the parts whose spread is known"
    text += f"; {power['blocks_needed']} blocks would give {_chance(power['power_needed'])}{alone}: "
    return f"{text}method.blocks: {power['blocks_needed']}{_time_text(power, source)}"


def _chance(value: float) -> str:
    """A chance in whole per cent, never rounded to certainty."""
    return "over 99%" if 0.995 <= value < 1 else "under 1%" if 0 < value < 0.005 else f"{value:.0%}"


def _load(card: dict[str, Any], load: float) -> str:
    rate = card["workload"]["load_kind"] == "rate"
    return f"{load:.4g} req/s" if rate else f"concurrency {load:g}"

"""The section on the second day: two runs of one card side by side, or how to make the second."""

from __future__ import annotations

from . import numbers, wording
from .document import Bullets, Cell, Code, Paragraph, Section, Table, section, table
from .effects import word_cell
from .read import Bundle, Json


def second_day_section(bundle: Bundle) -> Section:
    """Two days side by side, or how to run the second."""
    title = "Second day"
    found = bundle.reproduction
    if found is None:
        alone = "Single day: the same card has not been run again with a fresh seed. RUN is this folder:"
        return section("second-day", title, Paragraph(alone), Code("benchcard reproduce RUN"))
    because = tuple(item["text"] for item in found.get("because") or [])
    return section(
        "second-day",
        title,
        Paragraph(f"The same card, a fresh seed: {found.get('word', 'unknown')}. The days are compared, never pooled."),
        Bullets(because) if because else None,
        _days_table(bundle, found),
        _difference_table(bundle, found),
    )


def _days_table(bundle: Bundle, found: Json) -> Table:
    """Each day's effect at each claimed load, with its interval and word."""
    unit, scale = numbers.metric_unit((bundle.result.get("claim") or {}).get("metric", "")), _claim_scale(bundle)
    rows: list[list[Cell | str]] = []
    for name, label in (("day1", "first"), ("day2", "second")):
        day: Json = found.get(name) or {}
        for at in day.get("effects") or []:
            rows.append(
                [
                    label,
                    Cell(str(day.get("run", "")), code=True),
                    str(day.get("seed", "")),
                    str(day.get("started") or "unknown"),
                    wording.load(at["load"], bundle.load_unit),
                    str(at.get("blocks", "")),
                    numbers.effect(at.get("mean"), scale, unit, None, at.get("interval")),
                    numbers.interval(at.get("interval"), scale, unit),
                    word_cell(at.get("word")),
                    word_cell(day.get("verdict")),
                ]
            )
    headings = f"Day|Run|#Seed|Started|Load|#Blocks|#Effect|#{bundle.confidence} interval|Word|Day's verdict"
    return table("The two days", headings, rows)


def _difference_table(bundle: Bundle, found: Json) -> Table:
    """Day 2 less day 1 at each claimed load, against the margin, on d."""
    level = f"{float(found.get('level', 0.9)) * 100:g}%"
    rows: list[list[Cell | str]] = [
        [
            wording.load(at["load"], bundle.load_unit),
            numbers.number(at.get("difference"), 3, signed=True),
            numbers.number(at.get("df"), 4),
            _plain_interval(at.get("interval")),
            "undefined" if at.get("margin") is None else f"±{numbers.number(at['margin'], 3)}",
            numbers.p_value(at.get("p")),
            word_cell(at.get("word")),
        ]
        for at in found.get("loads") or []
    ]
    return table("Day 2 − day 1, mean d", f"Load|#Difference|#df|#{level} interval|#Margin|#p|Word", rows)


def _claim_scale(bundle: Bundle) -> str:
    for effect in bundle.result.get("effects") or []:
        if effect.get("claimed"):
            return str(effect["scale"])
    return "log"


def _plain_interval(bounds: list[float] | None) -> str:
    if not bounds or None in bounds:
        return "undefined"
    return f"{numbers.number(bounds[0], 3, signed=True)} to {numbers.number(bounds[1], 3, signed=True)}"

"""The section on a cold start: what the starts and the first requests took, arm by arm."""

from __future__ import annotations

from benchcard.schema.metrics import COLD_START

from . import numbers, wording
from .document import Block, Bullets, Cell, Paragraph, Section, section, table
from .read import Bundle, Json
from .summary import load_points, mean_cell, summary_row


def is_cold_start(bundle: Bundle) -> bool:
    """Whether starts and first requests are what was measured."""
    return bool((bundle.card.get("workload") or {}).get("test") == "cold_start")


def _range(row: Json | None) -> str:
    """The least and the most of the used blocks."""
    values = [value for value in (row or {}).get("values") or [] if value is not None]
    if row is None or not values:
        return ""
    return f"{numbers.quantity(min(values), row['unit'])} to {numbers.quantity(max(values), row['unit'])}"


def start_sections(bundle: Bundle) -> tuple[Section, ...]:
    """The section on a cold start; none on any other card."""
    if not is_cold_start(bundle):
        return ()
    title = "Cold start"
    what = "repeat" if bundle.kind == "baseline" else "block"
    rows: list[list[Cell | str]] = []
    for number, load in load_points(bundle):
        for metric in COLD_START:
            for arm in bundle.arms:
                row = summary_row(bundle, arm, number, metric.name)
                rows.append([wording.load(load, bundle.load_unit), metric.name, arm, mean_cell(row), _range(row)])
    intro = Paragraph(
        f"A server was started for each cell, and nothing was warmed: one start a cell, so one a load and {what}. "
        "Every number of this report is of such a start; none is of a server in steady state."
    )
    found: list[Block] = [
        table(f"Mean ± stdev over the used {what}s", f"Load|Metric|Arm|#Value|#{what.capitalize()}s, min to max", rows)
    ]
    meanings = Bullets(tuple(f"{metric.name}: {metric.meaning}." for metric in COLD_START))
    return (section("start", title, intro, *found, meanings),)


def start_sentence(bundle: Bundle) -> str:
    """What a baseline of cold starts found, at each load."""
    parts = []
    for number, load in load_points(bundle):
        values = [
            f"{name} {mean_cell(row)}"
            for name in ("start.ready", "first.ttft")
            if (row := summary_row(bundle, "baseline", number, name)) is not None and row.get("mean") is not None
        ]
        if values:
            parts.append(f"at {wording.load(load, bundle.load_unit)} {wording.listing(values)}")
    if not parts:
        return "No start was measured in any repeat that counts."
    return f"Under the conditions below, a cold start took: {'; '.join(parts)} (mean ± stdev over the repeats)."

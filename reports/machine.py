"""The section on the machine that benchcard ran on: what it did while the cells were measured."""

from __future__ import annotations

from collections.abc import Sequence

from benchcard.schema.machine import MACHINE

from . import cell_charts, numbers, wording
from .document import Block, Cell, Figure, Paragraph, Section, section, table
from .read import Bundle, Json

#: what the chart shows, the first of these that the machine told and that differ between cells
_PANELS = (
    "host.cpu_busy",
    "host.cpu_other",
    "host.cpu_frequency",
    "host.temperature",
    "gpu.utilization",
    "gpu.sm_clock",
    "gpu.temperature",
    "host.power",
    "gpu.power",
    "host.cpu_steal",
)
_MOST_PANELS = 4
_TELEMETRY = "host.telemetry_cpu"
_NOTE = (
    "Of the machine that benchcard ran on, sampled while the load ran, over the measured windows of the used blocks. "
    "It is no check and decides nothing; where it differed between the arms or moved over the blocks, the conditions "
    "say so. Mean: over the cells, all loads together. Lowest and highest: of any look, or between two looks."
)


def machine_sections(bundle: Bundle) -> tuple[Section, ...]:
    """The section; none where the machine was not looked at."""
    rows: list[Json] = bundle.result.get("telemetry") or []
    if not rows:
        return ()
    blocks: list[Block | None] = [Paragraph(_NOTE, "muted"), _figure(bundle, rows), _table(bundle, rows), _cost(rows)]
    return (section("machine", "The machine meanwhile", *blocks),)


def _table(bundle: Bundle, rows: Sequence[Json]) -> Block:
    cells: list[list[Cell | str]] = []
    for quantity in MACHINE:
        mine = [row for row in rows if row["metric"] == quantity.name]
        if not mine or quantity.name == _TELEMETRY:
            continue
        known = [row for row in mine if row["mean"] is not None]
        means = [_mean([row["mean"] for row in known if row["arm"] == arm], quantity.unit) for arm in bundle.arms]
        ends = [min(row["min"] for row in known), max(row["max"] for row in known)] if known else []
        shown = [numbers.quantity(end, quantity.unit) for end in ends] or ["undefined", "undefined"]
        cells.append([quantity.title, *means, *shown, _without(mine)])
    headings = "|".join(["Quantity", *[f"#Mean, {arm}" for arm in bundle.arms], "#Lowest", "#Highest", "Undefined"])
    if all(not row[-1] for row in cells):
        headings, cells = headings.removesuffix("|Undefined"), [row[:-1] for row in cells]
    return table("The machine over the measured windows", headings, cells)


def _mean(values: Sequence[float], unit: str) -> str:
    return numbers.quantity(sum(values) / len(values), unit) if values else "undefined"


def _without(rows: Sequence[Json]) -> str:
    """How many cells have no value, and why."""
    reasons: dict[str, int] = {}
    for row in rows:
        if row["mean"] is None:
            reasons[str(row["undefined"])] = reasons.get(str(row["undefined"]), 0) + 1
    return f"of {wording.count(len(rows), 'cell')}: {wording.counted_reasons(reasons)}" if reasons else ""


def _cost(rows: Sequence[Json]) -> Paragraph | None:
    costs = [row["mean"] for row in rows if row["metric"] == _TELEMETRY and row["mean"] is not None]
    if not costs:
        return None
    text = (
        f"Looking took {numbers.quantity(max(costs), '1', 2)} of one core's time at most (the cell where it took most)."
    )
    return Paragraph(text, "muted")


def _figure(bundle: Bundle, rows: Sequence[Json]) -> Figure | None:
    data: list[Json] = []
    shown = 0
    for name in _PANELS:
        mine = [row for row in rows if row["metric"] == name and row["mean"] is not None]
        if shown == _MOST_PANELS or len({row["mean"] for row in mine}) < 2:
            continue
        shown += 1
        data += _panel(name, sorted(mine, key=lambda row: (row["block"], row["load_point"])))
    if not data:
        return None
    lines = "; a line for each load" if len({row["load"] for row in data}) > 1 else ""
    caption = (
        f"The machine over the blocks, in the order in which they ran: each cell's mean, and its lowest and highest"
        f"{lines}."
    )
    return Figure(cell_charts.machine_by_block(data, bundle.arms, "machine", caption), caption)


def _panel(name: str, rows: Sequence[Json]) -> list[Json]:
    quantity = next(quantity for quantity in MACHINE if quantity.name == name)
    factor, unit = numbers.scaled_unit(max(abs(row["max"]) for row in rows), quantity.unit)
    return [
        {
            "panel": f"{quantity.title} ({unit})",
            "arm": row["arm"],
            "block": row["block"],
            "load": row["load"],
            "value": row["mean"] / factor,
            "low": row["min"] / factor,
            "high": row["max"] / factor,
        }
        for row in rows
    ]

"""Tables of latency percentiles: pooled (a description), over blocks, and what is established of the objectives."""

from __future__ import annotations

from collections.abc import Callable

from . import wording
from .document import Block, Bullets, Cell, Paragraph, table
from .read import Bundle, Json

_WITHHELD = Cell("withheld", "muted")


def percentile_blocks(bundle: Bundle) -> list[Block] | None:
    """The tables with what is withheld and why; None where the analysis of that time has no such rows."""
    rows: list[Json] | None = bundle.result.get("latency")
    if rows is None:
        return None
    level = bundle.confidence
    pooled = f"Pooled percentiles (a description), with the {level} interval by ranks as if requests were independent"
    over = f"Mean over the blocks of each block's percentile, with the {level} t interval"
    blocks: list[Block] = [_table(bundle, rows, pooled, "#Values", _values, _pooled_cell)]
    blocks += _reasons(bundle, rows, "withheld", "Withheld from the pooled percentiles:")
    if any(row["block_mean_s"] is not None for row in rows):
        blocks.append(_table(bundle, rows, over, "#Blocks", _blocks, _block_cell))
    blocks += _reasons(
        bundle, rows, "block_reason", "Withheld from the percentiles over blocks, or without an interval:"
    )
    return blocks


def _values(row: Json) -> str:
    return f"{row['n']:,}"


def _blocks(row: Json) -> str:
    return str(row["blocks"])


def _table(
    bundle: Bundle,
    rows: list[Json],
    caption: str,
    counted: str,
    count: Callable[[Json], str],
    cell: Callable[[Json], Cell | str],
) -> Block:
    """A row a latency, load and arm, a column a percentile."""
    percents = sorted({int(row["percentile"]) for row in rows})
    found = {(row["metric"], row["load_point"], row["arm"], int(row["percentile"])): row for row in rows}
    cells: list[list[Cell | str]] = []
    for metric, point, arm in _places(bundle, rows):
        here = [found[metric, point, arm, percent] for percent in percents]
        load = wording.load(here[0]["load"], bundle.load_unit)
        cells.append([metric.upper(), load, arm, count(here[0]), *[cell(row) for row in here]])
    return table(caption, "|".join(["Latency", "Load", "Arm", counted, *[f"#p{p}" for p in percents]]), cells)


def _places(bundle: Bundle, rows: list[Json]) -> list[tuple[str, int, str]]:
    """(latency, load point, arm), in the order in which the report has them."""
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    arms = {arm: index for index, arm in enumerate(bundle.arms)}
    there = {(row["metric"], row["load_point"], row["arm"]) for row in rows}
    return sorted(there, key=lambda place: (metrics.index(place[0]), place[1], arms.get(place[2], len(arms))))


def _pooled_cell(row: Json) -> Cell | str:
    return _WITHHELD if row["value_s"] is None else _with_interval(row["value_s"], row["interval_s"])


def _block_cell(row: Json) -> Cell | str:
    mean = row["block_mean_s"]
    return _WITHHELD if mean is None else _with_interval(mean, row["block_interval_s"])


def _with_interval(value: float, bounds: list[float] | None) -> str:
    shown = wording.quantity(value, "s")
    return f"{shown} (no interval)" if bounds is None else f"{shown} ({wording.interval(bounds, 'difference', 's')})"


def _reasons(bundle: Bundle, rows: list[Json], key: str, title: str) -> list[Block]:
    """Each reason once, with where it holds."""
    where: dict[str, list[str]] = {}
    for row in rows:
        if row[key] is not None:
            load = wording.load(row["load"], bundle.load_unit)
            where.setdefault(row[key], []).append(f"{row['metric'].upper()} at {load} ({row['arm']})")
    if not where:
        return []
    items = (f"{reason}: {wording.shortened(dict.fromkeys(places), 4)}." for reason, places in where.items())
    return [Paragraph(title), Bullets(tuple(items))]


def established_blocks(bundle: Bundle) -> list[Block]:
    """For each objective "at most X" the highest percentile for which it is established; nothing without any."""
    rows: list[Json] = bundle.result.get("objective_percentiles") or []
    if not rows:
        return []
    arms = {arm: index for index, arm in enumerate(bundle.arms)}
    rows = sorted(rows, key=lambda row: (row["load_point"], arms.get(row["arm"], len(arms))))
    split = any(row["population"] is not None for row in rows)
    cells: list[list[Cell | str]] = []
    for row in rows:
        percent = row["percentile"]
        cells.append(
            [
                wording.load(row["load"], bundle.load_unit),
                row["arm"],
                *([row["population"] or ""] if split else []),
                f"{row['metric'].upper()} at most {wording.quantity(row['limit_s'], 's')}",
                "none" if percent is None else f"p{percent}",
                f"{row['violations']:,}",
                f"{row['n']:,}",
                row["reason"] or "the highest looked at",
            ]
        )
    headings = (
        f"Load|Arm|{'Population|' if split else ''}Objective|#Established|#Violations|#Attempts|Why no higher one"
    )
    caption = "The highest percentile established for each objective"
    rule = (
        "Established: violations, failed attempts included, so few that by chance they would come at most once in a "
        "hundred were the percentile above the limit (binomial test, requests taken as independent; a description)."
    )
    return [table(caption, headings, cells), Paragraph(rule, "muted")]

"""Tables of latency percentiles: pooled (a description), over blocks, and what is established of the objectives."""

from __future__ import annotations

import re
from collections.abc import Callable

from . import numbers, wording
from .document import Block, Cell, Paragraph, table
from .read import Bundle, Json

#: a reason names its percentile, which stands at the head of the column
_WHICH = re.compile(r"^p\d+ ")


def percentile_blocks(bundle: Bundle) -> list[Block] | None:
    """The tables with what is withheld and why; None where the analysis of that time has no such rows."""
    rows: list[Json] | None = bundle.result.get("latency")
    if rows is None:
        return None
    level = bundle.confidence
    pooled = f"Pooled percentiles (a description), with the {level} interval by ranks as if requests were independent"
    over = f"Mean over the blocks of each block's percentile, with the {level} t interval over the blocks"
    return [
        _table(bundle, rows, pooled, "#Values", _values, _pooled_cell),
        _table(bundle, rows, over, "#Blocks", _blocks, _block_cell),
    ]


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
    return _cell(row["value_s"], row["interval_s"], row["withheld"], "no interval")


def _block_cell(row: Json) -> Cell | str:
    return _cell(row["block_mean_s"], row["block_interval_s"], row["block_reason"], row["block_reason"])


def _cell(value: float | None, bounds: list[float] | None, why_not: str | None, no_interval: str | None) -> Cell | str:
    """ "134.2 ms (132.3 to 136.6)", the digits by the interval's width; or why there is no value."""
    if value is None:
        return Cell(_WHICH.sub("", why_not or "undefined"), "muted")
    if bounds is None:
        return f"{numbers.quantity(value, 's')} ({no_interval})"
    factor, unit = numbers.scaled_unit(value, "s")
    shown, low, high = value / factor, bounds[0] / factor, bounds[1] / factor
    most = numbers.decimals_for(shown, 5)
    decimals = min(numbers.decimals_for(high - low, 2), most) if high > low else numbers.decimals_for(shown, 3)
    ends = f"({numbers.fixed(low, decimals)} to {numbers.fixed(high, decimals)})"
    return f"{numbers.fixed(shown, decimals)} {unit} {ends}"


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
                f"{row['metric'].upper()} at most {numbers.quantity(row['limit_s'], 's')}",
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

"""Sections on the service: goodput, missed requests by cause, latency distributions."""

from __future__ import annotations

from benchcard.schema.event import OUTCOMES
from benchcard.schema.metrics import PERCENTILE_NEEDS

from . import cell_charts, charts, numbers, wording
from .document import Block, Bullets, Cell, Figure, Paragraph, Section, section, table
from .percentiles import established_blocks, percentile_blocks
from .read import Bundle, Json
from .summary import failed_notes, load_points, mean_cell, summary_row


def goodput_section(bundle: Bundle) -> Section:
    """Offered load against goodput for each arm, with the objectives stated."""
    title = "Goodput"
    if not bundle.judged:
        return section("goodput", title, Paragraph("The card states no objectives, so no request can be called good."))
    points = [row for row in bundle.series.get("goodput", []) if row.get("goodput") is not None]
    figure = None
    if points:
        rate = bundle.load_unit == "req/s"
        axis = "offered load, req/s" if rate else "concurrency"
        line = " On the line y = x every offered request would be good." if rate else ""
        caption = f"Goodput against {axis.split(',')[0]}, a point for each block, the lines through the means.{line}"
        rows = [{"arm": r["arm"], "block": r["block"], "load": r["load"], "goodput": r["goodput"]} for r in points]
        figure = Figure(charts.goodput_curve(rows, bundle.arms, axis, rate, "goodput", caption), caption)
    rows_: list[list[Cell | str]] = [
        [
            wording.load(load, bundle.load_unit),
            arm,
            mean_cell(summary_row(bundle, arm, number, "goodput")),
            mean_cell(summary_row(bundle, arm, number, "attainment")),
        ]
        for number, load in load_points(bundle)
        for arm in bundle.arms
    ]
    caption = "Goodput and attainment (good / attempted), mean ± stdev over the used blocks"
    return section(
        "goodput", title, *objective_blocks(bundle), figure, table(caption, "Load|Arm|#Goodput|#Attainment", rows_)
    )


def objective_blocks(bundle: Bundle) -> list[Block]:
    """What makes a request good; for populations with objectives of their own, each by its own."""
    if not bundle.own_objectives:
        return [Paragraph(f"A request is good only if all of these hold: {wording.objectives(bundle.objectives)}.")]
    own = tuple(f"{name}: {wording.objectives(limits)}" for name, limits in bundle.own_objectives.items())
    others = (f"every other request: {wording.objectives(bundle.objectives)}",) if bundle.objectives else ()
    return [Paragraph("A request is good only if all that is declared for it holds:"), Bullets(own + others)]


def _causes(rows: list[Json]) -> list[str]:
    return list(dict.fromkeys(cause for row in rows for cause in row.get("missed") or {}))


def _cause_name(cause: str) -> str:
    return {"success": "failed", "output": "output"}.get(cause, cause.upper())


def _rate(value: float | None) -> str:
    return "undefined" if value is None else numbers.fixed(value, 2)


def _first_cause_table(bundle: Bundle, rows: list[Json], causes: list[str]) -> Block:
    headings = "|".join(["Load", "Arm", "#Attempted", "#Good", *[f"#Missed: {_cause_name(c)}" for c in causes]])
    cells: list[list[Cell | str]] = []
    for row in rows:
        rates: Json = row.get("per_second") or {}
        first: Json = rates.get("first_cause") or {}
        missed = [first.get(cause, 0.0) if rates else None for cause in causes]
        start: list[Cell | str] = [wording.load(row["load"], bundle.load_unit), row["arm"]]
        counts = [rates.get("attempted"), rates.get("good"), *missed]
        cells.append(start + [_rate(value) for value in counts])
    caption = "Requests per second; attempted = good + missed, each missed request under its first cause"
    return table(caption, headings, cells)


def _counts_table(bundle: Bundle, rows: list[Json], causes: list[str]) -> Block:
    headings = "|".join(
        ["Load", "Arm", "#Window", "#Attempted", "#Good", *[f"#Missed: {_cause_name(c)}" for c in causes]]
    )
    cells: list[list[Cell | str]] = []
    for row in rows:
        start: list[Cell | str] = [wording.load(row["load"], bundle.load_unit), row["arm"]]
        start.append(numbers.quantity(row.get("window_s"), "s"))
        counts = [row["attempted"], row.get("good"), *[(row.get("missed") or {}).get(cause, 0) for cause in causes]]
        cells.append(start + ["undefined" if n is None else f"{n:,}" for n in counts])
    caption = "Requests, a missed one under every objective that it missed"
    return table(caption, headings, cells)


def _outcomes_table(bundle: Bundle, rows: list[Json]) -> Block:
    seen = {name for row in rows for name, n in (row.get("outcomes") or {}).items() if n}
    names = [name for name in OUTCOMES if name in seen] + sorted(seen - set(OUTCOMES))
    cells: list[list[Cell | str]] = []
    for row in rows:
        counts: Json = row.get("outcomes") or {}
        start: list[Cell | str] = [wording.load(row["load"], bundle.load_unit), row["arm"]]
        cells.append(start + [f"{counts.get(name, 0):,}" for name in names])
    caption = "Outcomes of all attempts; only ok can be good, and none leaves a denominator"
    return table(caption, "|".join(["Load", "Arm", *[f"#{name}" for name in names]]), cells)


def attribution_section(bundle: Bundle) -> Section:
    """Attempted = good + each miss by cause, per second and in requests; outcomes."""
    arms = {arm: index for index, arm in enumerate(bundle.arms)}
    rows: list[Json] = bundle.result.get("attribution") or []
    rows = sorted(rows, key=lambda row: (row["load_point"], arms.get(row["arm"], len(arms))))
    title = "Missed requests by cause" if bundle.judged else "Outcomes"
    if not rows:
        return section("attribution", title, Paragraph("No measured window counts, so no request can be attributed."))
    if not bundle.judged:
        return section("attribution", title, _outcomes_table(bundle, rows))
    causes = _causes(rows)
    meaning = Paragraph(
        "Failed: the outcome was not ok. The other causes are the card's objectives. "
        "Summed over the windows of the used blocks."
    )
    tables = (
        _first_cause_table(bundle, rows, causes),
        _counts_table(bundle, rows, causes),
        _outcomes_table(bundle, rows),
    )
    return section("attribution", title, meaning, *tables)


def _objective_limit(bundle: Bundle, metric: str) -> float | None:
    # one line for all requests, so none where some have another limit
    rule = None if bundle.own_objectives else bundle.objectives.get(metric)
    if not isinstance(rule, dict):
        return None
    limit = rule.get("at_most", rule.get("every"))
    return None if limit is None else float(limit)


def _latency_figure(bundle: Bundle, metric: str, rows: list[Json]) -> Figure:
    limit = _objective_limit(bundle, metric)
    typical = sorted(row["value_s"] for row in rows)[len(rows) // 2]
    factor, unit = numbers.scaled_unit(typical, "s")
    data = [
        {
            "arm": row["arm"],
            "load": wording.load(row["load"], bundle.load_unit),
            "percentile": row["percentile"],
            "value": row["value_s"] / factor,
            **{end: row[f"{end}_s"] / factor for end in ("lower", "upper") if row.get(f"{end}_s") is not None},
        }
        for row in rows
    ]
    dashed = f" Vertical dashed line: the objective, {numbers.quantity(limit, 's')}." if limit is not None else ""
    interval = f" Band: the pointwise {bundle.confidence} interval of each value, as if requests were independent."
    band = interval if any(row.get("lower_s") is not None for row in rows) else ""
    caption = f"Distribution of {metric.upper()} at each load: the share of values at or below.{band}{dashed}"
    shown = None if limit is None else limit / factor
    svg = cell_charts.latency_ecdf(data, bundle.arms, f"{metric.upper()}, {unit}", shown, f"latency-{metric}", caption)
    return Figure(svg, caption)


def _at_percentile(rows: list[Json], share: float) -> float | None:
    """The smallest sampled value with at least that share of the data at or below it."""
    reached = [row["value_s"] for row in rows if row["percentile"] >= share - 1e-9]
    return min(reached) if reached else None


def latency_section(bundle: Bundle) -> Section:
    """Latency distributions, pooled over the used blocks: descriptive only; percentiles over blocks; objectives."""
    title = "Latency distributions"
    series = [row for row in bundle.series.get("latency", []) if row.get("value_s") is not None]
    if not series:
        nothing = Paragraph("No latency was defined in any used block.")
        return section("latency", title, nothing, *established_blocks(bundle))
    names = list(dict.fromkeys(row["metric"] for row in series))
    figures = [_latency_figure(bundle, name, [row for row in series if row["metric"] == name]) for name in names]
    above = " What decides is compared block by block, above." if bundle.kind == "ab" else ""
    note = Paragraph(
        "Pooled over the used blocks, so these describe and decide nothing: requests inside a block are not "
        f"independent.{above}",
        "muted",
    )
    found = percentile_blocks(bundle)
    tables = [_two_percentiles(bundle, series)] if found is None else [*found, *established_blocks(bundle)]
    return section("latency", title, note, *figures, *failed_notes(bundle), *tables)


def _two_percentiles(bundle: Bundle, series: list[Json]) -> Block:
    """Pooled p50 and p90 off the curves: what there is where the analysis of that time gave no percentile rows."""
    rows = list[list[Cell | str]]()
    for metric in dict.fromkeys(row["metric"] for row in series):
        for number, load in load_points(bundle):
            for arm in bundle.arms:
                place = (metric, arm, number)
                here = [row for row in series if (row["metric"], row["arm"], row["load_point"]) == place]
                n = int(here[0]["n"]) if here else 0
                tail = (
                    numbers.quantity(_at_percentile(here, 0.9), "s")
                    if n >= PERCENTILE_NEEDS["p90"]
                    else f"needs {PERCENTILE_NEEDS['p90']} values"
                )
                start = [metric.upper(), wording.load(load, bundle.load_unit), arm, f"{n:,}"]
                middle = numbers.quantity(_at_percentile(here, 0.5), "s") if here else "undefined (no value)"
                rows.append([*start, middle, tail])
    return table("Pooled percentiles", "Latency|Load|Arm|#Values|#p50|#p90", rows)

"""The section on populations: each kind of request apart, since an average over them holds for none."""

from __future__ import annotations

from . import cell_charts, numbers, wording
from .document import Block, Cell, Figure, Paragraph, Section, section, table
from .read import Bundle, Json
from .service import objective_blocks

#: what the tables show of each population; the analysis has every metric of each cell
SHOWN = ("goodput", "attainment", "error_rate", "ttft.p50", "tpot.p50", "e2e.p50", "output_throughput")


def _effects_table(bundle: Bundle) -> Block | None:
    effects: list[Json] = bundle.result.get("population_effects") or []
    if not effects:
        return None
    rows: list[list[Cell | str]] = []
    for effect in sorted(effects, key=lambda e: e["load_point"]):
        unit, scale, reason = numbers.metric_unit(effect["metric"]), effect["scale"], effect.get("reason")
        rows.append(
            [
                wording.load(effect["load"], bundle.load_unit),
                effect["metric"],
                effect["population"],
                numbers.quantity(effect.get("baseline"), unit),
                numbers.quantity(effect.get("candidate"), unit),
                numbers.effect(effect.get("mean"), scale, unit, reason, effect.get("interval")),
                numbers.interval(effect.get("interval"), scale, unit, 0.0, reason),
            ]
        )
    headings = f"Load|Metric|Population|#Baseline|#Candidate|#Effect|#{bundle.confidence} interval"
    return table("Effect on each population", headings, rows)


def _place(row: Json, names: list[str]) -> tuple[int, int]:
    """Rows stand by load, then by population in the card's order; the arms of one beside each other."""
    return row["load_point"], names.index(row["population"])


def _names(rows: list[Json]) -> list[str]:
    return list(dict.fromkeys(row["population"] for row in rows))


def _shares_table(bundle: Bundle) -> Block:
    shares: list[Json] = bundle.result.get("population_shares") or []
    names = _names(shares)
    rows: list[list[Cell | str]] = [
        [
            wording.load(row["load"], bundle.load_unit),
            row["population"],
            row["arm"],
            numbers.quantity(row["declared"], "1"),
            f"{row['attempted']:,} of {row['of']:,}",
            numbers.quantity_or_reason(row.get("share"), "1", row.get("reason")),
        ]
        for row in sorted(shares, key=lambda row: _place(row, names))
    ]
    caption = "Counted attempts and their share, over the used blocks"
    return table(caption, "Load|Population|Arm|#Declared share|#Attempts|#Share", rows)


def _summary_table(bundle: Bundle) -> Block:
    found: dict[tuple[int, str, str], dict[str, str]] = {}
    loads: dict[int, float] = {}
    summary: list[Json] = bundle.result.get("population_summary") or []
    names = _names(summary)
    for row in sorted(summary, key=lambda row: _place(row, names)):
        loads[row["load_point"]] = row["load"]
        key = (row["load_point"], row["population"], row["arm"])
        text = numbers.mean_stdev(row.get("mean"), row.get("stdev"), row["unit"], row.get("reason"))
        found.setdefault(key, {})[row["metric"]] = text
    rows: list[list[Cell | str]] = [
        [
            wording.load(loads[point], bundle.load_unit),
            population,
            arm,
            *(metrics.get(name, "not computed") for name in SHOWN),
        ]
        for (point, population, arm), metrics in found.items()
    ]
    headings = "|".join(["Load", "Population", "Arm", *(f"#{wording.metric_title(name)}" for name in SHOWN)])
    return table("Each population, mean ± stdev over the used blocks", headings, rows)


def _objective(bundle: Bundle, population: str) -> float | None:
    """The TTFT objective of a population: its own, else the card's (s)."""
    own = (bundle.card.get("workload", {}).get("populations") or {}).get(population) or {}
    limit = ((own.get("objectives") or bundle.objectives).get("ttft") or {}).get("at_most")
    return None if limit is None else float(limit)


def _figures(bundle: Bundle) -> list[Figure]:
    """The distribution of TTFT of each population."""
    series = [row for row in bundle.series.get("populations", []) if row.get("value_s") is not None]
    figures = []
    for index, population in enumerate(dict.fromkeys(row["population"] for row in series), start=1):
        mine = [row for row in series if row["population"] == population]
        factor, unit = numbers.scaled_unit(sorted(row["value_s"] for row in mine)[len(mine) // 2], "s")
        rows = [
            {
                "arm": row["arm"],
                "load": wording.load(row["load"], bundle.load_unit),
                "percentile": row["percentile"],
                "value": row["value_s"] / factor,
            }
            for row in mine
        ]
        limit = _objective(bundle, population)
        dashed = "" if limit is None else f" Vertical dashed line: its objective, {numbers.quantity(limit, 's')}."
        caption = f"Distribution of the TTFT of {population} at each load: the share of values at or below.{dashed}"
        shown = None if limit is None else limit / factor
        axis = f"TTFT of {population}, {unit}"
        svg = cell_charts.latency_ecdf(rows, bundle.arms, axis, shown, f"population-{index}", caption)
        figures.append(Figure(svg, caption))
    return figures


def population_sections(bundle: Bundle) -> tuple[Section, ...]:
    """The section, where the card has populations."""
    if not bundle.result.get("populations"):
        return ()
    turned: list[Json] = bundle.result.get("population_reversals") or []
    pooled = "The distributions are pooled over the used blocks, whose requests are not independent."
    closing = f"Rates are over the whole window, so the populations' rates add up to the system's. {pooled}"
    if bundle.kind == "ab":
        closing += (
            " Effects on single populations are descriptive and decide nothing, except where the claim or a guard names"
            " one. Each interval stands by itself: none is corrected for the number of populations, metrics and loads."
        )
    return (
        section(
            "populations",
            "Populations",
            *(Paragraph(f"Reversed between populations: {row['text']}.", "warn") for row in turned),
            *(objective_blocks(bundle) if bundle.own_objectives else ()),
            *_figures(bundle),
            _effects_table(bundle),
            _summary_table(bundle),
            _shares_table(bundle),
            Paragraph(closing, "muted"),
        ),
    )

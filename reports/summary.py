"""The section on every metric of each arm, and the summary rows that other sections quote."""

from __future__ import annotations

from typing import Any

from benchcard.schema.metrics import COLD_START, PERCENTILE_NEEDS

from . import numbers, wording
from .document import Block, Bullets, Cell, Paragraph, Section, section, table
from .read import Bundle, Json

_COLD_START = {metric.name for metric in COLD_START}


def summary_row(bundle: Bundle, arm: str, load_point: int, metric: str) -> Json | None:
    """The summary of a metric of an arm at a load, if the analysis has it."""
    for row in bundle.result.get("summary") or []:
        if (row["arm"], row["load_point"], row["metric"]) == (arm, load_point, metric):
            found: Json = row
            return found
    return None


def mean_cell(row: Json | None) -> str:
    """Mean ± stdev over the used blocks, or why there is none."""
    if row is None:
        return "not computed"
    return numbers.mean_stdev(row.get("mean"), row.get("stdev"), row["unit"], row.get("reason"))


def load_points(bundle: Bundle) -> list[tuple[int, float]]:
    """The load points of the card: (number from 1, load)."""
    loads = bundle.card.get("workload", {}).get("loads") or []
    return [(index, float(load)) for index, load in enumerate(loads, start=1)]


def failed_notes(bundle: Bundle) -> list[Block]:
    """How many attempts of each arm and load failed, which the latencies leave out; nothing where none did."""
    fate = "they count as missed" if bundle.judged else "they count in error_rate"
    arms = {arm: index for index, arm in enumerate(bundle.arms)}
    rows: list[Json] = bundle.result.get("attribution") or []
    notes = []
    for row in sorted(rows, key=lambda row: (row["load_point"], arms.get(row["arm"], len(arms)))):
        attempted = int(row["attempted"])
        failed = attempted - int((row.get("outcomes") or {}).get("ok", 0))
        if failed:
            where = f"{wording.load(row['load'], bundle.load_unit)} {row['arm']}"
            of = f"{failed:,} of {wording.count(attempted, 'attempt')} failed"
            notes.append(f"{where}: {of} and have no latency here; {fate}.")
    return [Paragraph("Latencies are of ok attempts only:"), Bullets(tuple(notes))] if notes else []


def _undefined_notes(bundle: Bundle) -> tuple[str, ...]:
    """Every undefined value, counted by metric and reason over the used cells."""
    totals: dict[tuple[str, str], int] = {}
    for row in bundle.result.get("metrics") or []:
        # the statistics of one quantity leave out the same values: say it once
        name = str(row["metric"])
        name = name if name in _COLD_START else name.split(".")[0]
        for reason, n in (row.get("undefined") or {}).items():
            key = (f"{name} in {row['cell']}", reason)
            totals[key] = max(totals.get(key, 0), int(n))
    by_metric: dict[str, dict[str, int]] = {}
    for (name, reason), n in totals.items():
        reasons = by_metric.setdefault(name.split(" in ")[0], {})
        reasons[reason] = reasons.get(reason, 0) + n
    return tuple(f"{name}: {wording.counted_reasons(reasons)}" for name, reasons in sorted(by_metric.items()))


def _fewest_values(bundle: Bundle, metric: str) -> int | None:
    """The fewest values that any used cell had for the metric."""
    return min((int(row["n"]) for row in bundle.result.get("metrics") or [] if row["metric"] == metric), default=None)


def _same_rows(rows: list[Json], one: str, other: str) -> bool:
    """Whether two latencies have the same means everywhere (no reasoning tokens; one token a chunk)."""

    def means(latency: str) -> dict[tuple[str, int, str], float | None]:
        """The latency's means, by (arm, load point, statistic)."""
        found = [row for row in rows if row["metric"].startswith(f"{latency}.")]
        return {(row["arm"], row["load_point"], row["metric"].split(".")[1]): row["mean"] for row in found}

    return bool(means(one)) and means(one) == means(other)


def shown_metrics(bundle: Bundle) -> tuple[list[str], list[str]]:
    """(metrics to show, notes on the others): those that repeat another, percentiles that a block cannot carry."""
    rows: list[Json] = bundle.result.get("summary") or []
    names = list(dict.fromkeys(row["metric"] for row in rows))
    notes = []
    for other, one, why in (
        ("ttfa", "ttft", "no token of reasoning came first"),
        ("icl", "itl", "each chunk is one token"),
        ("itl_retokenized", "itl", "the text's tokens, counted again, are those reported"),
    ):
        if _same_rows(rows, one, other):
            names = [name for name in names if not name.startswith(f"{other}.")]
            notes.append(f"{other} is the same as {one} here: {why}.")
    if all(row["mean"] is None for row in rows if row["metric"].startswith("itl_retokenized.")):
        # No tokenizer on the card: the note on undefined metrics says so.
        names = [name for name in names if not name.startswith("itl_retokenized.")]
    for statistic, needs in PERCENTILE_NEEDS.items():
        fewest = {name: _fewest_values(bundle, name) for name in names if name.endswith(f".{statistic}")}
        few = [name for name, n in fewest.items() if n is not None and n < needs]
        if few:
            names = [name for name in names if name not in few]
            notes.append(f"Not shown, because {statistic} needs {needs} values a block: {', '.join(few)}.")
    return names, notes


def metrics_section(bundle: Bundle) -> Section:
    """Every metric of each arm at each load: mean over the used blocks ± stdev."""
    title = "All metrics"
    names, notes = shown_metrics(bundle)
    if not names:
        return section("metrics", title, Paragraph("No block counts, so no metric has a value."))
    intro = Paragraph(
        "Mean ± stdev over the used blocks. Only the claim and the guards have a verdict word; "
        "everything else here is exploratory."
    )
    tables: list[Any] = []
    for number, load in load_points(bundle):
        cells: list[list[Cell | str]] = []
        for name in names:
            found = [summary_row(bundle, arm, number, name) for arm in bundle.arms]
            better = next((row["better"] for row in found if row), "")
            cells.append([name, *[mean_cell(row) for row in found], better])
        headings = "|".join(["Metric", *[f"#{arm}" for arm in bundle.arms], "Better"])
        tables.append(table(f"At {wording.load(load, bundle.load_unit)}", headings, cells))
    undefined = _undefined_notes(bundle)
    closing: list[Block] = [Bullets(tuple(notes))] if notes else []
    if undefined:
        closing += [
            Paragraph("Values that are undefined, counted over the used cells and never taken as 0:"),
            Bullets(undefined),
        ]
    return section("metrics", title, intro, *failed_notes(bundle), *tables, *closing)

"""The report of a baseline: one system over a sweep of loads, repeated for its noise floor."""

from __future__ import annotations

from typing import Any

from . import charts, numbers, wording
from .document import Block, Bullets, Cell, Document, Figure, Paragraph, Section, section, table
from .headline import check_value, observed, short_digest
from .identity import forbidden_sections
from .knee import knee_sections
from .machine import machine_sections
from .next_steps import is_unknown
from .populations import population_sections
from .procedure import blocks_section, check_section, conditions_section, identity_section, validity_section
from .read import Bundle, Json
from .servers import server_sections
from .service import attribution_section, latency_section
from .start import is_cold_start, start_sections, start_sentence
from .steady import steady_sections

LATENCIES = ("ttft.p50", "ttft.p95", "tpot.p50", "tpot.p95")
#: footnote marks for labels on values, in the order in which the labels appear
_MARKS = "†‡§¶"


def _value(point: Json, metric: str) -> Json | None:
    found: Json | None = (point.get("metrics") or {}).get(metric)
    return found


def _metric_cell(found: Json | None, marks: dict[str, str]) -> str:
    if found is None:
        return "not computed"
    text = numbers.mean_stdev(found.get("mean"), found.get("stdev"), found["unit"], found.get("reason"))
    label = found.get("label")
    return f"{text} {marks[label]}" if label and found.get("mean") is not None else text


def _marks(sweep: list[Json]) -> dict[str, str]:
    labels = dict.fromkeys(
        found["label"] for point in sweep for found in (point.get("metrics") or {}).values() if found.get("label")
    )
    return {label: _MARKS[index] if index < len(_MARKS) else f"[{index + 1}]" for index, label in enumerate(labels)}


def _sweep_tables(bundle: Bundle, sweep: list[Json]) -> list[Block]:
    marks = _marks(sweep)
    shown = ["output_throughput", *LATENCIES]
    repeats = max((len((_value(p, "output_throughput") or {}).get("values") or []) for p in sweep), default=0)
    rows: list[list[Cell | str]] = [
        [wording.load(p["load"], bundle.load_unit), *[_metric_cell(_value(p, name), marks) for name in shown]]
        for p in sweep
    ]
    headings = "|".join(["Load", *[f"#{wording.metric_title(name)}" for name in shown]])
    blocks: list[Block] = [table(f"Mean ± stdev over {wording.count(repeats, 'repeat')}", headings, rows)]
    if marks:
        blocks.append(Bullets(tuple(f"{mark} {label}" for label, mark in marks.items())))
    others = [n for n in dict.fromkeys(name for p in sweep for name in p.get("metrics") or {}) if n not in shown]
    if others:
        more: list[list[Cell | str]] = [
            [wording.load(p["load"], bundle.load_unit), *[_metric_cell(_value(p, name), marks) for name in others]]
            for p in sweep
        ]
        headings = "|".join(["Load", *[f"#{wording.metric_title(name)}" for name in others]])
        blocks.append(table("The other metrics, mean ± stdev", headings, more))
    return blocks


def _chart_rows(sweep: list[Json], metric: str, series: str, factor: float) -> list[Json]:
    rows = []
    for point in sweep:
        found = _value(point, metric) or {}
        if found.get("mean") is None:
            continue
        values = [value for value in found.get("values") or [] if value is not None]
        rows += [
            {"series": series, "load": point["load"], "value": v / factor, "mean": found["mean"] / factor}
            for v in values
        ]
    return rows


def _figure(bundle: Bundle, sweep: list[Json], metrics: list[str], name: str, chart_id: str) -> Figure | None:
    means = [found["mean"] for p in sweep for m in metrics if (found := _value(p, m)) and found.get("mean") is not None]
    if not means:
        return None
    unit = numbers.metric_unit(metrics[0])
    factor, shown = numbers.scaled_unit(max(means), unit)
    rows = [row for metric in metrics for row in _chart_rows(sweep, metric, metric, factor)]
    axis = "concurrency" if bundle.load_unit == "concurrent" else "offered load, req/s"
    caption = f"{name} against {axis.split(',')[0]}: a point for each repeat, the line through the means."
    return Figure(charts.sweep(rows, axis, f"{name}, {shown}", chart_id, caption), caption)


def _noise_note(bundle: Bundle, point: Json) -> str | None:
    moved, same = [], []
    for metric in ("output_throughput", "ttft.p50", "tpot.p50"):
        title = wording.metric_title(metric)
        name = title if "." in metric else title.lower()
        found = _value(point, metric) or {}
        mean, stdev = found.get("mean"), found.get("stdev")
        if not mean or stdev is None:
            continue
        if stdev <= 1e-9 * abs(mean):
            same.append(name)
            continue
        share = numbers.quantity(2 * stdev / mean, "1", 2)
        moved.append(f"{name} by more than {numbers.quantity(2 * stdev, found['unit'], 2)} ({share})")
    at = wording.load(point["load"], bundle.load_unit)
    parts = (
        [f"At {at}, a later change must move {wording.listing(moved, 'or')} to be told from noise."] if moved else []
    )
    if same:
        parts.append(f"At {at}, every repeat gave the same {wording.listing(same)}, so that noise is not resolved.")
    return " ".join(parts) or None


def noise_notes(bundle: Bundle) -> tuple[str, ...]:
    """What a later change must exceed to be told from noise: twice the spread of the repeats, a rule of thumb."""
    notes = [_noise_note(bundle, point) for point in bundle.result.get("sweep") or []]
    return tuple(note for note in notes if note)


def _sweep_section(bundle: Bundle, sweep: list[Json]) -> Section:
    if not sweep:
        return section("sweep", "The sweep", Paragraph("No repeat counts, so there is nothing to show."))
    throughput = _figure(bundle, sweep, ["output_throughput"], "Output throughput", "throughput")
    tpot = _figure(bundle, sweep, ["tpot.p50", "tpot.p95"], "TPOT", "tpot")
    return section("sweep", "The sweep", throughput, tpot, *_sweep_tables(bundle, sweep))


def _noise_section(bundle: Bundle) -> Section:
    notes = noise_notes(bundle)
    rule = Paragraph(
        "A rule of thumb: twice the standard deviation of the repeats. It is no test; an ab card with blocks is one. "
        "Repeats on one day do not contain what changes from day to day.",
        "muted",
    )
    body: Block = Bullets(notes) if notes else Paragraph("Fewer than two repeats count: the noise floor is undefined.")
    return section("noise", "Noise floor", body, rule)


def _sentence(bundle: Bundle) -> str:
    given = bundle.result.get("sentence")
    if given:
        return str(given)
    if is_cold_start(bundle):
        return start_sentence(bundle)
    points: list[Json] = bundle.result.get("sweep") or []
    named: list[tuple[Json, Any]] = [(p, (_value(p, "output_throughput") or {}).get("mean")) for p in points]
    known = [(p, mean) for p, mean in named if mean is not None]
    if not known:
        return "No load was measured in any repeat that counts."
    best, _ = max(known, key=lambda pair: float(pair[1]))
    found = best["metrics"]["output_throughput"]
    highest = numbers.mean_stdev(found["mean"], found.get("stdev"), found["unit"])
    return (
        f"Under the conditions below, of the loads that were run this system gave most at "
        f"{wording.load(best['load'], bundle.load_unit)}: {highest} (mean ± stdev over the repeats)."
    )


def _failures(bundle: Bundle) -> tuple[str, ...]:
    return tuple(
        f"{check['name']} failed{' in ' + wording.shortened(check['where']) if check.get('where') else ''}: observed "
        f"{observed(check)}, limit "
        f"{check_value(check.get('limit'), check.get('unit') or '')}. {check.get('advice') or ''}".strip()
        for check in bundle.result.get("validity") or []
        if not check.get("passed")
    )


def baseline_document(bundle: Bundle) -> Document:
    """The whole report of a baseline bundle."""
    result = bundle.result
    card: Json = result.get("card") or {}
    sweep: list[Json] = result.get("sweep") or []
    valid = bool(result.get("valid"))
    unknown = sum(is_unknown(condition) for condition in result.get("conditions") or [])
    conditions = wording.count(len(result.get("conditions") or []), "condition")
    sections = (
        *forbidden_sections(bundle),
        *start_sections(bundle),
        _sweep_section(bundle, sweep),
        _noise_section(bundle),
        *knee_sections(bundle),
        *((latency_section(bundle),) if "latency" in bundle.result else ()),
        *population_sections(bundle),
        *steady_sections(bundle),
        *server_sections(bundle),
        *machine_sections(bundle),
        attribution_section(bundle),
        blocks_section(bundle),
        validity_section(bundle),
        conditions_section(bundle),
        check_section(bundle),
        identity_section(bundle),
    )
    decision = "A baseline describes; it supports no claim. Later experiments stand on it, under the same conditions."
    broken = "The run failed a check that was fixed before it began: later experiments cannot stand on these numbers."
    return Document(
        title=card.get("title") or card.get("id") or "baseline",
        word="valid baseline" if valid else "invalid",
        symbol="✓" if valid else "⊘",
        tone="good" if valid else "muted",
        sentence=_sentence(bundle),
        stamp=f"{conditions}, {unknown} unknown; run {result.get('run')}, card {short_digest(card.get('digest'))}",
        because=tuple(item["text"] for item in result.get("because") or []) + (() if valid else _failures(bundle)),
        decision=(decision if valid else broken,),
        question=card.get("question") or "",
        sections=sections,
    )

"""Sections on the hypothesis: effects against the threshold, guards, evidence, the declared chain."""

from __future__ import annotations

from collections.abc import Callable

from . import charts, numbers, wording
from .document import Block, Bullets, Cell, Figure, Paragraph, Section, Table, section, table
from .guard_words import as_change
from .headline import WORDS, claim_text, effect_notes
from .read import Bundle, Json

_TONES = {
    "pass": "good",
    "holds": "good",
    "reproduced": "good",
    "regressed": "bad",
    "fails": "bad",
    "conflict": "bad",
    "indeterminate": "warn",
    "unknown": "warn",
    **{word: tone for word, (_, tone) in WORDS.items()},
}


_SCALES = {
    "log": "the log ratio candidate/baseline",
    "difference": "the difference candidate − baseline",
    "scaled": "candidate − the threshold's multiple of the baseline",
}


def word_cell(word: str | None, claimed: bool = True) -> Cell:
    """A verdict word as a cell; what was not claimed has none and is exploratory."""
    if not claimed:
        return Cell("exploratory", "muted")
    return Cell("no word", "muted") if word is None else Cell(word, _TONES.get(word, ""))


def _threshold(effect: Json) -> str:
    return numbers.effect(effect.get("threshold"), effect["scale"], numbers.metric_unit(effect["metric"]))


def _absolute(effect: Json) -> str:
    """ "+1.01 req/s (+0.84 to +1.19)": the plain difference and its interval, which describe."""
    found: Json = effect.get("absolute") or {}
    unit, bounds = found.get("unit") or "", found.get("interval")
    if found.get("difference") is None:
        return numbers.undefined(effect.get("reason"))
    text = numbers.effect(found["difference"], "difference", unit, None, bounds)
    return f"{text} ({numbers.interval(bounds, 'difference', unit)})" if bounds else text


def _effect_row(bundle: Bundle, effect: Json, absolute: bool) -> list[Cell | str]:
    unit = numbers.metric_unit(effect["metric"])
    bounds = numbers.interval(
        effect.get("interval"), effect["scale"], unit, effect.get("threshold"), effect.get("reason")
    )
    each = [d for d in effect.get("d") or [] if d is not None]
    return [
        wording.load(effect["load"], bundle.load_unit),
        word_cell(effect.get("word"), bool(effect.get("claimed"))),
        numbers.effect(effect.get("mean"), effect["scale"], unit, effect.get("reason"), effect.get("interval")),
        bounds,
        _threshold(effect),
        numbers.quantity(effect.get("baseline"), unit, 4),
        numbers.quantity(effect.get("candidate"), unit, 4),
        *([_absolute(effect)] if absolute else []),
        numbers.interval([min(each), max(each)] if each else None, effect["scale"], unit),
        wording.of(effect["metric"], (bundle.result.get("claim") or {}).get("population")),
    ]


def _tests(bundle: Bundle, effects: list[Json]) -> Table:
    """The numbers behind the words, on d; corrections for several loads only where there are any."""

    def bounds(key: str) -> Callable[[Json], str]:
        """How a row's interval of that key is shown."""
        return lambda e: numbers.interval(e.get(key), e["scale"], numbers.metric_unit(e["metric"]), e.get("threshold"))

    always: list[tuple[str, Callable[[Json], str]]] = [
        ("Load", lambda e: wording.load(e["load"], bundle.load_unit)),
        # early, where no narrow page scrolls it out of sight
        ("Flags", lambda e: ", ".join(e.get("flags") or []) or "none"),
        ("#Blocks", lambda e: str(e.get("blocks", 0))),
        ("#Mean d", lambda e: numbers.number(e.get("mean"), 4, signed=True)),
        ("#Stdev of d", lambda e: numbers.number(e.get("stdev"), 3)),
        ("#t", lambda e: numbers.number(e.get("t"), 4, signed=True)),
        ("#p", lambda e: numbers.p_value(e.get("p"))),
    ]
    where_any: list[tuple[str, str, Callable[[Json], str]]] = [
        ("p_adjusted", "#p (Holm)", lambda e: numbers.p_value(e.get("p_adjusted"))),
        ("sign_flip_p", "#Sign-flip p", lambda e: numbers.p_value(e.get("sign_flip_p"))),
        ("sign_flip_interval", "#Sign-flip interval", bounds("sign_flip_interval")),
        ("bonferroni_interval", "#Interval for all loads (Bonferroni)", bounds("bonferroni_interval")),
        (
            "smallest_detectable",
            "#Smallest detectable",
            lambda e: numbers.size(e.get("smallest_detectable"), e["scale"], numbers.metric_unit(e["metric"])),
        ),
    ]
    if len(effects) < 2:
        where_any = [column for column in where_any if column[0] != "bonferroni_interval"]
    shown = always + [(head, text) for key, head, text in where_any if any(e.get(key) is not None for e in effects)]
    rows: list[list[Cell | str]] = [[text(effect) for _, text in shown] for effect in effects]
    return table("The test behind it, on d", "|".join(head for head, _ in shown), rows)


def _label(bundle: Bundle, effect: Json) -> str:
    note = "" if effect.get("claimed") else " (exploratory)"
    return wording.load(effect["load"], bundle.load_unit) + note


def _figures(bundle: Bundle, effects: list[Json]) -> list[Figure]:
    """One chart for each metric and scale among the effects: their units differ."""
    figures = []
    for index, (metric, scale) in enumerate(dict.fromkeys((e["metric"], e["scale"]) for e in effects), start=1):
        rows = [
            {
                "label": _label(bundle, e),
                "kind": "claimed" if e.get("claimed") else "exploratory",
                "mean": numbers.effect_value(e["mean"], scale),
                "low": numbers.effect_value(e["interval"][0], scale),
                "high": numbers.effect_value(e["interval"][1], scale),
                "threshold": numbers.effect_value(e["threshold"], scale),
            }
            for e in effects
            if (e["metric"], e["scale"]) == (metric, scale)
            and None not in (e.get("mean"), e.get("threshold"))
            and e.get("interval")
        ]
        if not rows:
            continue
        unit = numbers.metric_unit(metric)
        named = wording.of(metric, (bundle.result.get("claim") or {}).get("population"))
        axis = f"change of {named}" if scale == "log" else f"d of {named}, {unit if unit != '1' else 'fraction'}"
        caption = (
            f"Effect on {named} with its {bundle.confidence} interval at each load. "
            "Dashed: the threshold on the card. Thin line: no effect."
        )
        figures.append(Figure(charts.effect_intervals(rows, axis, scale == "log", f"effect-{index}", caption), caption))
    return figures


def effect_section(bundle: Bundle) -> Section:
    """The effect at each load, its interval against the threshold, and the test behind it."""
    effects: list[Json] = bundle.result.get("effects") or []
    scales = dict.fromkeys(effect["scale"] for effect in effects) or {"log": None}
    intro = (
        f"Claim: {claim_text(bundle)}. The unit of statistics is the block; "
        f"d is {wording.listing([_SCALES.get(s, s) for s in scales], 'or')} in a block."
    )
    if not effects:
        return section(
            "effect", "Effect against the threshold", Paragraph(intro), Paragraph("No effect could be computed.")
        )
    caution = None
    if bundle.result["verdict"] == "invalid":
        caution = Paragraph("The run is invalid. These numbers help to find the fault; they answer nothing.", "warn")
    # results of earlier analysis revisions have no plain differences
    absolute = any(effect.get("absolute") for effect in effects)
    difference = f"|#Difference ({bundle.confidence} interval)" if absolute else ""
    summary = table(
        "Effect and interval against the threshold",
        f"Load|Word|#Effect|#{bundle.confidence} interval|#Threshold|#Baseline|#Candidate{difference}"
        "|#Blocks, min to max|Metric",
        [_effect_row(bundle, effect, absolute) for effect in effects],
    )
    note = Paragraph(
        ("The difference is that of the plain values, block by block; it describes, d decides. " if absolute else "")
        + "Baseline and candidate are means over the used blocks; the effect is the mean of the blocks' paired "
        "differences, so it need not equal their ratio. t and p test d against the threshold. Smallest detectable: the "
        "distance from the threshold that this spread and number of blocks find 8 times in 10.",
        "muted",
    )
    notes = effect_notes(bundle)
    blocks: list[Block | None] = [Paragraph(intro), caution, *_figures(bundle, effects), summary]
    blocks += [Bullets(notes) if notes else None, _tests(bundle, effects)]
    return section("effect", "Effect against the threshold", *blocks, note)


def guard_section(bundle: Bundle) -> Section:
    """Each guard: the bound against its margin."""
    guards: list[Json] = bundle.result.get("guards") or []
    title = "Guards"
    if not guards:
        return section(
            "guards", title, Paragraph("The card declares no guard: nothing here says what the change may cost.")
        )
    rows: list[list[Cell | str]] = []
    for guard in guards:
        unit = numbers.metric_unit(guard["metric"])
        scale = guard.get("scale") or ("log" if guard["margin"].get("scale") == "relative" else "difference")
        change, bound = as_change(guard, "change", "mean", scale), as_change(guard, "change_bound", "bound", scale)
        beside = [d for d in (change, bound, guard.get("limit")) if d is not None]
        rows.append(
            [
                wording.requirement(guard["metric"], guard["direction"], guard["margin"], guard.get("population")),
                wording.load(guard["load"], bundle.load_unit),
                word_cell(guard["word"]),
                numbers.effect(change, scale, unit, guard.get("reason"), beside),
                numbers.effect(bound, scale, unit, guard.get("reason"), beside),
                numbers.effect(guard.get("limit"), scale, unit, None, beside or None),
                numbers.p_value(guard.get("p")),
                str(guard.get("blocks", 0)),
            ]
        )
    return section(
        "guards",
        title,
        Paragraph(
            f"A guard passes if the one-sided {bundle.confidence} bound of its change lies within the margin. "
            "All must pass."
        ),
        table("Change against margin", "Guard|Load|Word|#Change|#Bound|#Limit|#p|#Blocks", rows),
    )


def evidence_section(bundle: Bundle) -> Section:
    """Whether the treatment took effect, from the servers' own metrics."""
    items: list[Json] = bundle.result.get("evidence") or []
    title = "Evidence that the treatment took effect"
    if not items:
        return section(
            "evidence", title, Paragraph("The card asks for none: that the treatment took effect is assumed.")
        )
    rows: list[list[Cell | str]] = []
    for item in items:
        unit = numbers.metric_unit(item["metric"])
        rows.append(
            [
                item["metric"],
                item["arm"],
                word_cell(item["word"]),
                f"{item['direction'].replace('_', ' ')} {numbers.quantity(item['limit'], unit)}",
                numbers.quantity_or_reason(item.get("observed"), unit, item.get("reason")),
            ]
        )
    return section("evidence", title, table("Observed against wanted", "Metric|Arm|Word|Wanted|#Observed", rows))


def hypothesis_section(bundle: Bundle) -> Section:
    """The causal chain that the card declared before the run."""
    hypothesis: Json = bundle.card.get("hypothesis") or {}
    chain, costs = hypothesis.get("chain") or [], hypothesis.get("may_cost") or []
    blocks: list[Block | None] = []
    if chain:
        blocks += [Paragraph("The expected chain, declared before the run:"), Bullets(tuple(chain), numbered=True)]
    if costs:
        blocks += [Paragraph("What it may cost:"), Bullets(tuple(costs))]
    if not blocks:
        blocks = [Paragraph("The card declares no causal chain.")]
    return section("hypothesis", "Hypothesis", *blocks)

"""Sections on how it was done: blocks, validity checks, conditions, how to check it all, and what this run is."""

from __future__ import annotations

from . import charts, numbers, wording
from .document import Block, Bullets, Cell, Code, Figure, Paragraph, Section, section, table
from .headline import check_value, claimed_effects, observed
from .next_steps import is_unknown
from .read import Bundle, Json


def _effects_by_block(bundle: Bundle) -> dict[int, dict[int, float]]:
    """Load point -> block -> d. The analysis lists d in the order of the used blocks."""
    used = [block["block"] for block in bundle.result.get("blocks") or [] if block.get("used")]
    found: dict[int, dict[int, float]] = {}
    for effect in claimed_effects(bundle):
        values = effect.get("d") or []
        if len(values) == len(used):
            found[effect["load_point"]] = {b: d for b, d in zip(used, values, strict=True) if d is not None}
    return found


def _order(bundle: Bundle, block: Json) -> str:
    """The order of a block's cells as it was planned: "50: candidate, baseline · 20: baseline, candidate"."""
    planned = next((b for b in bundle.plan.get("blocks") or [] if b["block"] == block["block"]), None)
    cells = {cell["cell"]: cell for cell in block.get("cells") or []}
    ids = [c for c in (planned or {}).get("cells", []) if c in cells] or list(cells)
    steps: list[tuple[str, list[str]]] = []
    by_arm = len(ids) > 1 and cells[ids[0]]["arm"] == cells[ids[1]]["arm"]
    for cell in (cells[c] for c in ids):
        load = numbers.number(cell["load"], 6)
        outer, inner = (cell["arm"], load) if by_arm else (load, cell["arm"])
        if steps and steps[-1][0] == outer:
            steps[-1][1].append(inner)
        else:
            steps.append((outer, [inner]))
    return "; ".join(f"{outer}: {', '.join(inner)}" for outer, inner in steps)


def _fate(block: Json) -> Cell:
    if block.get("used"):
        return Cell("used (spare)" if block.get("spare") else "used", "good")
    if block.get("spare") and not any(cell.get("failed_checks") for cell in block.get("cells") or []):
        return Cell("spare, not used", "muted")
    return Cell("not used", "warn")


def _failed_cells(block: Json) -> str:
    failed = [
        f"{cell['cell']}: {', '.join(cell['failed_checks'])}"
        for cell in block.get("cells") or []
        if cell.get("failed_checks")
    ]
    return "; ".join(failed)


def _block_figure(bundle: Bundle) -> Figure | None:
    by_block = _effects_by_block(bundle)
    effects = [e for e in claimed_effects(bundle) if by_block.get(e["load_point"]) and e.get("mean") is not None]
    effects = [e for e in effects if e["scale"] == effects[0]["scale"]]
    if not effects:
        return None
    scale, metric = effects[0]["scale"], effects[0]["metric"]
    rows = [
        {
            "load": wording.load(effect["load"], bundle.load_unit),
            "block": block,
            "d": numbers.effect_value(d, scale),
            "mean": numbers.effect_value(effect["mean"], scale),
            "threshold": numbers.effect_value(effect["threshold"], scale),
        }
        for effect in effects
        for block, d in by_block[effect["load_point"]].items()
    ]
    named = wording.of(metric, (bundle.result.get("claim") or {}).get("population"))
    caption = f"Effect on {named} in each block. Solid: their mean. Dashed: the threshold. Thin line: no effect."
    axis = f"change of {named}" if scale == "log" else f"d of {named}"
    return Figure(charts.block_effects(rows, axis, scale == "log", "blocks", caption), caption)


#: lines of the log after which the arms are at other places
_MOVES = {
    "swapped": "the arms exchanged places",
    "aa_placed": "the candidate's server has the baseline's configuration",
    "aa_cleared": "the candidate's server has its own configuration again",
}


def log_notes(bundle: Bundle) -> Bullets | None:
    """What the attempt log says of interruptions, deaths and replacements."""
    notes = []
    for line in bundle.log:
        what = str(line["kind"]).replace("_", " ")
        if line["kind"] == "block_replaced":
            what = f"block {line.get('block')} replaced by block {line.get('by')}"
        elif line["kind"] == "block_lost":
            what = f"A/A block {line.get('block')} left out"
        elif line["kind"] in _MOVES:
            at = wording.listing([f"{arm} at {url}" for arm, url in (line.get("places") or {}).items()])
            what = f"{_MOVES[line['kind']]}: {at}"
        where = f" in {line['cell']}" if line.get("cell") else ""
        why = f" ({line['why']})" if line.get("why") else ""
        notes.append(f"{line.get('time', 'at an unknown time')}: {what}{where}{why}")
    return Bullets(tuple(notes)) if notes else None


def blocks_section(bundle: Bundle) -> Section:
    """Every block, used or not, with its order, its fate and its effect."""
    blocks: list[Json] = bundle.result.get("blocks") or []
    title = "Repeats" if bundle.kind == "baseline" else "Blocks"
    what = title[:-1].lower()
    if not blocks:
        return section("blocks", title, Paragraph(f"No {what} was run."))
    by_block = _effects_by_block(bundle)
    effects = [effect for effect in claimed_effects(bundle) if effect["load_point"] in by_block]
    columns = [f"#Effect at {wording.load(effect['load'], bundle.load_unit)}" for effect in effects]
    rows: list[list[Cell | str]] = []
    for block in blocks:
        values: list[Cell | str] = []
        for effect in effects:
            d = by_block[effect["load_point"]].get(block["block"])
            unit = numbers.metric_unit(effect["metric"])
            column = list(by_block[effect["load_point"]].values())
            values.append("" if d is None else numbers.effect(d, effect["scale"], unit, None, column))
        reason = block.get("reason") or _failed_cells(block)
        rows.append([str(block["block"]), _order(bundle, block), _fate(block), *values, reason])
    used = sum(bool(block.get("used")) for block in blocks)
    wanted = bundle.card.get("method", {}).get("blocks")
    intro = Paragraph(
        f"{wording.count(used, what)} used of {wanted} that the card asks for. A {what} counts only if every cell of "
        "it is valid; a spare replaces one that does not, by a rule that sees neither arm nor result."
    )
    log = log_notes(bundle)
    extra: list[Block | None] = [Paragraph("From the attempt log:"), log] if log else []
    caption = f"Each {what} in the order of the plan"
    headings = "|".join([f"#{title[:-1]}", f"Order ({bundle.load_unit})", "Use", *columns, "Reason"])
    return section("blocks", title, intro, _block_figure(bundle), table(caption, headings, rows), *extra)


def validity_section(bundle: Bundle) -> Section:
    """Each validity check with what was observed, its limit, and advice where it failed."""
    checks: list[Json] = bundle.result.get("validity") or []
    failed = [check for check in checks if not check.get("passed")]
    rows: list[list[Cell | str]] = []
    for check in checks:
        unit = check.get("unit") or ""
        rows.append(
            [
                check["name"],
                Cell("pass", "good") if check.get("passed") else Cell("fail", "bad"),
                observed(check),
                check_value(check.get("limit"), unit),
                wording.shortened(check.get("where") or []) or "none",
                check.get("meaning") or "",
            ]
        )
    passed = f"{len(checks) - len(failed)} of {wording.count(len(checks), 'check')} passed."
    intro = f"{passed} All were fixed before the run, blind to the arm."
    if failed and (bundle.result.get("valid") or bundle.result.get("verdict", "invalid") != "invalid"):
        intro += " The blocks of the cells that failed were replaced by spares, so the run itself is valid."
    advice = tuple(f"{check['name']}: {check['advice']}" for check in failed if check.get("advice"))
    what_to_do: list[Block | None] = [Paragraph("What to do:"), Bullets(advice)] if advice else []
    caption = "Observed in the worst cell of all that were run, against the limit"
    body = (
        table(caption, "Check|Result|#Observed (worst cell)|#Limit|Cells that failed|Meaning", rows) if rows else None
    )
    return section("validity", "Validity checks", Paragraph(intro), body, *what_to_do)


def _condition_value(bundle: Bundle, condition: Json) -> str:
    """A condition's value; that of the days says so where a second day is compared."""
    text = wording.plain(condition.get("value"))
    found = bundle.reproduction
    if condition["name"] != "days" or found is None:
        return text
    near = [item["text"] for item in found.get("because") or [] if item.get("code") == "same_day"]
    other = near[0] if near else "a second one is compared"
    return f"{text} for this verdict; {other} (below: {found.get('word', 'unknown')})"


def _power_text(bundle: Bundle) -> str:
    """What was known of the power beforehand; nothing in verdicts from before it was said."""
    power: Json | None = bundle.result.get("power")
    if power is None:
        return ""
    if not power.get("known"):
        text = f" Power unknown: {power.get('reason')}."
    else:
        whence = "as declared" if power.get("spread_source") == "declared" else "from a pilot"
        text = f" Planned with a spread of {power['spread']:.2%} ({whence})"
        chance = power.get("joint_chance")
        text += "." if chance is None else f", for a joint chance of {chance:.0%} at the effect expected."
    override = power.get("override")
    return text if override is None else f"{text} Run in spite of a plan that could fall short: {override}"


def conditions_section(bundle: Bundle) -> Section:
    """The conditions under which the result holds: all of them, the unknown ones marked."""
    conditions: list[Json] = bundle.result.get("conditions") or []
    unknown = sum(is_unknown(condition) for condition in conditions)
    what = "verdict" if bundle.kind == "ab" else "result"
    power = _power_text(bundle)
    intro = Paragraph(f"The {what} holds under these conditions only. {unknown} of {len(conditions)} unknown.{power}")
    rows: list[list[Cell | str]] = [
        [
            condition["name"],
            Cell(_condition_value(bundle, condition), "warn" if is_unknown(condition) else ""),
            Cell("unknown", "warn") if is_unknown(condition) else condition.get("source", ""),
        ]
        for condition in conditions
    ]
    body = table("Every condition", "Condition|Value|Source", rows) if rows else Paragraph("The analysis lists none.")
    return section("conditions", "Conditions", intro, body)


def check_section(bundle: Bundle) -> Section:
    """How to reproduce and audit the run: exact commands."""
    lines = ["benchcard audit RUN        # recomputes everything from the raw events"]
    if bundle.kind == "ab":
        lines.append("benchcard reproduce RUN    # the same card with a fresh seed, then the two days compared")
        lines.append("benchcard verdict RUN      # the verdict again, in the terminal")
    else:
        lines.append("benchcard run RUN/card.yaml    # the same card again, as a new run")
    lines.append("benchcard report RUN       # writes this report again")
    return section(
        "check",
        "Reproduce and audit",
        Paragraph("RUN is this folder; commands start where the card's relative paths hold:"),
        Code("\n".join(lines)),
        _calibration(bundle),
    )


def _calibration(bundle: Bundle) -> Paragraph | None:
    """Where it is said how often this analysis errs; nothing, where its result names no place (an older one)."""
    place = bundle.result.get("calibration")
    if not place:
        return None
    return Paragraph(
        f"How this analysis was calibrated: {place} of benchcard. The analysis revision of this report is "
        f"{bundle.result.get('revision')}; that file names the one it was made for."
    )


def identity_section(bundle: Bundle) -> Section:
    """What this run is: ids, digests, seed, revision, versions."""
    result, card = bundle.result, bundle.result.get("card") or {}
    libraries: Json = result.get("libraries") or {}
    facts: list[tuple[str, object]] = [
        ("run", result.get("run")),
        ("card", card.get("id")),
        ("card digest", card.get("digest")),
        ("seed", result.get("seed")),
        (
            "seed from",
            {"card": "the card", "second_day": "a second day's draw"}.get(bundle.plan.get("seed_source", "")),
        ),
        ("planned requests", bundle.plan.get("requests_digest")),
        ("analysis revision", result.get("revision")),
        (
            "format",
            f"verdict {result['verdict_version']}" if bundle.kind == "ab" else f"baseline {result['baseline_version']}",
        ),
        *((f"{name} (analysis)", version) for name, version in sorted(libraries.items())),
    ]
    # an id is shown as it is: a seed is no quantity, so no thousands separator
    rows: list[list[Cell | str]] = [[name, Cell(str(value), code=True)] for name, value in facts if value is not None]
    return section("identity", "Identity of this run", table("Ids, digests and versions", "Fact|Value", rows))

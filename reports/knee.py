"""The section on capacity: up to which of the loads run each arm is shown to reach the card's attainment."""

from __future__ import annotations

from . import charts, numbers, wording
from .document import Block, Cell, Figure, Paragraph, Section, Table, section, table
from .read import Bundle, Json


def knee_sections(bundle: Bundle) -> tuple[Section, ...]:
    """The section, or none where the analysis of that time did not look, or no request can be called good."""
    found: Json = bundle.result.get("knee") or {}
    arms = [arm for arm in bundle.arms if (found.get(arm) or {}).get("points")]
    if not arms:
        return ()
    target = float(found[arms[0]]["target"])
    share = numbers.quantity(target, "1")
    rule = (
        f"The card's target is an attainment (good / attempted) of {share}. A load passes where the one-sided "
        f"{numbers.quantity(found[arms[0]]['confidence'], '1')} lower bound of its attainment reaches the target; the "
        "knee lies between the highest load up to which all pass and the next one run. Nothing is said between the "
        "loads run, or beyond them."
    )
    note = (
        "Lower bound: Clopper–Pearson on the effective number of attempts, attempts / deff; deff: how much more the "
        "blocks vary than independent requests would, at least 1. Each arm's knee is its own: the two are not compared."
    )
    sentences: list[Block | None] = [Paragraph(knee_sentence(bundle, arm, found[arm])) for arm in arms]
    blocks: list[Block | None] = [
        Paragraph(rule),
        *sentences,
        _figure(bundle, arms, found, target),
        _table(bundle, arms, found, target),
    ]
    return (section("knee", "Capacity: the knee", *blocks, Paragraph(note, "muted")),)


def knee_sentence(bundle: Bundle, arm: str, knee: Json) -> str:
    """What is said of an arm's knee, of the loads run alone."""
    share, unit = numbers.quantity(knee["target"], "1"), bundle.load_unit
    start = f"{arm.capitalize()}: under the conditions below, of the loads run,"
    points: list[Json] = knee["points"]
    if knee["word"] in ("undefined", "not monotone"):
        what = "inconclusive, not monotone" if knee["word"] == "not monotone" else "undefined"
        return f"{arm.capitalize()}: the knee is {what} ({knee['reason']})."
    low, high = knee["interval"]
    if knee["word"] == "below the lowest load":
        text = f"{start} the lowest, {wording.load(high, unit)}, is not shown to reach {share}: the knee lies below it."
        return text + _not_missed(points, high, float(knee["target"]), unit)
    if knee["word"] == "not reached":
        last = wording.load(low, unit)
        text = f"{start} all are shown to reach {share}: the knee was not reached, and lies at {last} or above."
    else:
        text = (
            f"{start} every one up to {wording.load(low, unit)} is shown to reach {share}, and "
            f"{wording.load(high, unit)} is not: the knee lies from {numbers.number(low, 6)} to below "
            f"{wording.load(high, unit)}."
        ) + _not_missed(points, high, float(knee["target"]), unit)
    return text + _headroom(knee, unit)


def _not_missed(points: list[Json], load: float, target: float, unit: str) -> str:
    """Where a load that does not pass is not shown to miss the target either: said, with the reason."""
    (at,) = [point for point in points if point["load"] == load]
    if at["upper"] is None or at["upper"] < target:
        return ""
    return f" At {wording.load(load, unit)} it is not shown to miss it either: {at['reason']}."


def _headroom(knee: Json, unit: str) -> str:
    if knee["headroom"] is None:
        return ""
    at = f"operating point, {wording.load(knee['operating_point'], unit)}"
    if knee["headroom"] <= 0:
        return f" The {at}, is not below the highest load that passes: no headroom is shown."
    return f" At the {at}, the headroom is at least {numbers.quantity(knee['headroom'], '1')}."


def _percent(value: float | None, target: float) -> str:
    """Two decimals, or more where the value would look like the target that it is not."""
    if value is None:
        return "undefined"
    decimals = 2
    while (
        decimals < 6
        and value != target
        and numbers.fixed(100 * value, decimals) == numbers.fixed(100 * target, decimals)
    ):
        decimals += 1
    return f"{numbers.fixed(100 * value, decimals)}%"


def _table(bundle: Bundle, arms: list[str], found: Json, target: float) -> Table:
    notes = any(point["reason"] for arm in arms for point in found[arm]["points"])
    rows: list[list[Cell | str]] = []
    loads = {point["load"] for arm in arms for point in found[arm]["points"]}
    for load in sorted(loads):
        for arm in arms:
            here = [point for point in found[arm]["points"] if point["load"] == load]
            rows += [_row(bundle, arm, point, target) + ([point["reason"] or ""] if notes else []) for point in here]
    headings = "Load|Arm|#Attempts|#Good|#Attainment|#Lower bound|#deff|#Effective attempts|At the target"
    return table("Attainment at each load, over the used blocks", headings + ("|Note" if notes else ""), rows)


def _row(bundle: Bundle, arm: str, point: Json, target: float) -> list[Cell | str]:
    words = {True: Cell("passes", "good"), False: Cell("does not pass", "bad"), None: Cell("no word", "muted")}
    n_eff = point["n_eff"]
    return [
        wording.load(point["load"], bundle.load_unit),
        arm,
        f"{point['attempted']:,}",
        f"{point['good']:,}",
        _percent(point["attainment"], target),
        _percent(point["lower"], target),
        "undefined" if point["deff"] is None else numbers.fixed(point["deff"], 2),
        "undefined" if n_eff is None else numbers.fixed(n_eff, 0),
        words[point["passes"]],
    ]


def _figure(bundle: Bundle, arms: list[str], found: Json, target: float) -> Figure | None:
    rows = [
        {
            "arm": arm,
            "load": numbers.number(point["load"], 6),
            "attainment": point["attainment"],
            "lower": point["lower"],
        }
        for arm in arms
        for point in found[arm]["points"]
        if point["attainment"] is not None
    ]
    if not rows:
        return None
    axis = "concurrency" if bundle.load_unit == "concurrent" else "offered load, req/s"
    caption = (
        f"Attainment at each load run, with its one-sided lower bound. Dashed line: the target, "
        f"{numbers.quantity(target, '1')}. A load passes where its bound reaches the line; loads are evenly spaced."
    )
    return Figure(charts.attainment_bounds(rows, arms, target, axis, "knee", caption), caption)

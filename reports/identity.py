"""Sections on the identity of the systems: what is forbidden to differ and does, and what differs between the arms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from . import wording
from .document import Block, Bullets, Cell, Paragraph, Section, section, table
from .read import Bundle, Json

#: a value longer than this is cut in a table
_LONGEST = 96
#: so many differences of one kind stand in a row each; more are folded into one
_ONE_BY_ONE = 4


def forbidden_sections(bundle: Bundle) -> tuple[Section, ...]:
    """The table of forbidden differences, where there are any: what the verdict is invalid by stands at the top."""
    rows = [row for row in _rows(bundle) if row["word"] == "forbidden"]
    if not rows:
        return ()
    lines: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        values = [_value(row[key]) for key in ("expected", "baseline", "candidate")]
        lines.setdefault((row["field"], *values, _kind(row)), []).append(row["cell"] or "")
    intro = Paragraph(
        f"{wording.count(len(lines), 'difference')} that the card neither declares nor accepts. Two systems are "
        "compared only if they differ in the treatment alone: from here on the numbers say nothing about it.",
        "bad",
    )
    body = table(
        "What was expected, and what was seen of A (the baseline) and B (the candidate)",
        "Field|Expected|A: baseline|B: candidate|What it is|First seen before",
        [
            [Cell(field, code=True), expected, a, b, Cell(kind, "bad"), wording.shortened(filter(None, cells), 3)]
            for (field, expected, a, b, kind), cells in lines.items()
        ],
    )
    return (section("forbidden", "Not the systems that the card declares", intro, body),)


def _rows(bundle: Bundle) -> list[Json]:
    rows: list[Json] = (bundle.result.get("identity") or {}).get("rows") or []
    return rows


def _kind(row: Json) -> str:
    if row["class"] == "expect":
        return f"not what the card says of the {row['arm']} ({row['why'].removeprefix('the card: ')})"
    if row["class"] == "must_match":
        return "differs between the arms"
    return "differs in the baseline's second run" if row["cell"] is None else f"changed between cells of {row['arm']}"


def _value(value: str | None) -> str:
    """A value as a table shows it."""
    if value is None:
        return ""
    return value if len(value) <= _LONGEST else f"{value[: _LONGEST - 1]}…"


def difference_sections(bundle: Bundle) -> tuple[Section, ...]:
    """What differs between the arms: the treatment with what follows from it, what is confounded, what could not be
    compared. Nothing for a baseline, and for results from before it was said."""
    found: Json | None = bundle.result.get("identity")
    if found is None or bundle.kind != "ab":
        return ()
    between = [row for row in found["rows"] if row["arm"] is None and row["word"] == "allowed"]
    lines = [*_declared(between), *_following(between), *_others(between)]
    body = (
        table("Every allowed difference", "Field|A: baseline|B: candidate|Why it may differ", lines) if lines else None
    )
    blocks: list[Block | None] = [Paragraph(_compared(found)), body, *_not_arrived(found), _silent(found["rows"])]
    return (section("differences", "What differs between the arms", *blocks),)


def _compared(found: Json) -> str:
    if not found["compared"]:
        return "Nothing was observed of both arms, so nothing could be compared."
    text = f"{wording.count(found['compared'], 'value')} of each arm compared"
    if found["looks"]:
        text += f"; the servers were looked at again before {wording.count(found['looks'], 'cell')}"
    forbidden = sum(row["word"] == "forbidden" for row in found["rows"])
    ends = f"{forbidden} forbidden (the table above)" if forbidden else "what differs is declared or accepted"
    return f"{text}: {ends}." if any(row["arm"] is None for row in found["rows"]) else f"{text}: no difference seen."


def _line(row: Json, tone: str = "") -> list[Cell | str]:
    values = [_value(row[key]) for key in ("baseline", "candidate")]
    return [Cell(row["field"], code=True), *values, Cell(row["why"], tone)]


def _declared(rows: Iterable[Json]) -> list[list[Cell | str]]:
    return [_line(row) for row in rows if row["class"] == "treatment" and row["why"].startswith("declared")]


def _following(rows: Iterable[Json]) -> list[list[Cell | str]]:
    """What follows from the treatment, many of one reason in one row."""
    reasons: dict[str, list[Json]] = {}
    for row in rows:
        if row["class"] == "treatment" and not row["why"].startswith("declared"):
            reasons.setdefault(row["why"], []).append(row)
    lines: list[list[Cell | str]] = []
    for why, some in reasons.items():
        if len(some) <= _ONE_BY_ONE:
            lines += [_line(row) for row in some]
        else:
            names = wording.shortened((row["field"] for row in some), 3)
            lines.append([f"{len(some)} fields: {names}", "", "", why])
    return lines


def _others(rows: Iterable[Json]) -> list[list[Cell | str]]:
    return [_line(row, "warn" if row["class"] == "confounded" else "") for row in rows if row["class"] != "treatment"]


def _not_arrived(found: Json) -> list[Block]:
    return [
        Paragraph(
            f"{row['flag']} is declared to differ (baseline {_told(row['baseline'])}, candidate "
            f"{_told(row['candidate'])}), and both engines resolved {row['field']} to {_value(row['resolved'])}: "
            "that part of the treatment did not arrive.",
            "warn",
        )
        for row in found["not_arrived"]
    ]


def _told(value: str | None) -> str:
    return "the default" if value is None else _value(value)


def _silent(rows: Sequence[Json]) -> Bullets | None:
    """What only one side told."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row["word"] == "not comparable":
            reasons.setdefault(row["why"], []).append(row["field"])
    items = tuple(
        f"not comparable: {wording.shortened(dict.fromkeys(names))} ({why})" for why, names in reasons.items()
    )
    return Bullets(items) if items else None

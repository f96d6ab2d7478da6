"""The section on A/A blocks: the procedure against itself."""

from __future__ import annotations

from collections.abc import Sequence

from . import numbers, wording
from .document import Block, Bullets, Cell, Paragraph, Section, section, table
from .read import Bundle, Json

_TONES = {"clean": "good", "no bias shown": "warn", "biased": "bad", "not established": "warn"}
#: so many A/A blocks say little of a bias of the size of their spread
_FEW = 12


def aa_sections(bundle: Bundle) -> tuple[Section, ...]:
    """The section, or none where the card has no A/A blocks."""
    rows: list[Json] | None = bundle.result.get("aa")
    if rows is None:
        return ()
    deciding = [row for row in rows if row["decides"]]
    said = [text for row in deciding for text in (_bias(bundle, row), _floor(bundle, row)) if text]
    lost = _lost(bundle)
    blocks: list[Block | None] = [Paragraph(_intro(bundle)), Bullets(tuple(said)) if said else None]
    blocks += [_table(bundle, rows), Paragraph(lost) if lost else None, Paragraph(_note(deciding), "muted")]
    return (section("aa", "The procedure against itself (A/A)", *blocks),)


def _intro(bundle: Bundle) -> str:
    declared = bundle.card["method"]["aa"]
    within = f"±{wording.amount(declared['within'])}"
    where = "as two systems, at random places among the other blocks and by the same procedure"
    whose = "the procedure's own"
    if declared.get("across"):
        whose = "the places' or the procedure's own"
        where = "once at the server of each arm, before all other blocks and by the same procedure"
    return (
        f"The card runs the baseline against itself in {wording.count(declared['blocks'], 'A/A block')}, {where}. "
        f"Whatever differs there is {whose}: its mean is a bias, its spread the noise floor. The card allows a bias of "
        f"{within}; an interval wholly outside makes the run invalid. No A/A block enters an effect of the treatment."
    )


def _named(row: Json) -> str:
    return wording.of(row["metric"], row.get("population"))


def _where(bundle: Bundle, row: Json) -> str:
    return f"{_named(row)} at {wording.load(row['load'], bundle.load_unit)}"


def _bias(bundle: Bundle, row: Json) -> str:
    """What the interval says of a bias, and no more."""
    within = f"±{wording.amount(bundle.card['method']['aa']['within'])}"
    where = f"{_where(bundle, row)}: {row['word']}."
    if row["word"] == "not established":
        return f"{where} {row['reason'][:1].upper()}{row['reason'][1:]}."
    if row["word"] == "biased":
        return f"{where} The whole interval lies outside {within}: the run is invalid."
    low, high = row["interval"]
    zero = "" if low <= 0 <= high else " Zero lies outside the interval."
    if row["equivalent"]:
        p = "" if row["p_equivalent"] is None else f" (p {numbers.p_value(row['p_equivalent'])}, two one-sided tests)"
        return f"{where} The whole interval lies inside {within}{p}: a larger bias is ruled out.{zero}"
    return f"{where} The interval reaches into {within} and beyond: a larger bias is not ruled out.{zero}"


def _floor(bundle: Bundle, row: Json) -> str | None:
    """The noise floor in words."""
    if row["stdev"] is None:
        return None
    unit = numbers.metric_unit(row["metric"])
    spread = numbers.size(row["stdev"], row["scale"], unit) if row["stdev"] else "nothing"
    return (
        f"Noise floor of {_where(bundle, row)}: where there is nothing to see, a block shows {spread} "
        f"(standard deviation over {wording.count(row['blocks'], 'A/A block')})."
    )


def _table(bundle: Bundle, rows: Sequence[Json]) -> Block:
    notes = any(row["reason"] for row in rows)
    cells: list[list[Cell | str]] = []
    for row in rows:
        unit, scale = numbers.metric_unit(row["metric"]), row["scale"]
        word = str(row["word"]) if row["decides"] else "exploratory"
        margin = wording.amount(bundle.card["method"]["aa"]["within"]) if row["decides"] else ""
        cells.append(
            [
                wording.load(row["load"], bundle.load_unit),
                _named(row),
                Cell(word, _TONES.get(word, "muted")),
                numbers.effect(row["mean"], scale, unit, None, row["interval"]),
                numbers.interval(row["interval"], scale, unit, row["margin"]),
                "undefined" if row["stdev"] is None else numbers.size(row["stdev"], scale, unit),
                str(row["blocks"]),
                f"±{margin}" if margin else "none",
                *([row["reason"] or ""] if notes else []),
            ]
        )
    level = bundle.confidence
    headings = f"Load|Metric|Judged|#Difference|#{level} interval|#Spread of a block|#A/A blocks|#Margin"
    return table("The baseline's second run against its first", headings + ("|Reason" if notes else ""), cells)


def _lost(bundle: Bundle) -> str | None:
    """A/A blocks that could not count."""
    lost = [
        f"block {block['block']} ({block['reason']})"
        for block in bundle.result.get("aa_blocks") or []
        if not block["used"] and any(cell["failed_checks"] for cell in block["cells"])
    ]
    return f"A/A blocks that could not count: {wording.shortened(lost)}." if lost else None


def _note(deciding: Sequence[Json]) -> str:
    """What A/A blocks cannot say."""
    text = (
        "The spread of A/A differences is no measure of what the A/B blocks can detect: both runs of a block get the "
        "same requests, so it leaves out how the treatment acts on one draw of requests and not on another."
    )
    fewest = min((row["blocks"] for row in deciding), default=0)
    if fewest < _FEW:
        few = f"{wording.count(fewest, 'A/A block')} {'says' if fewest == 1 else 'say'} little"
        text = f"{few}: a bias smaller than half the interval's width would look like none. {text}"
    return text

"""The section on steady state: how TTFT moved over the measured windows, by arm and load."""

from __future__ import annotations

from collections.abc import Sequence

from . import cell_charts, numbers, wording
from .document import Block, Cell, Figure, Paragraph, Section, section, table
from .read import Bundle, Json

_TONES = {"steady": "good", "drifts": "bad", "not established": "warn"}


def steady_sections(bundle: Bundle) -> tuple[Section, ...]:
    """The section, or none where the analysis of that time did not look."""
    rows: list[Json] | None = bundle.result.get("steady_state")
    if rows is None:
        return ()
    arms = {arm: index for index, arm in enumerate(bundle.arms)}
    rows = sorted(rows, key=lambda row: (row["load_point"], arms.get(row["arm"], len(arms))))
    blocks: list[Block | None] = [Paragraph(_intro(bundle, rows)), _figure(bundle)]
    blocks += [_table(bundle, rows), Paragraph(_MSER, "muted")]
    return (section("steady", "Steady state", *blocks),)


_MSER = (
    "MSER-5 is a diagnostic and decides nothing: how many requests it would cut from a window's start, over the "
    "blocks. Where that is half the window (“boundary”), it found no end of a transient. The warm-up is the card's."
)


def _intro(bundle: Bundle, rows: Sequence[Json]) -> str:
    what = (
        "Drift: the Theil–Sen slope of TTFT over 20 batch means of a window's requests, in order of schedule, from "
        "the first batch to the last, as a share of their median; its mean over the blocks, with the "
        f"{bundle.confidence} t interval."
    )
    declared = [row for row in rows if row["declared"]]
    if not declared:
        return f"The card declares no load steady: each window is a finite one, and its drift has no word. {what}"
    at = wording.loads(list(dict.fromkeys(row["load"] for row in declared)), bundle.load_unit)
    within = numbers.quantity(declared[0]["within"], "1")
    rest = "" if len(declared) == len(rows) else " The other loads are finite windows; their drift has no word."
    return f"The card declares {at} steady: the whole interval must lie within ±{within}.{rest} {what}"


def _judged(row: Json) -> Cell:
    if not row["declared"]:
        return Cell("finite window", "muted")
    return Cell(str(row["word"]), _TONES.get(str(row["word"]), ""))


def _drift(row: Json) -> tuple[str, str]:
    """Mean and interval with one decimal, or more where a bound would look like a limit that it is not."""
    if row["mean"] is None:
        return "undefined", "undefined"
    bounds: list[float] = row["interval"] or []
    limits = [] if row["within"] is None else [row["within"], -row["within"]]
    decimals = 1
    while decimals < 6 and any(
        numbers.fixed(100 * bound, decimals) == numbers.fixed(100 * limit, decimals) and bound != limit
        for bound in bounds
        for limit in limits
    ):
        decimals += 1
    mean, *ends = (f"{numbers.fixed(100 * value, decimals, signed=True)}%" for value in (row["mean"], *bounds))
    return mean, " to ".join(ends) or "undefined"


def _mser(cells: Sequence[Json]) -> str:
    """The cuts over the blocks: "0 to 40 of 200 (boundary in 1)"."""
    cuts = [cell["mser_requests"] for cell in cells if cell["mser_requests"] is not None]
    if not cuts:
        return "undefined"
    text = f"{min(cuts)}" if min(cuts) == max(cuts) else f"{min(cuts)} to {max(cuts)}"
    ends = sum(bool(cell["mser_at_boundary"]) for cell in cells)
    return f"{text} (boundary in {ends})" if ends else text


def _table(bundle: Bundle, rows: Sequence[Json]) -> Block:
    notes = any(row["reason"] for row in rows)
    cells: list[list[Cell | str]] = []
    for row in rows:
        used: list[Json] = row["cells"]
        requests = sorted({cell["requests"] for cell in used})
        missing: dict[str, int] = {}
        for cell in used:
            for reason, count in cell["undefined"].items():
                missing[reason] = missing.get(reason, 0) + count
        cells.append(
            [
                wording.load(row["load"], bundle.load_unit),
                row["arm"],
                _judged(row),
                *_drift(row),
                str(row["blocks"]),
                " to ".join(f"{n:,}" for n in dict.fromkeys((requests[0], requests[-1]))) if requests else "none",
                _mser(used),
                wording.counted_reasons(missing) or "none",
                *([row["reason"] or ""] if notes else []),
            ]
        )
    headings = (
        f"Load|Arm|Judged|#Drift|#{bundle.confidence} interval|#Blocks|#Requests a block|#MSER-5 cut|No first token"
    )
    return table("Drift of TTFT over the measured window", headings + ("|Reason" if notes else ""), cells)


def _figure(bundle: Bundle) -> Figure | None:
    series = bundle.series.get("steady", [])
    if not series:
        return None
    factor, unit = numbers.scaled_unit(sorted(row["ttft_s"] for row in series)[len(series) // 2], "s")
    rows = [
        {
            "arm": row["arm"],
            "block": row["block"],
            "load": wording.load(row["load"], bundle.load_unit),
            "batch": row["batch"],
            "index": row["index"],
            "value": row["ttft_s"] / factor,
        }
        for row in sorted(series, key=lambda row: row["load_point"])
    ]
    caption = (
        "TTFT by request, in order of schedule: the means of the 20 parts of each window, a thin line for each block; "
        "thick: their mean over the blocks."
    )
    svg = cell_charts.latency_by_index(rows, bundle.arms, f"TTFT, {unit}", "steady", caption)
    return Figure(svg, caption)

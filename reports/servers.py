"""The section on what the servers said of themselves, and whether client and server saw the same."""

from __future__ import annotations

from collections.abc import Sequence

from . import numbers, wording
from .document import Block, Bullets, Cell, Paragraph, Section, section, table
from .read import Bundle, Json

#: heading -> the metrics of its column: a mean and, in brackets, the most
_COLUMNS: dict[str, tuple[str, ...]] = {
    "Running": ("server.running.mean", "server.running.max"),
    "Queue": ("server.queue.mean", "server.queue.max"),
    "KV cache": ("server.kv_cache_usage.mean", "server.kv_cache_usage.max"),
    "Preemptions / request": ("server.preemptions",),
    "Prefix hits": ("server.prefix_cache_hit_rate",),
    "Tokens / engine step": ("server.iteration_tokens.mean",),
    "Draft tokens accepted": ("server.spec_decode_acceptance_rate",),
    "Time in queue": ("server.queue_time.mean",),
}
_WHAT = {
    "requests": "Requests",
    "prompt_tokens": "Prompt tokens",
    "output_tokens": "Output tokens",
    "ttft": "Mean TTFT",
    "itl": "Mean ITL",
    "e2e": "Mean E2E",
    "in_system": "Requests in the system",
}
_KINDS = {"reset": "Reset", "missing": "Missing", "unread": "Not read"}


def server_sections(bundle: Bundle) -> tuple[Section, ...]:
    """The section, where the analysis read the servers' metrics."""
    found: Json | None = bundle.result.get("server")
    if found is None:
        return ()
    blocks: list[Block | None] = [
        Paragraph(
            "From the servers' metrics pages, read before, during and after each load, over the cells of the used "
            "blocks: counters by their change, gauges by their mean over time (and the most seen). A dash: there was "
            "nothing to count."
        ),
        _table(bundle, found["rows"]),
        *_warnings(found["warnings"]),
        *_crosscheck(bundle.result.get("crosscheck") or []),
    ]
    return (section("servers", "What the servers said of themselves", *blocks),)


def _table(bundle: Bundle, rows: Sequence[Json]) -> Block | None:
    places: dict[tuple[int, str, str | None], dict[str, Json]] = {}
    for row in rows:
        places.setdefault((row["load_point"], row["arm"], row["engine"]), {})[row["metric"]] = row
    if not places:
        return None
    shown = [heading for heading, names in _COLUMNS.items() if any(names[0] in place for place in places.values())]
    several = any(engine is not None for _, _, engine in places)
    arms = {arm: index for index, arm in enumerate(bundle.arms)}
    lines: list[list[Cell | str]] = []
    for (_, arm, engine), place in sorted(places.items(), key=lambda item: _order(item[0], arms)):
        load = wording.load(next(iter(place.values()))["load"], bundle.load_unit)
        which = ["all" if engine is None else engine] if several else []
        lines.append([load, arm, *which, *(_value([place.get(name) for name in _COLUMNS[h]]) for h in shown)])
    headings = ["Load", "Arm", *(["Engine"] if several else []), *(f"#{heading}" for heading in shown)]
    return table("Mean (most)", "|".join(headings), lines)


def _order(place: tuple[int, str, str | None], arms: dict[str, int]) -> tuple[int, int, str]:
    point, arm, engine = place
    return point, arms.get(arm, len(arms)), engine or ""


def _value(rows: Sequence[Json | None]) -> Cell:
    """ "2.3 (8)": the mean, and the most where there is one."""
    mean, *most = [None if row is None or row["value"] is None else _quantity(row) for row in rows]
    if mean is None:
        return Cell("–" if rows[0] is None or rows[0]["empty"] else "undefined", "muted")
    return Cell(f"{mean} ({most[0]})" if most and most[0] is not None else mean)


def _quantity(row: Json) -> str:
    return numbers.quantity(row["value"], row["unit"] if row["unit"] in ("1", "s") else "")


def _warnings(warnings: Sequence[Json]) -> list[Block]:
    if not warnings:
        return []
    resets = [warning for warning in warnings if warning["kind"] == "reset"]
    lines = tuple(
        f"{_KINDS[warning['kind']]}: {warning['text']}; {wording.shortened(warning['cells'])}" for warning in warnings
    )
    text = "What is undefined above is so for these reasons; nothing was taken for 0."
    if resets:
        text = f"A server was reset within a cell, so its numbers there are not known. {text}"
    return [Paragraph(text, "bad" if resets else ""), Bullets(lines)]


def _crosscheck(rows: Sequence[Json]) -> list[Block]:
    if not rows:
        return []
    lines: list[list[Cell | str]] = []
    notes: list[str] = []
    for what in dict.fromkeys(row["what"] for row in rows):
        of = [row for row in rows if row["what"] == what]
        known = [row for row in of if row["excess"] is not None]
        worst = max(known, key=lambda row: (row["excess"], abs(row["difference"])), default=None)
        lines.append([_WHAT.get(what, what), _word(of), *_worst(worst, of)])
        notes.append(f"{_WHAT.get(what, what)}: {of[0]['note']}.")
    intro = Paragraph(
        "Client against server, over all requests of each cell that was run. They agree where what is left of the "
        "difference, beyond what the definitions allow for, lies within the card's limit."
    )
    body = table("The cell in which they lie furthest apart", "What|Word|#Client|#Server|#Beyond|#Limit", lines)
    return [intro, body, Paragraph("What is compared:"), Bullets(tuple(notes))]


def _word(rows: Sequence[Json]) -> Cell:
    counts = {word: sum(row["word"] == word for row in rows) for word in ("agree", "differ", "unknown")}
    text = ", ".join(f"{word} in {n} of {wording.count(len(rows), 'cell')}" for word, n in counts.items() if n)
    return Cell(text, "bad" if counts["differ"] else "good" if counts["agree"] == len(rows) else "warn")


def _worst(worst: Json | None, rows: Sequence[Json]) -> list[Cell | str]:
    if worst is None:
        why = next(row["why"] for row in rows)
        return [Cell(f"unknown ({why})", "muted"), "", "", ""]
    unit = worst["unit"] if worst["unit"] == "s" else ""
    client = numbers.quantity(worst["client"], unit)
    if worst["client_most"] is not None and worst["client_most"] != worst["client"]:
        client = f"{client} to {numbers.quantity(worst['client_most'], unit)}"
    beyond, limit = (numbers.quantity(worst[key], "1") for key in ("excess", "limit"))
    return [client, numbers.quantity(worst["server"], unit), beyond, limit]

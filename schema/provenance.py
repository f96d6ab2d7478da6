"""The resolved card for people: each value with its unit, and where it came from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .card import Card
from .phrase import KeyPath, dotted
from .quantity import format_quantity
from .structure import Schema, card_schema, child, deref

#: objectives that a card leaves out are none of its objectives
_OBJECTIVES = ("ttft", "tpot", "e2e", "itl", "icl")


def render_card(card: Card) -> str:
    """The whole resolved card as text, a key a line: `path: value` and its source (card, default or extends FILE)."""
    rows = list(_rows(card, card_schema(), card.values, ()))
    width = max(len(f"{path}: {value}") for path, value, _ in rows if len(f"{path}: {value}") <= 72)
    lines: list[str] = []
    previous = ""
    for path, value, source in rows:
        top = path.partition(".")[0].partition("[")[0]
        if previous and top != previous and "." in path:
            lines.append("")
        previous = top
        lines.append(f"{f'{path}: {value}':<{width}}  {source}")
    return "\n".join(lines) + "\n"


def _rows(card: Card, schema: Schema, value: Any, path: KeyPath) -> Iterator[tuple[str, str, str]]:
    """The leaves of a value: path, text, source."""
    nested = "properties" in schema or "additionalProperties" in schema
    if isinstance(value, dict) and nested and set(value) != {"unknown"}:
        alternatives = schema.get("x-exactly-one", _OBJECTIVES if path == ("objectives",) else ())
        for key, below in value.items():
            if below is not None or key not in alternatives:
                yield from _rows(card, child(schema, key) or {}, below, (*path, key))
        if not value:
            yield dotted(path), "none", "default"
        return
    if isinstance(value, list) and any(isinstance(item, dict) for item in value) and "items" in schema:
        for index, item in enumerate(value):
            yield from _rows(card, deref(schema["items"]), item, (*path, index))
        return
    yield dotted(path), value_as_written(schema, value), _source(card, path)


def _source(card: Card, path: KeyPath) -> str:
    """Where a leaf came from: what is known of it or of the nearest thing above it."""
    for end in range(len(path), 0, -1):
        if dotted(path[:end]) in card.sources:
            return card.sources[dotted(path[:end])]
    return "default"


def value_as_written(schema: Schema, value: Any) -> str:
    """A base value as a card would write it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        items = deref(schema.get("items", {}))
        return f"[{', '.join(value_as_written(items, item) for item in value)}]"
    if "x-file" in schema and isinstance(value, dict):
        rows = f"{value['rows']:,} rows, " if "rows" in value else ""
        return f"{value['name']} ({rows}{value['sha256'][:19]}…)"
    if "x-quantity" in schema:
        return format_quantity(schema["x-quantity"], value)
    if "x-choice" in schema and isinstance(value, dict):
        return "uniform" if value["law"] == "uniform" else f"zipf {value['exponent']:g}"
    if isinstance(value, dict):
        return f"unknown: {value['unknown']}" if set(value) == {"unknown"} else json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        return format_quantity("load", int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
    return str(value)

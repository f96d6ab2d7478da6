"""Keys that came to the card format after its first edition. A card resolved before has none of them, and stays what it
was: its digest, its plan and its verdict do not know them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from .card import Card
from .phrase import KeyPath, dotted
from .structure import Schema, card_schema, deref

#: in a path, any item of a list
ANY = "[]"


def later_keys(schema: Schema | None = None, path: KeyPath = ()) -> Iterator[KeyPath]:
    """The paths of the keys that x-since marks; `ANY` stands for the items of a list."""
    for name, below in deref(card_schema() if schema is None else schema).get("properties", {}).items():
        if "x-since" in below:
            yield (*path, name)
        yield from later_keys(below, (*path, name))
        if "items" in deref(below):
            yield from later_keys(deref(below)["items"], (*path, name, ANY))


def without_later_keys(found: dict[str, Any], again: Card) -> dict[str, Any]:
    """What `again` resolves to, less the later keys that `found` lacks and the card itself does not name."""
    resolved = copy.deepcopy(again.resolved)
    for later in later_keys():
        for path in _places(resolved, later):
            there, here = _above(found, path), _above(resolved, path)
            if here is not None and (there is None or path[-1] not in there) and not _on_card(again, dotted(path)):
                here.pop(path[-1], None)
    return resolved


def _on_card(card: Card, path: str) -> bool:
    """Whether the card (or one it extends) names a key, or one below it: only leaves have a source."""
    return any(
        source != "default" and (key == path or key.startswith((f"{path}.", f"{path}[")))
        for key, source in card.sources.items()
    )


def _places(card: dict[str, Any], path: KeyPath) -> list[KeyPath]:
    """The path with an index for each `ANY`, one for each item that the card has there."""
    if ANY not in path:
        return [path]
    at = path.index(ANY)
    items = _at(card, path[:at])
    count = len(items) if isinstance(items, list) else 0
    return [place for index in range(count) for place in _places(card, (*path[:at], index, *path[at + 1 :]))]


def _at(card: dict[str, Any], path: KeyPath) -> Any:
    value: Any = card
    for part in path:
        if isinstance(part, int):
            value = value[part] if isinstance(value, list) and part < len(value) else None
        else:
            value = value.get(part) if isinstance(value, dict) else None
    return value


def _above(card: dict[str, Any], path: KeyPath) -> dict[Any, Any] | None:
    value = _at(card, path[:-1])
    return value if isinstance(value, dict) else None

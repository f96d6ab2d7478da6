"""Located nodes: the values of a card with the place each was written at, and what is done to them as wholes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .errors import Problem
from .phrase import KeyPath, dotted

#: file, line and column (from 1)
Place = tuple[str, int, int]


@dataclass(frozen=True)
class Node:
    """A value with its place. `value` is a scalar, a list of nodes, or a dict of nodes; `keys` holds the place of each
    key of a mapping; `written` is an unquoted scalar's own text (`0.30`), or empty."""

    value: object
    place: Place
    keys: dict[str, Place] = field(default_factory=dict)
    written: str = ""

    @property
    def file(self) -> str:
        """The file it was written in."""
        return self.place[0]

    @property
    def mapping(self) -> dict[str, Node]:
        """The entries of a mapping; none for anything else."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def items(self) -> list[Node]:
        """The items of a sequence; none for anything else."""
        return self.value if isinstance(self.value, list) else []

    def plain(self) -> object:
        """The value without its places: dicts, lists and scalars."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def at(self, path: KeyPath) -> Node | None:
        """The node at a path below this one, or None."""
        node: Node | None = self
        for part in path:
            if node is None:
                return None
            if isinstance(part, int):
                node = node.items[part] if part < len(node.items) else None
            else:
                node = node.mapping.get(part)
        return node


def merge(base: Node, over: Node) -> Node:
    """`over` laid on `base`: mappings merge key by key, an empty value takes a key away, all else replaces."""
    if not isinstance(base.value, dict) or not isinstance(over.value, dict):
        return over
    entries, keys = dict(base.value), dict(base.keys)
    for key, value in over.value.items():
        if value.value is None and key in base.value:
            del entries[key], keys[key]
            continue
        entries[key] = merge(base.value[key], value) if key in base.value else value
        keys[key] = over.keys[key]
    return Node(entries, over.place, keys)


def locate(root: Node, path: KeyPath, at_key: bool = False) -> Place:
    """Where a path stands: its value, or (`at_key`) its key; the nearest thing above where it is not on the card."""
    depth = len(path)
    while (node := root.at(path[:depth])) is None:
        depth -= 1
    last = path[-1] if path else None
    if at_key and depth == len(path) and isinstance(last, str):
        above = root.at(path[:-1])
        if above is not None:
            return above.keys[last]
    return node.place


def empty_values(node: Node, path: KeyPath = ()) -> Iterator[Problem]:
    """Keys and items with nothing in them: not a default, but something that was forgotten."""
    if node.value is None:
        wanted = "a value, or the key left out for its default"
        yield Problem(*node.place, dotted(path), "nothing", wanted)
    for key, value in node.mapping.items():
        yield from empty_values(value, (*path, key))
    for index, item in enumerate(node.items):
        yield from empty_values(item, (*path, index))


def height(node: Node) -> int:
    """How many levels stand below a node."""
    below = list(node.mapping.values()) or node.items
    return 1 + max(map(height, below)) if below else 0

"""Fills a card in: every key that has a meaning for its kind and engine, parsed, defaults where the card is silent.

The result has the card's own nesting, values in base units, and for each leaf where it came from.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from .errors import Problem
from .node import Node, locate
from .phrase import KeyPath, dotted
from .quantity import parse
from .structure import Schema, card_schema, child, deref, normalise
from .trace import HASH_BLOCK
from .values import base_url, law_of_choice, page_url

#: the place of a default
_NOWHERE = ("", 0, 0)


@dataclass
class Filled:
    """A card filled in. `values` is nested like the card; `sources` maps key paths to card, default or extends FILE.
    What is absent without a default, or wrong (`bad`), is None."""

    root: Node
    main_file: str
    bad: Collection[str]
    kind: str
    engine: str
    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    def get(self, *path: str | int) -> Any:
        """The value at a path, or None if there is none, or none that is right."""
        value: Any = self.values
        for part in path:
            if isinstance(part, str):
                value = value.get(part) if isinstance(value, dict) else None
            else:
                value = value[part] if isinstance(value, list) and part < len(value) else None
        return value

    @property
    def cold_start(self) -> bool:
        """Whether starts and first requests are what the card measures."""
        return bool(self.get("workload", "test") == "cold_start")

    def on_card(self, *path: str | int) -> bool:
        """Whether the card itself (or one it extends) names this path."""
        return self.root.at(path) is not None

    def problem(self, path: KeyPath, found: str, wanted: str, hint: str = "", at_key: bool = False) -> Problem:
        """A problem at a path of the card."""
        return Problem(*locate(self.root, path, at_key), dotted(path), found, wanted, hint)

    def has_meaning(self, schema: Schema) -> bool:
        """Whether a key has a meaning on a card of this kind and engine."""
        return self.kind in schema.get("x-kinds", [self.kind]) and self.engine in schema.get("x-engines", [self.engine])

    def default(self, path: KeyPath, value: Any) -> None:
        """Set what depends on other keys, if the card is silent about it."""
        above = self.get(*path[:-1])
        if isinstance(above, dict) and above.get(path[-1]) is None and not self.on_card(*path):
            above[path[-1]] = value
            self.sources[dotted(path)] = "default"

    def forget(self, path: KeyPath) -> None:
        """Drop a default that has no meaning on this card."""
        above = self.get(*path[:-1])
        if isinstance(above, dict) and not self.on_card(*path):
            above.pop(str(path[-1]), None)
            self.sources.pop(dotted(path), None)


def fill(root: Node, main_file: str, bad: Collection[str]) -> Filled:
    """The card's values with every default. `bad` are the key paths at which problems were found."""
    kind, engine = (_word(root, *path) for path in (("kind",), ("system", "engine", "kind")))
    filled = Filled(root, main_file, bad, kind, engine)
    filled.values = _mapping(filled, card_schema(), root, ())
    _computed(filled)
    return filled


def _word(root: Node, *path: str) -> str:
    node = root.at(path)
    return node.value if node is not None and isinstance(node.value, str) else ""


def _mapping(filled: Filled, schema: Schema, node: Node | None, path: KeyPath) -> dict[str, Any]:
    there = node.mapping if node is not None else {}
    keys = list(schema.get("properties", {})) + [key for key in there if key not in schema.get("properties", {})]
    values: dict[str, Any] = {}
    for key in keys:
        below = child(schema, key)
        if below is None or key == "extends" or not (filled.has_meaning(below) or key in there):
            continue
        if "x-not-yet" not in below:
            values[key] = _value(filled, below, there.get(key), (*path, key))
    return values


def _value(filled: Filled, schema: Schema, node: Node | None, path: KeyPath) -> Any:
    """The parsed value of a key, its default, or None."""
    keyed = node is not None and isinstance(node.value, dict) and "properties" in schema
    if dotted(path) in filled.bad and not keyed:
        return None
    if node is None:
        if "default" not in schema:
            return None
        if schema.get("type") == "object" and not schema["default"]:
            return _mapping(filled, schema, None, path)
        filled.sources[dotted(path)] = "default"
        node = normalise(_node(schema["default"]), schema, [])
    elif not (isinstance(node.value, dict) and "additionalProperties" in schema):
        filled.sources[dotted(path)] = "card" if node.file == filled.main_file else f"extends {node.file}"
    if isinstance(node.value, dict):
        free = "properties" not in schema and "additionalProperties" not in schema
        return node.plain() if free else _mapping(filled, schema, node, path)
    if isinstance(node.value, list):
        items = deref(schema.get("items", {}))
        return [_value(filled, items, item, (*path, i)) for i, item in enumerate(node.items)]
    return _scalar(schema, node.value)


def _node(value: Any) -> Node:
    """A default as a node without a place."""
    if isinstance(value, list):
        return Node([_node(item) for item in value], _NOWHERE)
    return Node(value, _NOWHERE)


def loads_of_a_trace(filled: Filled) -> None:
    """The load points of a trace that is slowed down: its mean rate divided by each factor, in requests per second."""
    factors, file = filled.get("workload", "slowdown"), filled.get("workload", "arrivals", "file")
    trace = filled.get("workload", "arrivals", "process") == "trace"
    if trace and factors and isinstance(file, dict) and None not in factors:
        filled.default(("workload", "loads"), [file["rate"] / factor for factor in factors])


def _scalar(schema: Schema, value: Any) -> Any:
    """A scalar in its base form; None if it has none (the schema has said so already)."""
    try:
        if "x-quantity" in schema:
            return parse(schema["x-quantity"], value)
        if "x-choice" in schema:
            return law_of_choice(value)
        if "x-url" in schema:
            return (base_url if schema["x-url"] == "base" else page_url)(value)
    except (ValueError, TypeError, AttributeError):
        return None
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if "integer" in types:
        return int(value)
    return float(value) if types == ["number"] else value


def _computed(filled: Filled) -> None:
    """Defaults that depend on other keys; the schema says each in words (x-default)."""
    filled.default(("title",), filled.get("decision", "question"))
    path = filled.get("system", "model", "path")
    named = "atlas-70b" if filled.engine == "simulated" else path.rstrip("/").rpartition("/")[2] if path else None
    filled.default(("system", "model", "name"), named)
    arrivals = filled.get("workload", "arrivals") or {}
    for key in [key for key in arrivals if key != "process"]:
        if key != "think_time" or arrivals.get("process") != "closed":
            filled.forget(("workload", "arrivals", key))
    if arrivals.get("format") == "mooncake":
        filled.default(("workload", "arrivals", "hash_block"), HASH_BLOCK)
    restart = filled.get("system", "launch", "restart")
    if filled.engine != "openai" and restart is not None:
        filled.default(("system", "launch", "idle"), None if restart == "never" else "stopped")
    filled.default(("workload", "window", "drain"), filled.get("workload", "client", "timeout_total"))
    restarted = filled.engine != "openai" and restart != "never"
    filled.default(("workload", "cache_state"), "cold" if restarted else "fresh_prompts")
    for name in filled.get("workload", "populations") or {}:
        # What a population does not name is as in the workload: it has no defaults of its own.
        for part in (("sampling",), ("objectives", "output"), ("objectives",)):
            for key in list(filled.get("workload", "populations", name, *part) or {}):
                filled.forget(("workload", "populations", name, *part, key))
    window = filled.get("workload", "window")
    if filled.cold_start and isinstance(window, dict) and not filled.on_card("workload", "window", "warmup"):
        # what a warm-up would take away is what this card measures
        window["warmup"] = parse("span", "0 s")
    for index, _ in enumerate(filled.get("guards") or []):
        filled.default(("guards", index, "at"), filled.get("claim", "at"))
    claim = filled.get("claim") or {}
    filled.default(("method", "aa", "at"), claim.get("at"))
    bounds = [claim[key] for key in ("must_rise_by", "must_fall_by") if isinstance(claim.get(key), dict)]
    if bounds:
        filled.default(("method", "aa", "within"), {"value": 0.01, "scale": bounds[0]["scale"]})

"""`benchcard explain`: what a key of the card means and which failure mode it guards, from the schema."""

from __future__ import annotations

import re
import textwrap
from typing import Any

from .errors import InputError
from .phrase import did_you_mean, show
from .quantity import KINDS, format_quantity
from .structure import ANY_NAME, Schema, card_schema, deref, keys_below, named_below

_WIDTH = 100


def explain(key_path: str | None = None) -> str:
    """What a key means, or, without one, every key on a line. Indexes in the path do not matter (`guards[0].at`).

    Raises InputError with a did-you-mean for an unknown key."""
    if key_path is None:
        return _overview()
    known = {path.replace("[]", ""): (path, schema) for path, schema in keys_below(card_schema())}
    wanted = _nameless(re.sub(r"\[\d*\]", "", key_path.strip()), known)
    if wanted not in known:
        above = _free_key(wanted, known)
        if above is None:
            hint = did_you_mean(wanted, known) or _by_last_name(wanted, known)
            found = f"found the unknown key {show(key_path)}; wanted a key of the card"
            raise InputError(found + (f" ({hint})" if hint else ""))
        wanted = above
    path, schema = known[wanted]
    return _page(path, schema)


def _nameless(wanted: str, known: dict[str, tuple[str, Schema]]) -> str:
    """The path with NAME for the names that are the user's own: workload.populations.NAME.share for …chat.share."""
    path = ""
    for part in wanted.split("."):
        here = f"{path}.{part}" if path else part
        path = f"{path}.{ANY_NAME}" if here not in known and f"{path}.{ANY_NAME}" in known else here
    return path


def _free_key(wanted: str, known: dict[str, tuple[str, Schema]]) -> str | None:
    """The key above whose names are the engine's or the user's own, such as system.flags."""
    while "." in wanted:
        wanted = wanted.rpartition(".")[0]
        if wanted in known:
            schema = known[wanted][1]
            free = schema.get("additionalProperties", False) is not False and named_below(schema) is None
            return wanted if free else None
    return None


def _by_last_name(wanted: str, known: dict[str, tuple[str, Schema]]) -> str:
    """A key with that last name somewhere else on the card: `drain` for workload.window.drain."""
    last = wanted.rpartition(".")[2].replace("-", "_")
    same = [path for path in known if path.rpartition(".")[2] == last]
    return f"did you mean {' or '.join(same)}?" if same else ""


def _overview() -> str:
    rows = [(path, schema["description"]) for path, schema in keys_below(card_schema())]
    width = max(len(path) for path, _ in rows if len(path) <= 44)
    return "\n".join(f"{path:<{width}}  {about.partition('. ')[0].rstrip('.')}." for path, about in rows) + "\n"


def _page(path: str, schema: Schema) -> str:
    lines = [path, "", *_wrapped(schema["description"]), "", *_wrapped("Guards against: " + schema["x-guards"])]
    facts = [(name, text) for name, text in _facts(schema) if text]
    lines += [""] if facts else []
    for name, text in facts:
        lines += textwrap.wrap(f"{name + ':':<10}{text}", _WIDTH, subsequent_indent=" " * 10)
    inner = keys_below(deref(schema["items"]) if "items" in schema else schema)
    below = [(key, about["description"]) for key, about in inner if "." not in key]
    lines += ["", "keys below it:"] if below else []
    for key, about in below:
        lines += textwrap.wrap(f"  {key:<20} {about}", _WIDTH, subsequent_indent=" " * 23)
    return "\n".join(lines) + "\n"


def _facts(schema: Schema) -> list[tuple[str, str]]:
    """What can be said of a key in a few words each; empty texts included."""
    facts = [("value", value_text(schema)), ("default", default_text(schema))]
    for what in ("kinds", "engines"):
        if f"x-{what}" in schema:
            facts.append(("only for", f"{what[:-1]} {' or '.join(schema[f'x-{what}'])}"))
    if "x-required-by" in schema:
        facts.append(("required", f"on a card of kind {' or '.join(schema['x-required-by'])}"))
    items = deref(schema.get("items", {}))
    reasons = [part["x-not-yet"] for part in (schema, items) if "x-not-yet" in part]
    reasons += [case["why"] for part in (schema, items) for case in part.get("x-not-yet-when", [])]
    return facts + [("status", f"not yet supported: {why}") for why in reasons]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH)


def value_text(schema: Schema) -> str:
    """What values a key takes, in words; '' where the description says it all."""
    if "x-not-yet" in schema:
        return ""
    if "x-quantity" in schema:
        kind = schema["x-quantity"]
        return KINDS[kind].noun + "".join(_bound(schema, name, words) for name, words in _BOUNDS.items())
    options = schema.get("enum") or schema.get("x-words") or ([schema["const"]] if "const" in schema else [])
    words = " | ".join(str(option).lower() if isinstance(option, bool) else str(option) for option in options)
    if schema.get("type") == "array" or "array" in schema.get("type", []):
        items = value_text(deref(schema["items"]))
        return f"a list: {items}" + (f" | {words}" if words else "") if items else "a list"
    if words:
        numbers = " | a whole number" if "integer" in schema.get("type", []) and "x-words" in schema else ""
        return words + (numbers if schema.get("minimum") else "")
    types = schema.get("type", [])
    names = {"integer": "a whole number", "number": "a number", "string": "text", "boolean": "true | false"}
    named = [names[t] for t in ([types] if isinstance(types, str) else types) if t in names]
    bounds = (("minimum", "at least"), ("maximum", "at most"))
    limits = "".join(f", {word} {schema[key]}" for key, word in bounds if key in schema)
    return " | ".join(named) + limits + (" | unknown: why" if schema.get("x-fact") else "")


_BOUNDS = {"x-at-least": "at least", "x-above": "more than", "x-at-most": "at most", "x-below": "less than"}


def _bound(schema: Schema, keyword: str, words: str) -> str:
    if keyword not in schema:
        return ""
    bound: Any = schema[keyword]
    kind = schema["x-quantity"]
    if kind == "change":
        bound = {"value": bound, "scale": "relative"}
    return f", {words} {format_quantity(kind, bound)}" if kind not in ("span", "limit") else f", {words} {bound}"


def default_text(schema: Schema) -> str:
    """The default of a key as a card would write it, or how it is computed; '' where there is none."""
    if "x-default" in schema:
        return str(schema["x-default"])
    default = schema.get("default", {})
    if default == {}:
        return ""
    if isinstance(default, list):
        return f"[{', '.join(map(str, default))}]"
    if default == "":
        return "empty"
    return str(default).lower() if isinstance(default, bool) else str(default)

"""The card's schema, and what it says about a card: each violation as a located problem.

`normalise` writes shorthands out and spells flags one way; `violations` runs the JSON Schema with our keywords (listed
in its $comment).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from typing import Any

from .errors import Problem
from .node import Node, Place, locate
from .phrase import KeyPath, did_you_mean, dotted, holds_secret, show, words

Schema = dict[str, Any]

#: stands in a path for a name of the user's own
ANY_NAME = "NAME"


@cache
def card_schema() -> Schema:
    """The JSON Schema of the card, as shipped."""
    text = resources.files(__package__).joinpath("card.schema.json").read_text(encoding="utf-8")
    loaded: Schema = json.loads(text)
    return loaded


def deref(schema: Schema) -> Schema:
    """A schema with its `$ref` (to this file's $defs) laid under its own keywords."""
    if "$ref" not in schema:
        return schema
    name = schema["$ref"].removeprefix("#/$defs/")
    shared: Schema = card_schema()["$defs"][name]
    return shared | {key: value for key, value in schema.items() if key != "$ref"}


def child(schema: Schema, key: str) -> Schema | None:
    """The schema of a key below a mapping's schema; None where the key is unknown. Free keys have the free schema."""
    named = schema.get("properties", {}).get(key)
    if named is not None:
        return deref(named)
    free = schema.get("additionalProperties", False)
    return {} if free is True else deref(free) if isinstance(free, dict) else None


def keys_below(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Every key of the card below a schema, with its path; items of a list have `[]` in theirs, and where names are the
    user's own, NAME stands for each."""
    for name in schema.get("properties", {}):
        below = child(schema, name) or {}
        here = f"{path}.{name}" if path else name
        yield here, below
        yield from keys_below(below, here)
        if "items" in below:
            yield from keys_below(deref(below["items"]), f"{here}[]")
    named = named_below(schema)
    if named is not None:
        here = f"{path}.{ANY_NAME}" if path else ANY_NAME
        yield here, named
        yield from keys_below(named, here)


def named_below(schema: Schema) -> Schema | None:
    """The schema of mappings whose names are the user's own (populations); None where there are none."""
    free = schema.get("additionalProperties", False)
    below = deref(free) if isinstance(free, dict) else {}
    return below if "properties" in below else None


def normalise(node: Node, schema: Schema, problems: list[Problem], path: KeyPath = ()) -> Node:
    """The same node with shorthands written out, flags spelt with dashes, and unknown facts as {unknown: why}."""
    if isinstance(node.value, list):
        items = deref(schema.get("items", {}))
        return _with(node, [normalise(item, items, problems, (*path, i)) for i, item in enumerate(node.items)])
    if isinstance(node.value, dict):
        if schema.get("x-flags"):
            return _dashed(node, problems, path)
        return _with(
            node,
            {
                key: normalise(value, child(schema, key) or {}, problems, (*path, key))
                for key, value in node.mapping.items()
            },
        )
    if node.value is None:
        return node
    if schema.get("x-fact") and isinstance(node.value, str) and node.value.startswith("unknown"):
        _, colon, why = node.value.partition(":")
        if colon or not why:
            return _wrapped(node, "unknown", why.strip())
    return _wrapped(node, schema["x-shorthand"], node.value) if "x-shorthand" in schema else node


def _with(node: Node, value: object) -> Node:
    return Node(value, node.place, node.keys)


def _wrapped(node: Node, key: str, value: object) -> Node:
    return Node({key: Node(value, node.place)}, node.place, {key: node.place})


def _dashed(node: Node, problems: list[Problem], path: KeyPath) -> Node:
    """Flags under their one spelling: `max_num_seqs` and `max-num-seqs` are the same flag."""
    entries: dict[str, Node] = {}
    keys: dict[str, Place] = {}
    for key, value in node.mapping.items():
        name = key.replace("_", "-")
        if name in entries:
            problems.append(
                Problem(*node.keys[key], dotted((*path, key)), f"the flag {name} a second time", "each flag once")
            )
            continue
        entries[name], keys[name] = value, node.keys[key]
    return Node(entries, node.place, keys)


def violations(root: Node) -> list[Problem]:
    """Everything the schema has against a card. Below a key that is not yet supported nothing else is said."""
    from .keywords import card_validator  # jsonschema takes a tenth of a second to import

    problems: list[Problem] = []
    refused: list[KeyPath] = []
    found: list[tuple[KeyPath, Problem]] = []
    for error in card_validator(card_schema()).iter_errors(root.plain()):
        path: KeyPath = tuple(error.absolute_path)
        finding = _finding(error, path, root)
        if error.validator in ("x-not-yet", "x-not-yet-when"):
            refused.append(path)
            problems.append(finding)
        else:
            found.append((path, finding))
    silenced = [*refused, *(path[:-1] for path in refused if path[-1] == "process")]
    problems += [problem for path, problem in found if not any(path[: len(above)] == above for above in silenced)]
    return list(dict.fromkeys(problems))


def _finding(error: Any, path: KeyPath, root: Node) -> Problem:
    """A jsonschema error as a problem: found, wanted, hint, and the place of the value or of the key."""
    keyword, wanted, value = error.validator, error.validator_value, error.instance
    if keyword == "required":
        missing = error.message.split("'")[1]
        about = deref(error.schema.get("properties", {}).get(missing, {})).get("description", "")
        return Problem(*locate(root, path), dotted((*path, missing)), "nothing", f"the key {missing}", about)
    if error.cause is not None:  # one of our keywords, or a key that is unknown
        at_key = keyword in ("additionalProperties", "x-not-yet")
        said = error.cause
        if keyword == "additionalProperties" and holds_secret(path[:-1]):  # a key in the wrong place may be the secret
            found = "an unknown key, which is not shown"
            return Problem(*locate(root, path, at_key), dotted(path[:-1]), found, said.wanted, said.hint)
        return Problem(*locate(root, path, at_key), dotted(path), said.found, said.wanted, said.hint)
    what, hint = _standard(keyword, wanted, value, error.schema)
    node = root.at(path)
    shown = show(node.written if node is not None and node.written else value, path)
    if keyword in ("minProperties", "maxProperties"):
        shown = f"a mapping of {len(value)}"
    if keyword == "type" and isinstance(value, str) and not holds_secret(path):
        shown = f"the text {shown}"
    return Problem(*locate(root, path), dotted(path), shown, what, hint)


_TYPES = {"integer": "a whole number", "number": "a number", "string": "text", "boolean": "true or false"}
_TYPES |= {"array": "a list", "object": "a mapping"}


def _standard(keyword: str, wanted: Any, value: Any, schema: Schema) -> tuple[str, str]:
    """What a keyword of JSON Schema wants, in words, and a hint."""
    if keyword == "type":
        types: Iterable[str] = [wanted] if isinstance(wanted, str) else wanted
        if "x-words" in schema:
            from .keywords import word_options

            return words(word_options(schema)), ""
        quote = "string" in types and isinstance(value, bool | int | float)
        return " or ".join(_TYPES[t] for t in types), "put it in quotes" if quote else ""
    if keyword == "pattern":
        return schema["x-says"], ""
    if keyword in ("enum", "const"):
        options = wanted if keyword == "enum" else [wanted]
        texts = [option for option in options if isinstance(option, str)]
        return words(options), did_you_mean(value, texts)
    bounds = {
        "minimum": f"at least {wanted}",
        "exclusiveMinimum": f"more than {wanted}",
        "maximum": f"at most {wanted}",
        "minItems": f"at least {wanted} of them",
        "maxItems": f"at most {wanted} of them",
        "minProperties": f"at least {wanted} of them",
        "maxProperties": f"at most {wanted} of them",
        "minLength": "some text" if wanted == 1 else f"at least {wanted} characters",
        "maxLength": f"at most {wanted} characters",
        "uniqueItems": "each one once",
    }
    return bounds.get(keyword, f"a value that satisfies {keyword} {wanted}"), schema.get("x-because", "")

"""Every key of the card format says what it means and which failure mode it guards, and no keyword is misspelt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

SCHEMA: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "schema" / "card.schema.json").read_text(encoding="utf-8")
)
STANDARD = {
    *("$schema", "$id", "$comment", "$defs", "$ref", "title", "description", "default", "not"),
    *("type", "enum", "const", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum"),
    *("minItems", "maxItems", "minProperties", "maxProperties", "uniqueItems", "items"),
    *("properties", "required", "additionalProperties", "propertyNames"),
}


def keys(schema: Any, where: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every entry of every `properties` in the schema, found without benchcard's own walk; what a $ref names counts as
    written there."""
    if isinstance(schema, dict):
        for name, below in schema.get("properties", {}).items():
            shared = below.get("$ref", "").rpartition("/")[2]
            yield f"{where}.{name}", {**(SCHEMA["$defs"][shared] if shared else {}), **below}
        for part, below in schema.items():
            yield from keys(below, f"{where}/{part}")
    elif isinstance(schema, list):
        for part in schema:
            yield from keys(part, where)


KEYS = list(keys(SCHEMA))


def test_there_are_keys() -> None:
    assert len(KEYS) > 100


@pytest.mark.parametrize(("where", "schema"), KEYS, ids=[where for where, _ in KEYS])
def test_every_key_has_a_description_and_a_guard(where: str, schema: dict[str, Any]) -> None:
    for what in ("description", "x-guards"):
        text = schema.get(what, "")
        assert len(text) >= 10, f"{where} has no {what}"
        assert text.endswith("."), f"{where}: {what} is a sentence"
    assert schema["description"] != schema["x-guards"]


def test_no_two_keys_guard_with_the_same_words_unless_they_are_alike() -> None:
    """A guard that fits anything guards nothing. (A key that stands in several places, by $ref, is one key.)"""
    seen: dict[str, str] = {}
    for where, schema in KEYS:
        other = seen.setdefault(schema["x-guards"], where)
        if other != where and schema.get("$ref", "").rpartition("/")[2] != where.rpartition(".")[2]:
            assert other.rpartition(".")[2] in ("loads", "at_most", "every"), (other, where)


def keywords(schema: Any, inside_properties: bool = False) -> Iterator[str]:
    if isinstance(schema, list):
        for part in schema:
            yield from keywords(part)
    if not isinstance(schema, dict):
        return
    for name, below in schema.items():
        if not inside_properties:
            yield name
        if name not in ("default", "enum", "const", "required") or inside_properties:
            yield from keywords(below, name in ("properties", "$defs") and not inside_properties)


def test_every_keyword_is_known() -> None:
    """Of ours, those that the $comment lists; jsonschema would pass over a misspelt one."""
    ours = set(SCHEMA["$comment"].replace("(", " ").replace(")", " ").replace(",", " ").replace("/", " ").split())
    unknown = {
        word for word in keywords(SCHEMA) if word not in STANDARD | {"when", "why", "x-guards"} and word not in ours
    }
    assert not unknown


def test_it_is_a_json_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)

"""Our keywords of the card's JSON Schema, on top of jsonschema's Draft 2020-12 validator.

Each yields an error whose `cause` says what was found, what is wanted, and a hint.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match
from jsonschema.validators import extend

from .metrics import SERVER_METRICS, metric, metric_names
from .phrase import did_you_mean, show, words
from .quantity import QuantityError, format_quantity, parse
from .values import base_url, law_of_choice, page_url

Errors = Iterator[ValidationError]


def _error(found: str, wanted: str, hint: str = "", path: tuple[str, ...] = ()) -> ValidationError:
    cause = QuantityError(found, wanted, hint)
    return ValidationError(str(cause), path=path, cause=cause)


def _quantity(_validator: Any, kind: str, instance: Any, schema: dict[str, Any]) -> Errors:
    if isinstance(instance, dict) and "properties" in schema:
        return
    try:
        value = parse(kind, instance)
    except QuantityError as error:
        yield ValidationError(str(error), cause=error)
        return
    parts = {k: v for k, v in value.items() if k != "scale"} if isinstance(value, dict) else {"value": value}
    [(part, number)] = parts.items()
    checks = (
        ("x-at-least", number >= schema.get("x-at-least", number), "at least"),
        ("x-at-most", number <= schema.get("x-at-most", number), "at most"),
        ("x-above", "x-above" not in schema or number > schema["x-above"], "more than"),
        ("x-below", "x-below" not in schema or number < schema["x-below"], "less than"),
    )
    for keyword, holds, how in checks:
        if not holds:
            bound = _like(kind, value, part, schema[keyword])
            exactly = "x-at-least" in schema and schema["x-at-least"] == schema.get("x-at-most")
            yield _error(show(instance), bound if exactly else f"{how} {bound}", schema.get("x-because", ""))


def _like(kind: str, value: Any, part: str, bound: float) -> str:
    """A bound written in the same unit as the value that breaks it."""
    like = value | {part: bound} if isinstance(value, dict) else bound
    return format_quantity(kind, like)


def _not_yet(_validator: Any, why: str, instance: Any, _schema: Any) -> Errors:
    yield _error(show(instance), "nothing here", f"not yet supported: {why}")


def _not_yet_when(validator: Any, cases: list[dict[str, Any]], instance: Any, schema: dict[str, Any]) -> Errors:
    for case in cases:
        if validator.evolve(schema=case["when"]).is_valid(instance):
            options = schema.get("enum") or schema.get("x-words") or []
            wanted = words(options) if options else "another value"
            if "array" in schema.get("type", ""):
                wanted = f"a list of loads, or {wanted}"
            yield _error(show(instance), wanted, f"not yet supported: {case['why']}")


def _words(_validator: Any, options: list[str], instance: Any, schema: dict[str, Any]) -> Errors:
    if not isinstance(instance, str) or instance in options:
        return
    yield _error(show(instance), words(word_options(schema)), did_you_mean(instance, options))


def word_options(schema: dict[str, Any]) -> list[str]:
    """What a key takes that may be one of some words: other types first, then the words, then a mapping."""
    types = schema.get("type", [])
    numbers = {"array": "a list of loads", "integer": "a number", "number": "a number"}
    also = [phrase for type_, phrase in numbers.items() if type_ in types]
    mappings = schema.get("properties", {}).items() if "object" in types else ()
    return [*also, *schema["x-words"], *(f"{{{key}: {' | '.join(below['enum'])}}}" for key, below in mappings)]


def _fact(_validator: Any, _on: bool, instance: Any, _schema: Any) -> Errors:
    if isinstance(instance, dict) and (set(instance) != {"unknown"} or not _is_reason(instance["unknown"])):
        found = "unknown without a reason" if set(instance) == {"unknown"} else show(instance)
        yield _error(found, "the fact, or 'unknown: why' with a reason")


def _is_reason(why: object) -> bool:
    return isinstance(why, str) and why.strip() != ""


def _metric(_validator: Any, whose: str, instance: Any, _schema: Any) -> Errors:
    if not isinstance(instance, str):
        return
    names = list(SERVER_METRICS) if whose == "server" else metric_names()
    if instance in names:
        return
    if whose == "client" and instance in SERVER_METRICS:
        yield _error(instance, "a metric that the client measures", "the server's own metrics can be evidence")
    elif whose == "server" and metric(instance) is not None:
        yield _error(instance, words(names), "evidence comes from the server's own metrics")
    else:
        wanted = words(names) if whose == "server" else "a metric such as goodput, error_rate, ttft.p95 or tpot.p50"
        yield _error(show(instance), wanted, did_you_mean(instance, names))


def _choice(_validator: Any, _on: bool, instance: Any, _schema: Any) -> Errors:
    if isinstance(instance, str):
        try:
            law_of_choice(instance)
        except QuantityError as error:
            yield ValidationError(str(error), cause=error)


def _url(_validator: Any, what: str, instance: Any, _schema: Any) -> Errors:
    if isinstance(instance, str):
        try:
            (base_url if what == "base" else page_url)(instance)
        except QuantityError as error:
            yield ValidationError(str(error), cause=error)


def _secret(_validator: Any, _on: bool, instance: Any, _schema: Any) -> Errors:
    if not isinstance(instance, dict):
        yield _error("a literal, which is not shown", "{env: NAME} or {file: PATH}", "a secret reaches no card")


def _exactly_one(_validator: Any, keys: list[str], instance: Any, schema: dict[str, Any]) -> Errors:
    if not isinstance(instance, dict):
        return
    there = [key for key in keys if key in instance]
    if len(there) > 1:
        yield _error(" and ".join(there), "one of them", "", (there[-1],))
    elif not there:
        yield _error(f"neither {' nor '.join(keys)}", "one of them")


def _additional(validator: Any, allowed: Any, instance: Any, schema: dict[str, Any]) -> Errors:
    """Unknown keys, one error each with a did-you-mean; free keys are checked against their schema."""
    if not isinstance(instance, dict):
        return
    known = schema.get("properties", {})
    for key in instance:
        if key in known:
            continue
        if isinstance(allowed, dict):
            yield from validator.descend(instance[key], allowed, path=key)
        elif allowed is False:
            hint = did_you_mean(key, known) or f"known here: {', '.join(known)}"
            yield _error(f"the unknown key {show(key)}", "a key of the card format", hint, (key,))


def _property_names(validator: Any, names: dict[str, Any], instance: Any, _schema: Any) -> Errors:
    for key in instance if isinstance(instance, dict) else ():
        if not validator.evolve(schema=names).is_valid(key):
            yield _error(f"the name {show(key)}", names["x-says"], "", (key,))


def _type(validator: Any, types: Any, instance: Any, schema: dict[str, Any]) -> Errors:
    """JSON Schema's own `type`, silent where a keyword of ours says it better."""
    if "x-quantity" in schema or "x-secret" in schema:
        return
    if not any(validator.is_type(instance, t) for t in ([types] if isinstance(types, str) else types)):
        yield ValidationError(f"not of type {types}")


_KEYWORDS = {
    "x-quantity": _quantity,
    "x-not-yet": _not_yet,
    "x-not-yet-when": _not_yet_when,
    "x-words": _words,
    "x-fact": _fact,
    "x-metric": _metric,
    "x-choice": _choice,
    "x-url": _url,
    "x-secret": _secret,
    "x-exactly-one": _exactly_one,
    "additionalProperties": _additional,
    "propertyNames": _property_names,
    "type": _type,
}


@cache
def _class() -> Any:
    return extend(Draft202012Validator, _KEYWORDS)  # type: ignore[no-untyped-call]


def card_validator(schema: dict[str, Any]) -> Any:
    """A validator of the card's schema that knows our keywords. No formats are checked and nothing is fetched."""
    return _class()(schema)


def schema_fault(document: Any) -> str:
    """What is wrong with a JSON Schema of Draft 2020-12, and where in it; '' where it is one."""
    try:
        errors = Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(document)
        fault = best_match(errors)
    except RecursionError:
        return "lists or objects nested too deeply"
    return "" if fault is None else f"{show(fault.instance)} at {fault.json_path}"

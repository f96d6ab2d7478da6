"""The card against the server: what it declares, and the contradictions that end a run before anything is measured."""

from __future__ import annotations

from typing import Any

from ...schema.errors import SystemUnderTestError
from ..engines.launch import arm_flags, model_name
from ..plan.blocks import declared_arm
from .fields import Field, Fields, declared, observed, unknown

Contradiction = tuple[str, str, str]


def version_field(card: dict[str, Any], arm: str, answer: Any) -> Field:
    """engine.version, from the server's /version. Raises SystemUnderTestError where the card names another."""
    wanted = card["system"]["engine"]["version"]
    found = answer.get("version") if isinstance(answer, dict) else None
    if found is None:
        return unknown("the server has no /version") if wanted == "any" else declared(wanted)
    # A build suffix such as +cpu names the same release.
    if wanted != "any" and found != wanted and not found.startswith(f"{wanted}+"):
        raise SystemUnderTestError(f"{arm}: engine version {found}; the card says {wanted}")
    return observed(found)


def served_model(card: dict[str, Any], arm: str, models: list[dict[str, Any]]) -> Fields:
    """model.name, .context_limit and .precision, from the server's list. Raises SystemUnderTestError where it serves
    another model, or with another limit."""
    wanted = model_name(card)
    served = next((model for model in models if model.get("id") == wanted), None)
    if served is None:
        ids = ", ".join(str(model.get("id")) for model in models) or "none"
        raise SystemUnderTestError(f"{arm}: the server has the models {ids}; the card says {wanted}")
    fields = {"model.name": observed(wanted)}
    limit = served.get("max_model_len")
    wanted_limit = card["system"]["model"].get("context_limit")
    if limit is None:
        fields["model.context_limit"] = unknown("the server does not tell its context limit")
    elif isinstance(wanted_limit, int) and limit != wanted_limit:
        raise SystemUnderTestError(f"{arm}: context limit {limit}; the card says {wanted_limit}")
    else:
        fields["model.context_limit"] = observed(limit)
    return fields


def require_expected(card: dict[str, Any], arm: str, cache: dict[str, str], config: Any) -> None:
    """Raises SystemUnderTestError, with a table of all of them, where the server does not run as the card expects
    (`expect`) or as its flags say. `config` is the resolved configuration, a mapping, or None."""
    rows = [*_expected(card, arm, cache, config), *_flags(card, arm, cache, config)]
    if rows:
        raise SystemUnderTestError(f"{arm}: the server does not run as the card says\n{table(rows)}")


def table(rows: list[Contradiction]) -> str:
    """Contradictions for a terminal: field, expected, found."""
    lines = [("field", "expected", "found"), *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(2)]
    return "\n".join(f"  {a:<{widths[0]}}  {b:<{widths[1]}}  {c}" for a, b, c in lines)


def _expected(card: dict[str, Any], arm: str, cache: dict[str, str], config: Any) -> list[Contradiction]:
    rows = []
    for key, wanted in card["arms"][declared_arm(arm)]["expect"].items():
        found = cache.get(key.removeprefix("cache_config."))
        if found is None:
            found = _at(config, key)
        if found is None:
            rows.append((key, str(wanted), "the server does not tell it"))
        elif not _same(found, wanted):
            rows.append((key, str(wanted), str(found)))
    return rows


def _flags(card: dict[str, Any], arm: str, cache: dict[str, str], config: Any) -> list[Contradiction]:
    """Flags that a setting of their name contradicts. Texts are compared with the cache's settings alone: the resolved
    configuration writes them in its own way."""
    rows = []
    for flag, wanted in arm_flags(card, arm).items():
        name = flag.replace("-", "_")
        found: Any = cache.get(name)
        if found is None and isinstance(wanted, bool | int):
            values = list(_named(config, name))
            found = None if any(_same(value, wanted) for value in values) else next(iter(values), None)
        if found is not None and isinstance(wanted, bool | int | str) and not _same(found, wanted):
            rows.append((flag, str(wanted), str(found)))
    return rows


def _at(config: Any, dotted: str) -> Any:
    """A setting by its dotted name; the leading `engine.config.` may stand or not."""
    for part in dotted.removeprefix("engine.").removeprefix("config.").split("."):
        config = config.get(part) if isinstance(config, dict) else None
    return config


def _named(config: Any, name: str) -> Any:
    """Every number or truth value of this name, at any depth."""
    for key, value in config.items() if isinstance(config, dict) else ():
        if isinstance(value, dict):
            yield from _named(value, name)
        elif key == name and isinstance(value, bool | int):
            yield value


def _same(found: Any, wanted: Any) -> bool:
    return str(found).lower() == str(wanted).lower()


def require_weights(card: dict[str, Any], arm: str, weights: Field) -> None:
    """Raises SystemUnderTestError where the one file of weights is not the one whose digest is on the card. Several
    files have no digest together."""
    wanted, found = card["system"]["model"].get("weights_sha256"), weights.get("value")
    if not isinstance(wanted, str) or weights["source"] != "observed" or not isinstance(found, dict) or len(found) > 1:
        return
    (digest,) = found.values()
    if digest.removeprefix("sha256:") != wanted.removeprefix("sha256:"):
        rows = [(f"model.weights_sha256 ({next(iter(found))})", wanted, digest)]
        raise SystemUnderTestError(f"{arm}: the server's weights are not the card's\n{table(rows)}")


def declared_weights(card: dict[str, Any], why: str) -> Field:
    """model.weights_sha256 where no file was read: what the card says, or unknown."""
    weights = card["system"]["model"].get("weights_sha256")
    if isinstance(weights, dict) and "unknown" in weights:
        return unknown(weights["unknown"])
    return declared(weights) if weights else unknown(why)


def declared_fields(card: dict[str, Any], arm: str) -> Fields:
    """What only the card tells: engine, precision, flags, hardware, neighbours."""
    fields = {
        "engine.kind": declared(card["system"]["engine"]["kind"]),
        "engine.flags": declared(arm_flags(card, arm)),
        "model.precision": declared(card["system"]["model"].get("precision")),
    }
    for key, value in card["system"]["hardware"].items():
        is_unknown = isinstance(value, dict) and "unknown" in value
        fields[f"hardware.{key}"] = unknown(value["unknown"]) if is_unknown else declared(value)
    fields["host.neighbours"] = declared(card["system"]["neighbours"])
    return fields


def tokenizer_facts(card: dict[str, Any], unsure: str | None) -> Fields:
    """The tokenizer of a card that names a file, and whether the server counted a few planned prompts as it does."""
    file = card["system"]["model"].get("tokenizer")
    if not isinstance(file, dict) or "sha256" not in file:
        return {}
    alike = observed("planned prompts counted alike by the server") if unsure is None else unknown(unsure)
    return {"model.tokenizer_sha256": declared(file["sha256"]), "model.tokenizer_check": alike}

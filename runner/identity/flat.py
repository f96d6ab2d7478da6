"""Identities side by side: every fact as leaves, what differs between arms, what is unknown. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Fields = Mapping[str, Mapping[str, Any]]
Identities = Mapping[str, Fields]

#: where a leaf is not, and where nobody told the fact
ABSENT = "(absent)"
UNKNOWN = "(unknown)"


def leaves(name: str, value: Any) -> dict[str, Any]:
    """A value under dotted names: a mapping as its leaves, anything else as itself."""
    if not isinstance(value, Mapping) or not value:
        return {name: value}
    return {key: leaf for part, below in value.items() for key, leaf in leaves(f"{name}.{part}", below).items()}


def names_of(arms: Identities) -> list[str]:
    """Every field's name, in the order of the groups."""
    names = {name for fields in arms.values() for name in fields}
    return sorted(names, key=lambda name: (_group(name), name))


_GROUPS = (
    "engine", "model", "process", "container", "pod", "host", "gpu", "hardware", "node", "server", "neighbours",
    "client",
)  # fmt: skip


def _group(name: str) -> int:
    group = name.partition(".")[0]
    return _GROUPS.index(group) if group in _GROUPS else len(_GROUPS)


def differences(arms: Identities) -> list[dict[str, Any]]:
    """[{"field", "values": {arm: value}}] of each leaf that is not the same in all arms; volatile facts are none. A
    fact that is unknown in one arm and known in another differs too."""
    rows = []
    for name in names_of(arms):
        fields = {arm: fields.get(name) for arm, fields in arms.items()}
        if any(field is not None and field.get("volatile") for field in fields.values()):
            continue
        flat = {arm: _told(name, field) for arm, field in fields.items()}
        for leaf in dict.fromkeys(leaf for one in flat.values() for leaf in one):
            values = {arm: one.get(leaf, ABSENT) for arm, one in flat.items()}
            # Unknown here and not looked at there is no difference that anybody saw.
            seen = any(value not in (ABSENT, UNKNOWN) for value in values.values())
            if seen and any(value != next(iter(values.values())) for value in values.values()):
                rows.append({"field": leaf, "values": values})
    return rows


def _told(name: str, field: Mapping[str, Any] | None) -> dict[str, Any]:
    if field is None:
        return {}
    return {name: UNKNOWN} if field.get("source") == "unknown" else leaves(name, field["value"])


def unknowns(arms: Identities) -> list[dict[str, Any]]:
    """[{"field", "why", "arms"}] of the facts that nobody told."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in names_of(arms):
        for arm, fields in arms.items():
            field = fields.get(name)
            if field is not None and field.get("source") == "unknown":
                found.setdefault((name, str(field.get("why", "no reason is given"))), []).append(arm)
    return [{"field": field, "why": why, "arms": of} for (field, why), of in found.items()]


def value_of(fields: Fields, name: str) -> Any:
    """A field's value; None where it is unknown or not there."""
    return (fields.get(name) or {}).get("value")

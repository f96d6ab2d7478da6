"""Quality gates on the card: which keys each kind has, their defaults, and the resolved row.

A gate's limit is a proportion or a count in the resolved card; what has no meaning for its kind is not there.
"""

from __future__ import annotations

from typing import Any

from .defaults import Filled

#: what every kind of gate has
COMMON = ("risk", "gate", "prompts", "items", "output_tokens", "concurrency", "repeats", "reuse", "within")
#: kind -> (the keys that it cannot do without, those that are its own besides)
KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "greedy_divergence": (("before_token", "excess_over_aa_at_most"), ()),
    "task_metric": (("items", "may_fall_by"), ("scorer",)),
    "mean_output_tokens": (("equivalent_within",), ()),
    "conformance": (("nonconforming_at_most",), ("json_schema",)),
}
#: the limits that are changes, and the scale that each has
LIMITS = {"excess_over_aa_at_most": "points", "may_fall_by": "points", "equivalent_within": "relative"}
#: how the answers of a built-in set are held against replies
SCORERS = {"arithmetic": "exact_number", "extraction": "contains"}

_PROMPTS, _CONCURRENCY, _MOST_CONCURRENCY = 500, 8, 64
#: output tokens: of greedy divergence at least, of answers of a few words, of all else
_GREEDY_OUTPUT, _SHORT_OUTPUT, _OUTPUT = 64, 32, 256
#: a built-in set has no more items than this
MOST_BUILT_IN = 1000


def keys_of(gate: str) -> tuple[str, ...]:
    """The keys that have a meaning for a kind of gate."""
    needed, own = KEYS[gate]
    return tuple(dict.fromkeys((*COMMON, *needed, *own)))


def fill_gates(filled: Filled) -> None:
    """Defaults that depend on the kind of gate, the claim and the files; what has no meaning goes."""
    for index, row in enumerate(filled.get("quality") or []):
        gate = row.get("gate") if isinstance(row, dict) else None
        if gate not in KEYS:
            continue
        path = ("quality", index)
        for key in [key for key in row if key not in keys_of(gate)]:
            filled.forget((*path, key))
        items = row.get("items")
        filled.default((*path, "prompts"), items["rows"] if isinstance(items, dict) else _PROMPTS)
        filled.default((*path, "reuse"), row.get("risk") == "cache_reuse")
        filled.default((*path, "concurrency"), _concurrency(filled))
        filled.default((*path, "output_tokens"), _output_tokens(row))
        if gate == "task_metric" and isinstance(items, str):
            filled.default((*path, "scorer"), SCORERS.get(items))
        if gate == "conformance":
            filled.default((*path, "json_schema"), filled.get("workload", "sampling", "json_schema"))


def _output_tokens(row: dict[str, Any]) -> int:
    if row["gate"] == "greedy_divergence":
        return max(row.get("before_token") or 0, _GREEDY_OUTPUT)
    return _SHORT_OUTPUT if row["gate"] == "task_metric" and isinstance(row.get("items"), str) else _OUTPUT


def _concurrency(filled: Filled) -> int:
    """As many prompts at once as the claim's largest load has clients; of rates nobody knows how many that will be."""
    clients = filled.get("workload", "concurrency")
    if not clients:
        return _CONCURRENCY
    at = filled.get("claim", "at")
    named = [load for load in (at if isinstance(at, list) else clients) if load is not None]
    return int(min(max(named, default=_CONCURRENCY), _MOST_CONCURRENCY))


def resolved_gate(row: dict[str, Any]) -> dict[str, Any]:
    """A gate as the other parts read it."""
    return {key: row[key]["value"] if key in LIMITS else row.get(key) for key in keys_of(row["gate"])}

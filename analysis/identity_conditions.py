"""The identity of the arms as conditions of a result: what they were, what differs, and what nobody could tell.

A whole resolved configuration or a list of packages is counted where it is alike, and told by its differing leaves
where it is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import wording
from .card import ARMS
from .derived import below
from .identity import gate
from .identity_rows import NOT_COMPARABLE
from .identity_words import cut
from .leaves import known, leaves, same, value_of, volatile
from .read import Bundle
from .records import Record
from .traffic import plain

Told = tuple[str, str, str]

#: fields that name the machine or the engine; others only show where the arms differ
_SHOWN = ("engine", "model", "host", "hardware", "device", "cpu", "gpu", "accelerator", "os", "driver", "client")
#: unknown fields that are told one by one, since a card says the same of them under `system`
_BY_NAME = ("hardware", "model.precision", "model.weights_sha256", "model.tokenizer_sha256", "model.context_limit")
#: leaves of a field that are listed; a mapping of no more than them is shown whole
_LISTED = 4


def identity_conditions(bundle: Bundle) -> list[Told]:
    """(name, value, source) of every condition that the identity gives."""
    arms = [arm for arm in ARMS if arm in bundle.card["arms"]]
    found = {arm: bundle.identity(arm) for arm in arms}
    rows: list[Told] = [
        (f"identity of {arm}", f"identity/{arm}.json is not in the bundle", "unknown")
        for arm in arms
        if found[arm] is None
    ]
    looked = {arm: fields for arm, fields in found.items() if fields is not None}
    if bundle.identity_version < 2:
        return rows + _of_first_looks(looked)
    judged = gate(bundle)
    return [*rows, *_fields(looked, judged["rows"]), *_of_the_gate(judged)]


def _of_first_looks(looked: dict[str, Record]) -> list[Told]:
    """The fields of a bundle of before, in which each arm was looked at once: few, and told whole."""
    rows: list[Told] = []
    for name in sorted({name for fields in looked.values() for name in fields}):
        fields = {arm: looked[arm].get(name, {}) for arm in looked}
        values = {arm: plain(field.get("value")) for arm, field in fields.items()}
        differs = len(set(values.values())) > 1
        if volatile(*fields.values()) or (not differs and name.split(".")[0] not in _SHOWN):
            continue
        if all(field.get("source") == "unknown" for field in fields.values()):
            rows.append((name, str(next(iter(fields.values())).get("why") or "not observed"), "unknown"))
            continue
        text = "; ".join(f"{arm}: {value}" for arm, value in values.items()) if differs else next(iter(values.values()))
        rows.append((name + (" (differs between arms)" if differs else ""), text, _source(fields.values())))
    return rows


def _source(fields: Any) -> str:
    return "observed" if any(field.get("source") == "observed" for field in fields) else "declared"


def _fields(looked: dict[str, Record], judged: Sequence[Record]) -> list[Told]:
    """What every arm tells: alike, or the leaves that differ; then what none tells, by reason."""
    rows: list[Told] = []
    silent: dict[tuple[str, str], list[str]] = {}
    for name in sorted({name for fields in looked.values() for name in fields}):
        fields = [fields.get(name) for fields in looked.values()]
        if volatile(*fields):
            continue
        told = [field for field in fields if field is not None and known(field)]
        if not told:
            why = str(next((field.get("why") for field in fields if field and field.get("why")), "not observed"))
            head = name if below(name, _BY_NAME) else name.split(".")[0]
            silent.setdefault((head, why), []).append(name)
        elif len(told) == len(fields):
            rows += _told(name, told, judged)
    return rows + [(listed(names), why, "unknown") for (_, why), names in silent.items()]


def _told(name: str, told: list[Record], judged: Sequence[Record]) -> list[Told]:
    values = [value_of(name, field) for field in told]
    if all(same(values[0], value) for value in values):
        if name.split(".")[0] not in _SHOWN:
            return []
        count = len(list(leaves(name, values[0])))
        alike = " in both arms" if len(values) > 1 else ""
        whole = not isinstance(values[0], dict) or count <= _LISTED
        return [(name, plain(values[0]) if whole else f"{count} values, alike{alike}" if alike else f"{count} values",
                 _source(told))]  # fmt: skip
    between = [row for row in judged if row["arm"] is None and _is_of(row["field"], name)]
    texts = [_leaf(row, name) for row in between[:_LISTED]]
    texts += [f"and {len(between) - _LISTED} more"] if len(between) > _LISTED else []
    # what is new at every start is no difference
    return [(f"{name} (differs between arms)", "; ".join(texts), _source(told))] if texts else []


def _is_of(leaf: str, name: str) -> bool:
    return leaf == name or leaf.startswith(f"{name}.")


def _leaf(row: Record, name: str) -> str:
    inner = row["field"][len(name) + 1 :]
    values = f"baseline {cut(row['baseline'])}, candidate {cut(row['candidate'])} ({row['why']})"
    return f"{inner}: {values}" if inner else values


def _of_the_gate(judged: Record) -> list[Told]:
    """How much was compared, what changed between cells and was let pass, and what could not be compared."""
    rows: list[Told] = []
    if judged["compared"]:
        rows.append(("identity compared", f"{judged['compared']} values of each arm", "observed"))
    rows.append(("identity looked at again", f"before {wording.count(judged['looks'], 'cell')}", "observed"))
    drift = [row for row in judged["rows"] if row["class"] == "drift"]
    changed = list(dict.fromkeys(f"{row['field']} ({row['why']})" for row in drift if row["word"] == "allowed"))
    if changed:
        rows.append(("identity changed between cells", listed(changed), "observed"))
    silent = [row for row in judged["rows"] if row["word"] == NOT_COMPARABLE]
    for name, some in (
        ("identity not comparable", [row for row in silent if row["class"] != "drift"]),
        ("identity not comparable between cells", [row for row in silent if row["class"] == "drift"]),
    ):
        names = list(dict.fromkeys(row["field"] for row in some))
        rows += [(name, listed(names), "unknown")] if names else []
    return rows


def listed(names: Sequence[str]) -> str:
    """The first few of many names, and how many more there are."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{', '.join(names[:_LISTED])}{more}"

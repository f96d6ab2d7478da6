"""A fact of an identity: its value, and who told it.

    {"value": JSON, "source": "observed" | "declared" | "unknown", "why": str, "volatile": true}

`why` stands where the value is unknown. What is volatile is recorded and never compared: process ids, start times, the
load, clock frequencies of the moment. A value may be a mapping; its leaves are compared one by one.
"""

from __future__ import annotations

import json
from typing import Any

Field = dict[str, Any]
Fields = dict[str, Field]

#: version of identity/<arm>.json. 1 (no number in the file): without the process, the host and the model's files. 2:
#: with them, and identity/cells/<cell>.json holds what each cell found
IDENTITY_VERSION = 2


def observed(value: Any) -> Field:
    """A fact that the system told."""
    return {"value": value, "source": "observed"}


def declared(value: Any) -> Field:
    """A fact that only the card tells."""
    return {"value": value, "source": "declared"}


def unknown(why: str) -> Field:
    """A fact that nobody told, with the reason."""
    return {"value": None, "source": "unknown", "why": why}


def volatile(field: Field) -> Field:
    """The same, as a fact that differs from moment to moment: recorded, never compared."""
    return {**field, "volatile": True}


def told(value: Any, why: str) -> Field:
    """What was observed, or, where it is None or empty, unknown for this reason."""
    return unknown(why) if value is None or value in ("", {}, []) else observed(value)


def all_unknown(names: tuple[str, ...], why: str) -> Fields:
    """Each of these facts unknown, for one reason."""
    return {name: unknown(why) for name in names}


def changed(first: Fields, now: Fields) -> Fields:
    """The fields of `now` that are not as they were in `first`, and always those that are volatile."""
    # as JSON: to Python true is 1
    return {
        name: field
        for name, field in now.items()
        if field.get("volatile") or name not in first or _as_json(first[name]) != _as_json(field)
    }


def _as_json(field: Field) -> str:
    return json.dumps(field, sort_keys=True)


def gone(first: Fields, now: Fields) -> list[str]:
    """The names that `first` had and `now` has not."""
    return sorted(set(first) - set(now))

"""What `benchcard probe` saw on a server's host, beside what the server says over HTTP. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from ...schema.errors import SystemUnderTestError
from ..identity.engine import RETOLD

Field = dict[str, Any]
#: facts of a place: they stay where they are when a deployment moves
OF_A_PLACE = ("node", "pod", "host", "gpu")
#: facts that the client has of itself
_OWN = ("client", "server", "neighbours")
#: one start, told by the kernel and by the server: both reckon it from a clock that may have been set meanwhile, s
_STARTS_WITHIN_S = 60.0


def with_probe(arm: str, fields: Mapping[str, Field], probe: Mapping[str, Field], *, at_home: bool) -> dict[str, Field]:
    """The fields that a probe's file adds to an arm's: those that nobody observed otherwise. Not `at_home` (the arms
    have exchanged places since the file was written), the facts of the place alone. Where the file is about an earlier
    process than the one that answers, what it says of that one stays unknown. What a server
    retells of its host gives way to the file; versions of packages must agree. Raises SystemUnderTestError where the
    file contradicts what was observed."""
    earlier = _earlier(fields, probe) if at_home else None
    added: dict[str, Field] = {}
    for name, field in probe.items():
        part = name.partition(".")[0]
        if part in _OWN or not (at_home or part in OF_A_PLACE):
            continue
        found = fields.get(name)
        if earlier is not None and part not in OF_A_PLACE:
            if found is None or found.get("source") == "unknown":
                added[name] = {"value": None, "source": "unknown", "why": earlier}
            continue
        if found is not None and found.get("source") == "observed" and field["source"] == "observed":
            if name not in RETOLD:
                _agree(arm, name, found, field)
                continue
            if name == "engine.packages":
                _agree(arm, name, found, field)
            added[name] = {**field, "by": "probe"}
        elif found is None or found.get("source") == "unknown" or field["source"] == "observed":
            added[name] = {**field, "by": "probe"}
    return added


def _earlier(fields: Mapping[str, Field], probe: Mapping[str, Field]) -> str | None:
    """Why the file says nothing of the process that answers now: it is of one that was started at another time. None
    where it is of this one, or one of the two does not tell."""
    now, then = ((told.get("process.started") or {}).get("value") for told in (fields, probe))
    try:
        apart = abs((datetime.fromisoformat(now) - datetime.fromisoformat(then)).total_seconds())  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    if apart <= _STARTS_WITHIN_S:
        return None
    return (
        f"its probe's file is of a process started at {then}, the server that answers was started at {now}: run "
        "`benchcard probe` again"
    )


def _agree(arm: str, name: str, found: Field, field: Field) -> None:
    if field.get("volatile") or found.get("volatile"):
        return
    for path, seen, told in _leaves(name, found["value"], field["value"]):
        if not _same(name, seen, told):
            raise SystemUnderTestError(
                f"{arm}: {path} is {seen}, as the server says; its probe's file says {told}. Run `benchcard probe` on "
                "the host of the server that answers now"
            )


def _leaves(path: str, seen: Any, told: Any) -> Iterator[tuple[str, Any, Any]]:
    """What both have, leaf by leaf: neither need have all that the other has."""
    if isinstance(seen, dict) and isinstance(told, dict):
        for key in seen.keys() & told.keys():
            yield from _leaves(f"{path}.{key}", seen[key], told[key])
    else:
        yield path, seen, told


def _same(name: str, seen: Any, told: Any) -> bool:
    first, second = str(seen).lower(), str(told).lower()
    if name not in ("engine.version", "engine.packages") or ("+" in first and "+" in second):
        return first == second
    # A build suffix such as +cpu names the same release.
    return first.partition("+")[0] == second.partition("+")[0]

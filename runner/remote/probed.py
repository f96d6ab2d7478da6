"""What `benchcard probe` saw on a server's host, beside what the server says over HTTP. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...schema.errors import SystemUnderTestError

Field = dict[str, Any]
#: facts of a place: they stay where they are when a deployment moves
OF_A_PLACE = ("node", "pod", "host", "gpu")
#: facts that the client has of itself
_OWN = ("client", "server", "neighbours")


def with_probe(arm: str, fields: Mapping[str, Field], probe: Mapping[str, Field], *, at_home: bool) -> dict[str, Field]:
    """The fields that a probe's file adds to an arm's: those that nobody observed otherwise. Not `at_home` (the arms
    have exchanged places since the file was written), the facts of the place alone. Raises SystemUnderTestError where
    the file contradicts what was observed."""
    added: dict[str, Field] = {}
    for name, field in probe.items():
        part = name.partition(".")[0]
        if part in _OWN or not (at_home or part in OF_A_PLACE):
            continue
        found = fields.get(name)
        if found is not None and found.get("source") == "observed" and field["source"] == "observed":
            _agree(arm, name, found, field)
        elif found is None or found.get("source") == "unknown" or field["source"] == "observed":
            added[name] = {**field, "by": "probe"}
    return added


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
    # A build suffix such as +cpu names the same release.
    return first == second or (name == "engine.version" and first.partition("+")[0] == second.partition("+")[0])

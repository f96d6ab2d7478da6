"""The JSON that `benchcard probe` writes on a server's host, as a card names it (arms.*.server.probe)."""

from __future__ import annotations

from typing import Any

from .table import FileError, written_by_us

#: 1: first.
PROBE_VERSION = 1
_SOURCES = ("observed", "declared", "unknown")


def read_probe(data: bytes) -> dict[str, Any]:
    """What the resolved card keeps of the file beside its digest: nothing. Raises FileError."""
    probe_fields(data)
    return {}


def probe_fields(data: bytes) -> dict[str, dict[str, Any]]:
    """The facts that the file holds: a field's name -> {"value", "source", …}. Raises FileError."""
    wanted = "the JSON that `benchcard probe` wrote on the server's host"
    document = written_by_us(data, "probe_version", PROBE_VERSION, wanted)
    fields = document.get("fields")
    if not isinstance(fields, dict) or not all(map(_is_field, fields.values())):
        wanted = "`fields`, each with its value and source, as `benchcard probe` writes them"
        raise FileError("a probe without its facts", wanted, line=1)
    return fields


def _is_field(field: Any) -> bool:
    return isinstance(field, dict) and "value" in field and field.get("source") in _SOURCES

"""Plain records (parsed JSON) and the one error of the analysis: what is missing or foreign is refused, with its
place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Record = dict[str, Any]


class BundleError(Exception):
    """A run directory that is missing, incomplete, or of a format this analysis does not read."""


def need(record: Mapping[str, Any], path: str, wanted: type | tuple[type, ...], where: str) -> Any:
    """The value at a dotted key path; a `BundleError` that names the place if it is absent or of another type."""
    value: Any = record
    for key in path.split("."):
        if not isinstance(value, Mapping) or key not in value:
            raise BundleError(f"{where}: {path} is missing")
        value = value[key]
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        kinds = wanted if isinstance(wanted, tuple) else (wanted,)
        names = " or ".join(kind.__name__ for kind in kinds)
        raise BundleError(f"{where}: {path} is {value!r}; wanted {names}")
    return value


def require_version(record: Record, key: str, known: int, where: str) -> None:
    """Refuse a format that this analysis does not read, naming both versions."""
    found = record.get(key)
    if found != known:
        raise BundleError(f"{where}: format version {found!r} ({key}); this analysis reads version {known}")


def one_of(row: Record, key: str, wanted: tuple[str, ...], where: str) -> None:
    """Refuse a value that is not one of the known words."""
    found = need(row, key, str, where)
    if found not in wanted:
        raise BundleError(f"{where}: {key} is {found!r}; wanted {' or '.join(wanted)}")

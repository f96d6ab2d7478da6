"""Format versions. Each has its history beside it; a file with a newer version is refused by name."""

from __future__ import annotations

from .errors import InputError

#: 1: first.
CARD_VERSION = 1
#: 1: first.
PLAN_VERSION = 1
#: 1: first.
EVENTS_VERSION = 1
#: 1: first.
VERDICT_VERSION = 1
#: 1: first.
BASELINE_VERSION = 1
#: 1: first.
MANIFEST_VERSION = 1
#: 1: first.
LOG_VERSION = 1


def require_version(what: str, found: object, known: int) -> None:
    """Refuse a format newer than (or unlike) what this benchcard reads, naming both versions."""
    if found != known:
        raise InputError(f"{what} has format version {found!r}; this benchcard reads version {known}")

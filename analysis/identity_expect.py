"""What the card says that each engine must say of itself: its settings under `expect`, and the flags it was given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .card import ARMS
from .derived import ALIASES, ends_with, normal
from .identity_rows import FORBIDDEN, NOT_COMPARABLE, Row, of_arm
from .leaves import known, leaves, same, text, value_of, volatile
from .read import Bundle
from .records import Record
from .treatment import flags_of, resolved, setting

#: the number that leaves the choice to the engine
_ENGINES_CHOICE = -1


def expected(bundle: Bundle) -> Iterator[Row]:
    """The rows of every arm that was looked at."""
    for arm in (arm for arm in ARMS if arm in bundle.card["arms"]):
        fields = bundle.identity(arm)
        if fields is not None:
            found = _told(fields)
            yield from _settings(bundle.card["arms"][arm].get("expect") or {}, found, arm)
            yield from _given(flags_of(bundle.card, arm), found, arm)


def _told(fields: Record) -> list[tuple[str, Any]]:
    """What an engine says of its own configuration, leaf by leaf."""
    return [
        leaf
        for name in ("engine.config", "engine.cache_config")
        if name in fields and known(fields[name]) and not volatile(fields[name])
        for leaf in leaves(name, value_of(name, fields[name]))
    ]


def _settings(wanted: Record, found: list[tuple[str, Any]], arm: str) -> Iterator[Row]:
    for key, value in sorted(wanted.items()):
        told = [leaf for leaf in found if ends_with(leaf[0], setting(key))]
        if not told:
            why = "the server does not tell it"
            yield of_arm(setting(key), "expect", NOT_COMPARABLE, text(value), None, arm, None, why)
        for name, seen in told:
            if not _says(seen, value):
                yield of_arm(name, "expect", FORBIDDEN, text(value), text(seen), arm, None, f"the card: expect {key}")


def _given(flags: Record, found: list[tuple[str, Any]], arm: str) -> Iterator[Row]:
    """A number or switch that the card gives, and that the engine contradicts wherever it tells it."""
    for flag, value in sorted(flags.items()):
        if not isinstance(value, bool | int) or value == _ENGINES_CHOICE:
            continue
        told = [leaf for leaf in resolved(flag, found) if _is_its_leaf(leaf[0], flag) and _plain(leaf[1])]
        if told and not any(_says(seen, value) for _, seen in told):
            name, seen = told[0]
            yield of_arm(name, "expect", FORBIDDEN, text(value), text(seen), arm, None, f"the card: the flag {flag}")


def _is_its_leaf(name: str, flag: str) -> bool:
    return ends_with(name, ALIASES.get(normal(flag), normal(flag))) or name.endswith(f".{flag}")


def _plain(value: Any) -> bool:
    """A number or a truth value, or its text (the labels of a metric are texts)."""
    if isinstance(value, str):
        return value.lower() in ("true", "false") or value.removeprefix("-").isdigit()
    return isinstance(value, bool | int)


def _says(value: Any, wanted: Any) -> bool:
    return same(value, wanted) or text(value).lower() == text(wanted).lower()

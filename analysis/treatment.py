"""What the arms were declared to differ in, and which observed differences follow from that.

A card declares the treatment by its arms' flags, environments, servers and expected settings, and by the names under
`identity.treatment`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from .card import ARMS
from .derived import ENGINE, OF_ALL, below, ends_with, is_derived, is_own, named, normal, set_by
from .leaves import text
from .records import Record

Declared = dict[str, tuple[str | None, str | None]]


@dataclass(frozen=True)
class Treatment:
    """The declared difference of the arms. `flags`: name -> what each arm declares (None: nothing); `variables` the
    same for the environment; `settings`: keys of `expect` that differ; `server`: each arm has its own; `replicas`:
    declared numbers that differ; `names`: identity.treatment; `fixed`: flags that the card sets alike for both arms."""

    flags: Declared
    variables: Declared
    settings: tuple[str, ...]
    server: bool
    replicas: bool
    names: tuple[str, ...]
    fixed: frozenset[str]

    def why(self, name: str) -> str | None:
        """Why a difference in a leaf follows from the treatment, or None where it does not."""
        for flag in (*self.flags, *self.variables):
            if is_own(name, flag):
                return f"declared: {flag}"
        set_by_flags = {key: set_by(setting(key)) for key in self.settings}
        for key, by in set_by_flags.items():
            itself = below(name, ENGINE) and ends_with(name, setting(key))
            if itself or (by is not None and is_own(name, by)):
                return f"declared: expect {key}"
        if (self.server and name == "server.url") or (self.replicas and name == "server.replicas_seen"):
            return "declared: server"
        for pattern in self.names:
            if named(name, pattern):
                return f"named under identity.treatment: {pattern}"
        declared = (*self.flags, *self.variables, *self.settings)
        if normal(name.rsplit(".", 1)[-1]) in self.fixed:
            # the engine derives nothing where the card sets the flag itself
            return None
        for flag in declared:
            if is_derived(name, flag):
                return f"follows from {flag}"
        for key, by in set_by_flags.items():
            if by is not None and is_derived(name, by):
                return f"follows from expect {key}"
        if declared and any(ends_with(name, end) for end in OF_ALL):
            return f"follows from {declared[0]}"
        return None


def treatment_of(card: Record) -> Treatment:
    """The treatment of an ab card."""
    arms = [card["arms"].get(arm) or {} for arm in ARMS]
    env = (card["system"].get("launch") or {}).get("env") or {}
    servers = [arm.get("server") or {} for arm in arms]
    flags = _unlike(*(flags_of(card, arm) for arm in ARMS))
    return Treatment(
        flags=flags,
        variables=_unlike(*({**env, **(arm.get("env") or {})} for arm in arms)),
        settings=tuple(_unlike(*(arm.get("expect") or {} for arm in arms))),
        server=servers[0].get("url") != servers[1].get("url"),
        replicas=servers[0].get("replicas") != servers[1].get("replicas"),
        names=tuple(str(name) for name in (card.get("identity") or {}).get("treatment") or []),
        fixed=frozenset(normal(flag) for arm in ARMS for flag in flags_of(card, arm) if flag not in flags),
    )


def flags_of(card: Record, arm: str) -> Record:
    """The flags of an arm: the system's, and its own over them."""
    own = (card["arms"].get(arm) or {}).get("flags") or {}
    return {name: value for name, value in {**(card["system"].get("flags") or {}), **own}.items() if name != "port"}


def setting(key: str) -> str:
    """A key of `expect` as the end of a leaf's name: a bare one is a setting of the cache."""
    return key if "." in key else f"cache_config.{key}"


def resolved(flag: str, found: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The leaves in which the engine itself says what it made of a flag (not what it was given)."""
    for name, value in found:
        if below(name, ("engine.config", "engine.cache_config")) and is_own(name, flag):
            yield name, value


def _unlike(before: Record, after: Record) -> Declared:
    """The names under which two mappings declare different texts (32 and "32" are one value)."""
    pairs = {name: (_told(before, name), _told(after, name)) for name in sorted({*before, *after})}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _told(values: Record, name: str) -> str | None:
    return text(values[name]) if name in values else None

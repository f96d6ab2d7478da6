"""Observed fields of an identity as single values with dotted names, and where two of them differ.

A mapping is compared leaf by leaf (`engine.config.scheduler_config.max_num_seqs`), a list as a whole, a command line
flag by flag. Numbers are equal by value, and true is not 1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from .records import Record


class Absent:
    """What stands where only one of two mappings has a key."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = Absent()

#: leaves that are new at every start, or say again what stands elsewhere: never compared
PASSING = (
    "*.instance_id", "*.VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME", "*.env_vars", "*_port", "*_port_list", "*.pid",
    "*.epoch_ns", "*.compilation_time", "*.encoder_compilation_time", "*.data_parallel_master_ip",
    "*.static_forward_context", "*.static_forward_context.*", "*.traced_files", "process.argv.port", "process.argv.log",
)  # fmt: skip
#: libraries are loaded when they are first needed, so one that is not there yet says nothing
LOADED_LATER = "process.libraries"
#: a library by its stem: what stands before a build's digest (libgomp-a34b3233.so.1) and a version
_LIBRARY = re.compile(rf"{re.escape(LOADED_LATER)}\.(lib[^/]+?)(?:-[0-9a-f]{{8}})?\.so(?:\.[\d.]+)?")


@dataclass(frozen=True)
class Difference:
    """A leaf that differs; `before` and `after` are JSON values or `ABSENT`."""

    name: str
    before: Any
    after: Any


def known(field: Record | None) -> bool:
    """Whether a field says something: it is there, and its source is not unknown."""
    return field is not None and field.get("source") != "unknown"


def volatile(*fields: Record | None) -> bool:
    """Whether a field is recorded and never compared (a pid, a load, a round trip)."""
    return any(field is not None and field.get("volatile") is True for field in fields)


def value_of(name: str, field: Record) -> Any:
    """A field's value as it is compared: a command line becomes a mapping of its flags."""
    value = field.get("value")
    if name == "process.argv" and isinstance(value, list):
        return arguments([str(part) for part in value])
    return value


def arguments(argv: list[str]) -> dict[str, str]:
    """A command line by flag: `--name value` and `--name=value` are {name: value}, a lone `--name` is "true", a lone
    `--no-name` is {name: "false"}, a repeated flag has its values in a row; what stands before the first flag is
    `command`."""
    found: dict[str, list[str]] = {"command": []}
    at = "command"
    for part in argv:
        if part.startswith("-") and part.lstrip("-")[:1].isalpha():
            at, equals, value = part.lstrip("-").partition("=")
            at = at.replace("_", "-")
            found.setdefault(at, []).extend([value] if equals else [])
        else:
            found[at].append(part)
    flags: dict[str, str] = {}
    for name, words in found.items():
        lone = not words and name != "command"
        if lone and name.startswith("no-"):
            flags[name[3:]] = "false"
        else:
            flags[name] = "true" if lone else " ".join(words)
    return flags


def same(one: Any, other: Any) -> bool:
    """Equality of JSON values: numbers by value, true is not 1, lists item by item, mappings key by key."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return set(one) == set(other) and all(same(value, other[key]) for key, value in one.items())
    return bool(type(one) is type(other) or {type(one), type(other)} == {int, float}) and bool(one == other)


def leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """(dotted name, value) of every leaf, in the order of their names; an empty mapping is a leaf."""
    if isinstance(value, dict) and value:
        for key in sorted(value):
            yield from leaves(f"{name}.{key}", value[key])
    elif not passing(name):
        yield name, value


def passing(name: str) -> bool:
    """Whether a leaf is new at every start."""
    return any(fnmatchcase(name, pattern) for pattern in PASSING)


def differences(name: str, before: Any, after: Any) -> Iterator[Difference]:
    """The leaves in which two values differ, in the order of their names. A mapping against something that is none is
    one difference."""
    if passing(name):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from differences(f"{name}.{key}", before.get(key, ABSENT), after.get(key, ABSENT))
    elif not same(before, after):
        yield Difference(name, before, after)


def one_sided_library(found: Difference) -> bool:
    """A library that only one of two processes had loaded when it was looked at, or whose file could not be read."""
    silent = any(value is ABSENT or value is None for value in (found.before, found.after))
    return silent and found.name.startswith(f"{LOADED_LATER}.")


def other_versions(found: Iterable[Difference]) -> frozenset[str]:
    """The names of one-sided libraries of which the other side has another version: libx.so.1.2 here, libx.so.1.3
    there. Neither was merely loaded later."""
    by_stem: dict[str, list[Difference]] = {}
    for one in found:
        match = _LIBRARY.fullmatch(one.name) if one_sided_library(one) else None
        if match is not None and None not in (one.before, one.after):
            by_stem.setdefault(match[1], []).append(one)
    sides = ((stem, {one.before is ABSENT for one in of}) for stem, of in by_stem.items())
    return frozenset(one.name for stem, absent in sides if len(absent) > 1 for one in by_stem[stem])


def text(value: Any) -> str:
    """A value in one line, as a table shows it."""
    if isinstance(value, str):
        return value
    return repr(value) if value is ABSENT else json.dumps(value, ensure_ascii=False, sort_keys=True)

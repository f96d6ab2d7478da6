"""Rules about populations of requests, and what they may differ in: shares, lengths, sampling, priority, documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .defaults import Filled
from .errors import Problem
from .phrase import KeyPath
from .quantity import format_quantity
from .rules_requests import shapes_of

_WHERE = ("workload", "populations")
#: how far shares may be from 100% together: what rounding of percentages leaves
_ROUNDING = 1e-6


def _populations(filled: Filled) -> dict[str, Any]:
    """The populations by name; a population that is wrong is empty."""
    values = filled.get(*_WHERE)
    return {name: own or {} for name, own in values.items()} if isinstance(values, dict) else {}


def _shares_follow_one_way(filled: Filled) -> Iterator[Problem]:
    """Either each population has a share, or each has one in every level of the profile."""
    names = list(_populations(filled))
    by_level = [name for name in names if filled.on_card(*_WHERE, name, "share_by_level")]
    for name in names if by_level else ():
        if name not in by_level and filled.on_card(*_WHERE, name, "share"):
            found = f"share, where {by_level[0]} has share_by_level"
            yield filled.problem((*_WHERE, name, "share"), found, "share_by_level", "all have one or the other", True)
    process, levels = (filled.get("workload", "arrivals", key) for key in ("process", "levels"))
    for name in by_level:
        path: KeyPath = (*_WHERE, name, "share_by_level")
        shares = filled.get(*path)
        if process not in (None, "profile"):
            hint = "levels belong to process: profile"
            yield filled.problem(path, f"share_by_level with {process} arrivals", "share", hint, True)
        elif shares and levels and len(shares) != len(levels):
            yield filled.problem(path, f"{len(shares)} shares", f"{len(levels)}, one for each level of the profile")


def _shares_are_whole(filled: Filled) -> Iterator[Problem]:
    """The shares add up to 100%, in each level where the mix follows a profile."""
    populations = _populations(filled)
    key = "share_by_level" if any(own.get("share_by_level") for own in populations.values()) else "share"
    shares = [own.get(key) for own in populations.values()]
    rows = [share if isinstance(share, list) else [share] for share in shares]
    if not rows or any(None in row or len(row) != len(rows[0]) for row in rows):
        return
    for level, parts in enumerate(zip(*rows, strict=True), 1):
        if abs(sum(parts) - 1) > _ROUNDING:
            of = f" in level {level}" if key == "share_by_level" else ""
            found = f"shares that add up to {format_quantity('fraction', round(sum(parts), 6))}{of}"
            yield filled.problem(_WHERE, found, "100%", at_key=True)


def _populations_have_lengths(filled: Filled) -> Iterator[Problem]:
    populations, shapes = _populations(filled), shapes_of(filled)
    if populations and shapes and shapes[0] in ("file", "from"):
        found = f"populations of requests from a {'file' if shapes[0] == 'file' else 'trace'}"
        hint = "every row is what it is: it belongs to no population"
        yield filled.problem(_WHERE, found, "requests with lengths or pairs", hint, at_key=True)
    for name in populations:
        if not shapes and not filled.on_card(*_WHERE, name, "lengths"):
            yield filled.problem(
                (*_WHERE, name), "a population without lengths", "lengths, here or in requests", "", True
            )


def _structured_output_may_end(filled: Filled) -> Iterator[Problem]:
    """A reply that must fit a schema ends when it does."""
    common: KeyPath = ("workload", "sampling")
    for place in (common, *((*_WHERE, name, "sampling") for name in _populations(filled))):
        schema, ignored = (*place, "json_schema"), (*place, "ignore_eos")
        if filled.on_card(*schema) and filled.engine == "simulated":
            found = "json_schema with the embedded engine"
            yield filled.problem(schema, found, "the engine vllm or openai", "it writes no JSON", at_key=True)
            continue
        if place != common and not filled.on_card(*schema) and not filled.on_card(*ignored):
            continue
        held = filled.on_card(*schema) or filled.on_card(*common, "json_schema")
        ignores = filled.get(*(ignored if filled.on_card(*ignored) else (*common, "ignore_eos")))
        if held and ignores:
            path = ignored if filled.on_card(*ignored) else schema
            hint = "a reply that fits its schema has an end; ignore_eos is true unless the card says otherwise"
            yield filled.problem(path, "json_schema with ignore_eos", "ignore_eos: false", hint, at_key=True)


def _priorities_are_kept(filled: Filled) -> Iterator[Problem]:
    """The embedded engine serves first come, first served: a priority would be sent and mean nothing."""
    for place in (("workload",), *((*_WHERE, name) for name in _populations(filled))):
        path: KeyPath = (*place, "priority")
        if filled.engine == "simulated" and isinstance(filled.get(*path), int):
            found = "a priority with the embedded engine"
            yield filled.problem(path, found, "no priority", "it serves first come, first served", at_key=True)


def _warm_cache_has_documents(filled: Filled) -> Iterator[Problem]:
    path: KeyPath = ("workload", "cache_state")
    if filled.get(*path, "warm") is None:
        return
    places = [("workload", "requests"), *((*_WHERE, name) for name in _populations(filled))]
    if not any(isinstance(filled.get(*place, "prefix", "documents"), int) for place in places):
        found = "warm: documents, where requests share none"
        yield filled.problem(
            path, found, "a prefix with a number of documents", "as in prefix: {documents: 12, tokens: 1500}"
        )


POPULATION_RULES = (
    _shares_follow_one_way,
    _shares_are_whole,
    _populations_have_lengths,
    _structured_output_may_end,
    _priorities_are_kept,
    _warm_cache_has_documents,
)

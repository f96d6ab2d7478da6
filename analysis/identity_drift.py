"""What an arm was at first and is no more: in a cell, or in the baseline's second run of A/A blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .card import AA_ARMS
from .identity_places import expected_look
from .identity_rows import (
    ALLOWED,
    NOT_COMPARABLE,
    Row,
    accepted_by,
    of_arm,
    undeclared,
)
from .leaves import differences, known, other_versions, text, value_of, volatile
from .read import Bundle
from .records import Record

_ONE_SYSTEM = "an arm is one system from its first cell to its last"


def second_run(bundle: Bundle, accepted: Iterable[str]) -> Iterator[Row]:
    """The baseline's second run in A/A blocks is the same system."""
    first, second = expected_look(bundle, AA_ARMS[1], None), bundle.identity(AA_ARMS[1])
    if first is not None and second is not None:
        yield from _drift(first, second, AA_ARMS[1], None, accepted)


def cells(bundle: Bundle, accepted: Iterable[str]) -> Iterator[Row]:
    """Every look at an arm before a cell says what the first one said."""
    for cell in bundle.cells_looked_at():
        first, (now, gone) = expected_look(bundle, cell.arm, cell.cell), bundle.look(cell)
        if first is None:
            continue
        yield from _drift(first, now, cell.arm, cell.cell, accepted)
        for name in sorted(gone):
            if known(first.get(name)) and not volatile(first.get(name)):
                before = text(value_of(name, first[name]))
                yield of_arm(name, "drift", NOT_COMPARABLE, before, None, cell.arm, cell.cell, "no longer told")


def _drift(first: Record, now: Record, arm: str, cell: str | None, accepted: Iterable[str]) -> Iterator[Row]:
    """What an arm is now and was not at first; only the fields of `now` are looked at."""
    for name in sorted(now):
        before, after = first.get(name), now[name]
        if volatile(before, after) or not (known(before) or known(after)):
            continue
        if before is None or not (known(before) and known(after)):
            told = [text(value_of(name, field)) if field and known(field) else None for field in (before, after)]
            why = str((after if known(before) else before or {}).get("why") or "not observed at first")
            yield of_arm(name, "drift", NOT_COMPARABLE, told[0], told[1], arm, cell, why)
            continue
        both = value_of(name, before), value_of(name, after)
        replaced = other_versions(differences(name, *both))
        for found in differences(name, *both):
            by = accepted_by(found.name, accepted)
            word, why = (ALLOWED, by) if by else undeclared(found, replaced, _ONE_SYSTEM)
            yield of_arm(found.name, "drift", word, text(found.before), text(found.after), arm, cell, why)

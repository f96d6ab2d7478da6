"""A row of the gate of identity, and the words that stand in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from .derived import MEASURED, ends_with, is_derived, is_own, named
from .leaves import Difference, one_sided_library
from .records import Record

ALLOWED, FORBIDDEN, NOT_COMPARABLE = "allowed", "forbidden", "not comparable"
#: rows stand in this order
_WORDS = (FORBIDDEN, ALLOWED, NOT_COMPARABLE)
_CLASSES = ("expect", "must_match", "drift", "confounded", "treatment")

ONE_LIBRARY = "only one of the two had loaded it, or could be read, when it was looked at"
#: two starts of one system may find that much more or less memory free
MEASURED_WITHIN = 0.01
ALIKE_AS_MEASURED = f"measured by the engine at its start; alike within {MEASURED_WITHIN:.0%}"


@dataclass(frozen=True)
class Row:
    """A difference. `class_`: treatment, confounded, must_match, drift or expect; `word`: allowed, forbidden or not
    comparable; `expected`: what the card or the arm's first look says, `baseline` and `candidate`: what was seen, as
    text, None where nothing was; `arm` and `cell`: whose look it was, None between the arms."""

    field: str
    class_: str
    word: str
    expected: str | None
    baseline: str | None
    candidate: str | None
    arm: str | None
    cell: str | None
    why: str

    def as_json(self) -> Record:
        """The row as verdict.json has it."""
        found = asdict(self)
        return {"field": found.pop("field"), "class": found.pop("class_"), **found}


def of_arm(
    field: str, class_: str, word: str, expected: str | None, seen: str | None, arm: str, cell: str | None, why: str
) -> Row:
    """A row about one arm: what was seen stands under its own name (of the baseline's second run: the baseline's)."""
    candidate = arm == "candidate"
    return Row(field, class_, word, expected, None if candidate else seen, seen if candidate else None, arm, cell, why)


def accepted_by(name: str, accepted: Iterable[str]) -> str | None:
    """Why a difference is accepted, or None where no name of identity.confounded means it."""
    pattern = next((item for item in accepted if named(name, item)), None)
    return None if pattern is None else f"accepted under identity.confounded: {pattern}"


def measured_alike(found: Difference) -> bool:
    """A size that the engine measures when it starts, and that differs by no more than two starts of one system may."""
    if not any(ends_with(found.name, end) for end in MEASURED):
        return False
    try:
        before, after = float(found.before), float(found.after)
    except (TypeError, ValueError):
        return False
    return abs(before - after) <= MEASURED_WITHIN * max(abs(before), abs(after))


def undeclared(found: Difference, replaced: frozenset[str], forbidden: str) -> tuple[str, str]:
    """(word, why) of a difference that is neither declared nor accepted; `forbidden` says why it may not be. Libraries
    of which the other side has another version are `replaced`."""
    if one_sided_library(found) and found.name not in replaced:
        return NOT_COMPARABLE, ONE_LIBRARY
    if measured_alike(found):
        return ALLOWED, ALIKE_AS_MEASURED
    return FORBIDDEN, forbidden


def in_order(rows: Sequence[Row]) -> list[Row]:
    """The forbidden ones first; what the engine derives from another row's field comes after it."""
    ends = {row.field.rsplit(".", 1)[-1] for row in rows if row.word == FORBIDDEN}

    def follows(row: Row) -> bool:
        """Whether another row's field explains it."""
        return any(is_derived(row.field, end) and not is_own(row.field, end) for end in ends)

    return sorted(rows, key=lambda row: (_WORDS.index(row.word), _CLASSES.index(row.class_), follows(row)))

"""The gate of identity: two systems are compared only if they differ in what is declared, and each stays what it was.

Every observed difference between the arms is one of three: the declared treatment (with what the engine derives from
it), confounded (accepted on the card by name) or must_match, which is forbidden. Between the cells of an arm, and
between the baseline and its second run in A/A blocks, nothing may differ (drift); against what the card says of an
engine's own settings, nothing either. What only one side tells cannot be compared: a condition, and no reason to call a
run invalid.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .card import ARMS
from .derived import named
from .identity_drift import cells, second_run
from .identity_expect import expected
from .identity_rows import (
    ALLOWED,
    FORBIDDEN,
    NOT_COMPARABLE,
    Row,
    accepted_by,
    in_order,
    undeclared,
)
from .leaves import Difference, differences, known, leaves, other_versions, same, text, value_of, volatile
from .read import Bundle
from .records import Record
from .treatment import Treatment, resolved, treatment_of

#: what stands for a variable's value that is not recorded
_NOT_SHOWN = ("[redacted]", "[not recorded]")
#: (field, the baseline's value, the candidate's)
Both = list[tuple[str, Any, Any]]


def gate(bundle: Bundle) -> Record:
    """verdict.json's `identity`: the rows; how many values were compared between the arms; how many fields an arm does
    not tell; how many cells were looked at; the flags and variables that are declared to differ and that both
    engines have alike."""
    accepted = accepted_names(bundle.card)
    both, silent = _told_by_both(bundle), _not_told(bundle)
    rows = [
        *expected(bundle),
        *_between_arms(bundle, both, silent, accepted),
        *second_run(bundle, accepted),
        *cells(bundle, accepted),
    ]
    compared = sum(len({**dict(leaves(name, before)), **dict(leaves(name, after))}) for name, before, after in both)
    return {
        "rows": [row.as_json() for row in in_order(rows)],
        "compared": compared,
        "unknown": len(silent),
        "looks": len(bundle.cells_looked_at()),
        "not_arrived": [*_not_arrived(bundle, both), *_variables_not_arrived(bundle, both)],
    }


def forbidden(found: Record) -> list[Record]:
    """The rows by which a run is invalid."""
    return [row for row in found["rows"] if row["word"] == FORBIDDEN]


def accepted_names(card: Record) -> list[str]:
    """identity.confounded: the names of differences that the card accepts."""
    return [str(name) for name in (card.get("identity") or {}).get("confounded") or []]


def confounded(bundle: Bundle) -> list[str]:
    """The accepted names, less those in which the arms were observed to be the same, and stayed it."""
    names = accepted_names(bundle.card)
    if not names:
        return []
    told = [leaf for name, before, _ in _told_by_both(bundle) for leaf in leaves(name, before)]
    # a declared field is null where the card is silent
    alike = {name for name, value in told if value is not None}
    different = {row["field"] for row in gate(bundle)["rows"] if row["class"] != "expect"}

    def met(name: str, fields: set[str]) -> bool:
        """Whether the name stands for one of the fields."""
        return any(named(field, name) for field in fields)

    return [name for name in names if met(name, different) or not met(name, alike)]


def _told_by_both(bundle: Bundle) -> Both:
    """Every field that both arms tell and that may be compared."""
    before, after = (bundle.identity(arm) or {} for arm in ARMS)
    return [
        (name, value_of(name, before[name]), value_of(name, after[name]))
        for name in sorted({*before} & {*after})
        if known(before[name]) and known(after[name]) and not volatile(before[name], after[name])
    ]


def _not_told(bundle: Bundle) -> list[str]:
    """Fields that an arm which was looked at does not tell."""
    looked = [found for found in map(bundle.identity, ARMS) if found is not None]
    return [
        name
        for name in sorted({name for found in looked for name in found})
        if not volatile(*(found.get(name) for found in looked)) and not all(known(found.get(name)) for found in looked)
    ]


def _between_arms(bundle: Bundle, both: Both, silent: Sequence[str], accepted: Sequence[str]) -> Iterator[Row]:
    """Treatment, confounded or must_match; and what only one arm tells."""
    fields = [bundle.identity(arm) for arm in ARMS]
    if None in fields or bundle.card["kind"] != "ab":
        return
    treatment = treatment_of(bundle.card)
    for name, before, after in both:
        replaced = other_versions(differences(name, before, after))
        for found in differences(name, before, after):
            class_, word, why = _judge(found, treatment, accepted, replaced)
            yield Row(found.name, class_, word, None, text(found.before), text(found.after), None, None, why)
    for name in silent:
        told = [(found or {}).get(name) for found in fields]
        if any(known(field) for field in told):
            seen = [text(value_of(name, field)) if field and known(field) else None for field in told]
            why = next(str((field or {}).get("why") or "not observed") for field in told if not known(field))
            yield Row(name, "must_match", NOT_COMPARABLE, None, seen[0], seen[1], None, None, why)


def _judge(
    found: Difference, treatment: Treatment, accepted: Sequence[str], replaced: frozenset[str]
) -> tuple[str, str, str]:
    """(class, word, why) of a difference between the arms. What is accepted as confounded is confounded, also where it
    is part of the treatment: that never makes a verdict friendlier."""
    by = accepted_by(found.name, accepted)
    if by is not None:
        return "confounded", ALLOWED, by
    why = treatment.why(found.name)
    if why is not None:
        return "treatment", ALLOWED, why
    return "must_match", *undeclared(found, replaced, "neither declared nor accepted on the card")


def _not_arrived(bundle: Bundle, both: Both) -> list[Record]:
    """Flags that the arms declare differently and that both engines resolved to the same."""
    if bundle.card["kind"] != "ab":
        return []
    rows = []
    for flag, (before, after) in treatment_of(bundle.card).flags.items():
        told = [
            dict(leaf for name, *values in both for leaf in resolved(flag, leaves(name, values[side])))
            for side in (0, 1)
        ]
        if told[0] and same(told[0], told[1]):
            name, value = next(iter(told[0].items()))
            rows.append({"flag": flag, "baseline": before, "candidate": after, "field": name, "resolved": text(value)})
    return rows


def _variables_not_arrived(bundle: Bundle, both: Both) -> list[Record]:
    """Variables that the arms declare differently and that both servers' processes have alike. Of one that neither
    has, a script may have made something else."""
    told = [(before, after) for name, before, after in both if name == "process.env"]
    if bundle.card["kind"] != "ab" or not told or not all(isinstance(env, dict) for env in told[0]):
        return []
    rows = []
    for name, (before, after) in treatment_of(bundle.card).variables.items():
        seen = [env.get(name) for env in told[0]]
        # a secret is not recorded: that it was alike cannot be said
        if seen[0] is not None and same(seen[0], seen[1]) and seen[0] not in _NOT_SHOWN:
            field, value = f"process.env.{name}", text(seen[0])
            rows.append({"flag": name, "baseline": before, "candidate": after, "field": field, "resolved": value})
    return rows

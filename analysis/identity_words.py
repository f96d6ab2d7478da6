"""The gate of identity in words: why a run is invalid by it, and that a treatment did not arrive."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from .claim import LoadEffect
from .identity import forbidden
from .records import Record

#: a finding names this many fields
_NAMED = 3
#: a value longer than this is cut in a sentence
_LONGEST = 80

NO_WORD = "the run is invalid, since the arms are not the systems that the card declares"


def cut(value: str) -> str:
    """A value as it stands in a sentence."""
    return value if len(value) <= _LONGEST else f"{value[: _LONGEST - 1]}…"


def findings(found: Record) -> list[tuple[str, str, str]]:
    """(word, code, text) of what the gate says against the run."""
    return [("invalid", "identity", text) for text in forbidden_texts(forbidden(found))] + [
        ("no treatment", "treatment_not_arrived", _not_arrived(row)) for row in found["not_arrived"]
    ]


def forbidden_texts(rows: Sequence[Record]) -> list[str]:
    """One clause for each kind of forbidden difference, its first fields with both values."""
    kinds = (
        ("expect", "an engine is not what the card says", _expected),
        ("must_match", "the arms differ in more than the card declares or accepts", _between),
        ("drift", "an arm did not stay the system that it was at first", _drifted),
    )
    texts = []
    for class_, what, tell in kinds:
        told = list(dict.fromkeys(tell(row) for row in _once([row for row in rows if row["class"] == class_])))
        if told:
            more = [f"and {len(told) - _NAMED} more"] if len(told) > _NAMED else []
            texts.append(f"{what}: {'; '.join([*told[:_NAMED], *more])}")
    return texts


def _once(rows: Sequence[Record]) -> list[Record]:
    """Without the rows that say again what another one said: the same setting, told in two places."""
    found: dict[tuple[str | None, ...], Record] = {}
    for row in rows:
        seen = [None if value is None else value.lower() for value in (row["baseline"], row["candidate"])]
        found.setdefault((row["field"].rsplit(".", 1)[-1].replace("-", "_"), row["arm"], row["cell"], *seen), row)
    return list(found.values())


def _between(row: Record) -> str:
    return f"{row['field']} (baseline {cut(row['baseline'])}, candidate {cut(row['candidate'])})"


def _expected(row: Record) -> str:
    return f"{row['field']} of the {row['arm']} is {cut(_seen(row))} ({row['why']} = {cut(row['expected'])})"


def _drifted(row: Record) -> str:
    if row["cell"] is None:
        return f"{row['field']} (baseline {cut(row['expected'])}, its second run {cut(_seen(row))})"
    return f"{row['field']} of {row['arm']} (at first {cut(row['expected'])}, in {row['cell']} {cut(_seen(row))})"


def _seen(row: Record) -> str:
    return str(row["candidate"] if row["baseline"] is None else row["baseline"])


def _not_arrived(row: Record) -> str:
    declared = [f"{arm} {'the default' if row[arm] is None else row[arm]}" for arm in ("baseline", "candidate")]
    return (
        f"the treatment did not take effect as declared: {row['flag']} ({', '.join(declared)}), and both engines "
        f"resolved {row['field']} to {cut(row['resolved'])}"
    )


def effects_without_words(effects: Iterable[LoadEffect]) -> list[LoadEffect]:
    """The claim's effects of a run that the gate forbids: shown, without a word."""
    return [replace(e, word=None, reason=NO_WORD) if e.claimed else e for e in effects]


def guards_without_words(rows: Iterable[Record]) -> list[Record]:
    """The guards of such a run: indeterminate, with the reason."""
    return [{**row, "word": "indeterminate", "reason": NO_WORD} for row in rows]

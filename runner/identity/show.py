"""The identity of a run's arms as a table for people. Pure."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from .flat import Identities, differences, names_of, unknowns

#: a mapping of more entries than this is told by their number and a digest
_FEW = 12
_WIDE = 72


def identity_text(run: str, arms: Identities, cells: Sequence[Mapping[str, Any]] = ()) -> str:
    """Differences first, then the facts by group, then what is unknown and why."""
    lines = [f"identity of {run}: {', '.join(arms)}", ""]
    lines += _differences(arms)
    shown = [name for name in names_of(arms) if any(_known(fields.get(name)) for fields in arms.values())]
    for group in dict.fromkeys(name.partition(".")[0] for name in shown):
        rows = [row for name in shown if name.partition(".")[0] == group for row in _rows(name, arms)]
        lines += ["", group, *_table(rows)]
    lines += _cells(cells)
    missing = unknowns(arms)
    if missing:
        lines += ["", "unknown"]
        whole = len(arms)
        alike: dict[tuple[str, str], list[str]] = {}
        for row in missing:
            of = "" if len(row["arms"]) == whole else f" ({', '.join(row['arms'])})"
            alike.setdefault((of, row["why"]), []).append(row["field"])
        lines += [f"  {', '.join(names)}{of}: {why}" for (of, why), names in alike.items()]
    return "\n".join(lines)


def _known(field: Mapping[str, Any] | None) -> bool:
    return field is not None and field.get("source") != "unknown" and field.get("value") != {}


def _differences(arms: Identities) -> list[str]:
    if len(arms) < 2:
        return ["one arm: nothing to compare"]
    rows = differences(arms)
    if not rows:
        return ["the arms differ in nothing that is recorded"]
    table: list[tuple[str, ...]] = [("field", *arms)]
    for row in rows:
        values = [row["values"][arm] for arm in arms]
        words = _own_words(values) if all(_is_words(value) for value in values) else list(map(_short, values))
        table.append((row["field"], *words))
    return ["differences between the arms", *_table(table)]


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def _own_words(commands: list[list[str]]) -> list[str]:
    """Of each command the flags, with their values, that another one lacks."""
    parts = [_flags(command) for command in commands]
    own = [[part for part in mine if any(part not in others for others in parts)] for mine in parts]
    return [_short(" ".join(words) or "(other order)" if any(own) else "(other order)") for words in own]


def _flags(words: list[str]) -> list[str]:
    found: list[str] = []
    for word in words:
        if word.startswith("--") or not found:
            found.append(word)
        else:
            found[-1] += f" {word}"
    return found


def _rows(name: str, arms: Identities) -> list[tuple[str, ...]]:
    """A field as rows (name, value, source): what the arms have alike; of what differs, and is not told in one line
    above, a row an arm."""
    known = {arm: fields[name] for arm, fields in arms.items() if _known(fields.get(name))}
    values = [field["value"] for field in known.values()]
    first = next(iter(known.values()))
    if len(known) == len(arms) and all(value == values[0] for value in values):
        return _entries(name, first)
    if all(isinstance(value, Mapping) for value in values):
        alike = {key: value for key, value in values[0].items() if all(other.get(key) == value for other in values)}
        return _entries(name, {**first, "value": alike}) if alike and len(known) == len(arms) else []
    if first.get("volatile") or any(_is_words(value) for value in values):
        return [
            (f"{row[0]} ({arm})" if row[0] else "", *row[1:])
            for arm, field in known.items()
            for row in _entries(name, field)
        ]
    return []


def _entries(name: str, field: Mapping[str, Any]) -> list[tuple[str, ...]]:
    value, source = field["value"], str(field["source"]) + (", volatile" if field.get("volatile") else "")
    if isinstance(value, Mapping) and 0 < len(value) <= _FEW:
        return [(f"{name}.{key}", _short(inner), source) for key, inner in value.items()]
    if _is_words(value) and value:
        lines = enumerate(_wrapped(list(map(shlex.quote, value))))
        return [(name if number == 0 else "", line, source if number == 0 else "") for number, line in lines]
    return [(name, _short(value), source)]


def _wrapped(words: list[str]) -> list[str]:
    """Words in lines: a flag with its value is not torn apart where it can be helped."""
    lines = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + len(word) + 1 > _WIDE:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _short(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, str):
        return value if len(value) <= _WIDE else f"{value[: _WIDE - 1]}…"
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= _WIDE or not isinstance(value, Mapping | list):
        return text
    digest = hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]
    return f"{len(value)} entries, sha256 {digest}… of them (--json shows each)"


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _cells(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """In how many cells which fact was not as when the arm was first looked at."""
    if not cells:
        return []
    changed: dict[str, int] = {}
    for cell in cells:
        names = [name for name, field in cell.get("fields", {}).items() if not field.get("volatile")]
        for name in (*names, *cell.get("gone", ())):
            changed[name] = changed.get(name, 0) + 1
    lines = ["", "1 cell was looked at" if len(cells) == 1 else f"{len(cells)} cells were looked at"]
    if not changed:
        return [*lines, "  no fact was another than when its arm was first looked at"]
    return [*lines, *(f"  {name} was another in {count} of them" for name, count in sorted(changed.items()))]

"""A lint over a report's numbers: each must follow, by rounding alone, from the files that the report was made from.

A number in REPORT.md is accepted if a value of the JSON (or of series/) *of its section*, and in a table's row of its
load and arm, rounds to it at the digits shown, in the unit that stands behind it: % is 100·v or 100·(exp v − 1), ms
1000·v, and so on; a sign must be right. Lengths of lists count as values, and so do the sums of what was undefined.
Numbers in sentences (`sentence`, `because`, `next.text`) have no source of their own: they must follow from values.

Exempt, since they are no results: code spans and links; words with a letter and a digit (p50, b03-candidate-l2);
dates, digests and versions; the numbers of numbered lists; the constants of `CONSTANTS`, and the
values that a percentile needs (benchcard.schema.metrics).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

Json = Any

#: texts of the report's own that hold a number and no result
CONSTANTS = (
    "8 times in 10", "below 0.0001", "power 80%", "20 batch means", "1,000 blocks", "5-request",
    "half the window",
)  # fmt: skip
#: what the report takes from texts that are somebody's words: conditions, reasons, the card's prose
_PROSE = (
    "name",
    "value",
    "reason",
    "meaning",
    "advice",
    "undefined",
    "title",
    "question",
    "chain",
    "may_cost",
    "unknown",
    "text_of",
)
#: sentences that the analysis made: their numbers must follow from values
_MADE = ("sentence", "because", "next", "text", "population_reversals")
#: the files' keys behind each section; a section that is not named has all of them
SECTIONS: dict[str, tuple[str, ...]] = {
    "Effect against the threshold": ("effects", "claim"),
    "Guards": ("guards",),
    "Evidence that the treatment took effect": ("evidence",),
    "Goodput": ("summary", "objectives", "attribution", "goodput"),
    "Missed requests by cause": ("attribution",),
    "Blocks": ("blocks", "effects", "method"),
    "Latency distributions": ("latency", "attribution"),
    "Steady state": ("steady_state", "validity"),
    "Validity checks": ("validity",),
    "Conditions": ("conditions",),
}
#: not at the top, where only results stand
_DETAILS = ("metrics", "series", "cells")

_EXEMPT = (
    r"`[^`]*`", r"\]\([^)]*\)", r"\b\d{4}-\d\d-\d\d(?:[T ][\d:.]+Z?)?", r"\b\d+\.\d+\.\d+\S*", r"sha256:[0-9a-f]+",
    r"\b\d{8}T\d{6}Z?-\w+", r"^\d+\. ", r"\b[\w.-]*[A-Za-z_]-?\d[\w.-]*", r"\b\d+[A-Za-z_][\w-]*",
    r"(?:needs|fewer than) (?:64|130|219|662) (?:values|requests)", *(re.escape(text) for text in CONSTANTS),
)  # fmt: skip
_NUMBER = re.compile(r"([−+]?)(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d+))?")
_UNIT = re.compile(r"\s?(%|pt\b|ms\b|µs\b|min\b|h\b|days\b|s\b|[KMGT]iB\b)")
_CHAIN = re.compile(r"\s*(?:±|to|,|and|of|×)\s*(?=[−+]?\d)")
_FACTORS: dict[str, tuple[float, ...]] = {
    "%": (100.0,), "pt": (100.0, 1.0), "ms": (1e3,), "µs": (1e6,), "s": (1.0,), "min": (1 / 60,), "h": (1 / 3600,),
    "days": (1 / 86400,), "KiB": (2.0**-10,), "MiB": (2.0**-20,), "GiB": (2.0**-30,), "TiB": (2.0**-40,), "": (1.0,),
}  # fmt: skip


@dataclass(frozen=True)
class Token:
    """A number as it is shown, its unit, and the line that it stands in."""

    text: str
    value: float
    signed: bool
    decimals: int
    unit: str
    line: str


def tokens(line: str) -> Iterator[Token]:
    """The numbers of a line that claim something."""
    clean = line.replace("\\", "")
    for pattern in _EXEMPT:
        clean = re.sub(pattern, lambda found: " " * len(found.group()), clean)
    found = list(_NUMBER.finditer(clean))
    for index, match in enumerate(found):
        sign, whole, decimals = match.group(1), match.group(2).replace(",", ""), match.group(3) or ""
        number = float(f"{whole}.{decimals or 0}") * (-1 if sign == "−" else 1)
        yield Token(match.group(), number, bool(sign), len(decimals), _unit(clean, found, index), line)


def _unit(line: str, found: list[re.Match[str]], index: int) -> str:
    """The unit behind a number, or behind the last one of its chain ("98.3 ± 1.0%")."""
    end = found[index].end()
    unit = _UNIT.match(line, end)
    if unit:
        return unit.group(1)
    chain = _CHAIN.match(line, end)
    if chain and index + 1 < len(found) and found[index + 1].start() == chain.end():
        return _unit(line, found, index + 1)
    return ""


def values(document: Json, load: float | None = None, arm: str | None = None, skip: Iterable[str] = ()) -> set[float]:
    """Every number below a value, and every list's length; of rows with a load or an arm only those of this one."""
    out: set[float] = set()
    if isinstance(document, bool) or document is None or isinstance(document, str):
        return out
    if isinstance(document, int | float):
        return {float(document)}
    if isinstance(document, list):
        mine = [item for item in document if not isinstance(item, dict) or _is_of(item, load, arm)]
        out.add(float(len(document)))
        for item in mine:
            out |= values(item, load, arm, skip)
        return out
    if isinstance(document.get("stdev"), int | float) and document.get("mean"):
        # the noise floor of a baseline: two stdevs, also as a share of the mean
        out |= {2 * document["stdev"], 2 * document["stdev"] / document["mean"]}
    for key, item in document.items():
        if key not in skip or isinstance(item, dict):
            out |= values(item, load, arm, skip)
    return out


def _is_of(row: Json, load: float | None, arm: str | None) -> bool:
    at, of = row.get("load"), row.get("arm")
    return (load is None or at is None or at == load) and (arm is None or of is None or of == arm)


def prose(document: Json, key: str = "") -> str:
    """All texts that are somebody's words, in one string."""
    if isinstance(document, str):
        return f" {document} " if key in _PROSE else ""
    if isinstance(document, dict):
        own = " ".join(f" {name} " for name in document)
        return own + "".join(prose(item, name) for name, item in document.items() if name not in _MADE)
    if isinstance(document, list):
        return "".join(prose(item, key) for item in document)
    return f" {document} " if key in _PROSE else ""


def follows(token: Token, known: set[float], outward: bool = False) -> bool:
    """Whether one of the values rounds to the number as it is shown; outward: a bound, rounded away from the value."""
    half = (1.0 if outward else 0.5) * 10.0**-token.decimals * (1 + 1e-9) + 1e-12
    for value in known:
        shown = [factor * value for factor in _FACTORS[token.unit]]
        if token.unit == "%" and abs(value) < 20:
            shown.append(100 * math.expm1(value))
        for one in shown:
            if abs(one - token.value) <= half or (not token.signed and abs(abs(one) - token.value) <= half):
                return True
            if token.signed and abs(one) <= half and abs(token.value) <= half:
                return True
    return False


def lint(folder: Path) -> list[tuple[str, str]]:
    """(number, line) of every number in a bundle's REPORT.md that follows from nothing."""
    files = _files(folder)
    merged: dict[str, Json] = {}
    for document in files.values():
        merged |= {key: item if key not in merged else [merged[key], item] for key, item in document.items()}
    common = values({key: merged.get(key) for key in ("analysis", "workload", "objectives")}) | {1.0}
    found, section = [], ""
    for line in (folder / "REPORT.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
            continue
        found += _line(line, section, merged, common)
    return found


def _line(line: str, section: str, merged: dict[str, Json], common: set[float]) -> list[tuple[str, str]]:
    scope = {key: merged[key] for key in SECTIONS.get(section, tuple(merged)) if key in merged}
    row = re.match(r"\| ([\d,.]+) (?:req/s|concurrent) \|", line)
    load = float(row.group(1).replace(",", "")) if row else None
    arms = [arm for arm in ("baseline", "candidate") if f"| {arm} |" in line]
    known = values(scope, load, arms[0] if row and arms else None, () if section else _DETAILS)
    known |= common | _negative(scope) | _sums(scope)
    words = prose(scope)
    outward = "was not possible" in line
    return [
        (token.text, line)
        for token in tokens(line)
        if not follows(token, known, outward) and not _in(token.text, words)
    ]


def _in(text: str, words: str) -> bool:
    return re.search(rf"(?<![\d.,]){re.escape(text)}(?![\d]|[.,]\d)", words) is not None


def _negative(scope: Json) -> set[float]:
    """A fall is written as a positive amount on the card."""
    if isinstance(scope, list):
        return set().union(*map(_negative, scope)) if scope else set()
    if not isinstance(scope, dict):
        return set()
    own = {-float(scope["value"])} if "scale" in scope and isinstance(scope.get("value"), int | float) else set()
    return own.union(*map(_negative, scope.values()))


def _sums(scope: dict[str, Json]) -> set[float]:
    """What is counted over rows: undefined values by quantity and reason, rows that passed, time apart."""
    out: set[float] = set()
    sums: dict[tuple[str, str], float] = {}
    for row in scope.get("metrics") or []:
        for reason, count in row["undefined"].items():
            sums[row["metric"].split(".")[0], reason] = (
                max(sums.get((row["metric"].split(".")[0], reason), 0), 0) + count
            )
    out |= set(sums.values())
    for key, flag in (("validity", "passed"), ("blocks", "used")):
        rows = scope.get(key) or []
        flat = [item for part in rows for item in (part if isinstance(part, list) else [part])]
        out.add(float(sum(bool(item.get(flag)) for item in flat if isinstance(item, dict))))
    days = [datetime.fromisoformat(scope[day]["started"]) for day in ("day1", "day2") if day in scope]
    out |= {(days[1] - days[0]).total_seconds()} if len(days) == 2 else set()
    conditions = scope.get("conditions") or []
    out.add(float(sum(row["source"] == "unknown" for row in conditions)))
    return out


def _files(folder: Path) -> dict[str, dict[str, Json]]:
    """The documents behind a report: the result without what the analysis only says, the card, the plan, the series."""
    found: dict[str, dict[str, Json]] = {}
    for name in ("verdict.json", "inference_baseline.json", "card.resolved.json", "plan.json", "reproduction.json"):
        if (folder / name).is_file():
            found[name] = json.loads((folder / name).read_text(encoding="utf-8"))
    for path in sorted((folder / "series").glob("*.parquet")):
        found[path.stem] = {path.stem: pl.read_parquet(path).to_dicts()}
    return found

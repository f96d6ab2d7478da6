"""A lint over a report's numbers: each must follow, by rounding alone, from the files that the report was made from.

A number in REPORT.md is accepted if a value of the JSON (or of series/) *of its section*, in a table's row of its load,
arm, metric and block, and in some tables of its column's key, rounds to it at the digits shown, in a unit that its kind
may stand in: a difference of logs in % through 100·(exp v − 1), and as it is only where a column shows d; a share in %
as 100·v; a time in s, ms, µs; a count without a unit. A sign must be right. Lengths of lists count as values, and so do
the sums of what was undefined. "at 12 req/s" must be a load, "95% interval" the card's confidence. Numbers in sentences
(`sentence`, `because`, `next.text`) have no source of their own: they must follow from values.

Exempt, since they are no results: code spans and links; words with a letter and a digit (p50, b03-candidate-l2);
dates, digests and versions; the numbers of numbered lists; the constants of `CONSTANTS`, and the
values that a percentile needs (benchcard.schema.metrics).

How much it finds is measured in test_lint.py: one digit of a number changed at random. What it does not find is mostly
a digit of a small count, or of a number with few digits, that is another value of the same section.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
from benchcard.reports.numbers import metric_unit
from benchcard.schema.metrics import metric

Json = Any

#: section, headings of the table, load that "At … req/s:" names
Context = tuple[str, tuple[str, ...], float | None]

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
    "block_reason",
    "withheld",
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
    "Latency distributions": ("latency", "attribution", "objective_percentiles"),
    "Steady state": ("steady_state", "validity"),
    "Validity checks": ("validity",),
    "Conditions": ("conditions",),
    "All metrics": ("summary", "metrics", "attribution", "claim", "objectives"),
    "The sweep": ("sweep", "blocks"),
    "Noise floor": ("sweep",),
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
#: keys of effects, guards, A/A rows and days that hold a difference on the scale of d
_ON_D = (
    "d", "mean", "stdev", "interval", "threshold", "bound", "limit", "margin", "smallest_detectable",
    "sign_flip_interval", "bonferroni_interval", "difference",
)  # fmt: skip
_SHARES = (
    "share", "declared", "attainment", "within", "drift", "confidence", "level", "change", "change_bound", "agreement",
)  # fmt: skip
#: keys that are in the unit of their row
_OF_UNIT = ("value", "values", "baseline", "candidate", "observed", "difference", "interval", "goodput")
_COUNTS = (
    "blocks", "n", "attempted", "good", "load", "block", "blocks_needed", "extra_blocks", "requests", "t", "p", "df",
    "p_adjusted", "sign_flip_p", "p_equivalent", "of", "seed", "load_point",
)  # fmt: skip
_UNITS = {"s": "s", "1": "share", "bytes": "bytes"}
_SHOWN_AS = {
    "share": ("%", "pt"), "s": ("s", "ms", "µs", "min", "h", "days"), "bytes": ("KiB", "MiB", "GiB", "TiB", ""),
    "plain": ("",),
}  # fmt: skip
#: columns that show d itself
RAW = ("Mean d", "Stdev of d")
#: sections whose columns hold what these keys hold and nothing else
COLUMNS_IN = (
    "Missed requests by cause", "Blocks", "Repeats", "Effect against the threshold", "Guards", "Steady state",
    "The procedure against itself (A/A)",
)  # fmt: skip
#: keys that hold loads, and the columns and words before which only a load may stand
_LOADS = ("load", "loads", "at", "#load")
_AT = re.compile(
    r"(?:\b[Aa]t|\bdeclares|\bload) (?:load )?(?=[\d,.]+(?:,? (?:req/s|concurrent)| and [\d.]+ (?:req/s|concurrent)))"
)
_LEVEL = re.compile(r"(?=95% (?:t )?(?:interval|bound))")
COLUMNS: dict[str, tuple[str, ...]] = {
    "Attempted": ("attempted",), "Good": ("good",), "Missed: failed": ("success",), "Missed: TTFT": ("ttft",),
    "Missed: ITL": ("itl",), "Missed: output": ("output",), "Window": ("window_s",), "MSER-5 cut": ("mser_requests",
    "boundary"), "Requests a block": ("requests",), "Block": ("block",), "Repeat": ("block",),
    "Order (req/s)": _LOADS, "Order (concurrent)": _LOADS, "Load": _LOADS,
    "Effect": ("mean",), "95% interval": ("interval",), "Threshold": ("threshold",), "Baseline": ("baseline",),
    "Candidate": ("candidate",), "Difference (95% interval)": ("difference", "interval"),
    "Blocks, min to max": ("d",), "Blocks": ("blocks",), "Mean d": ("mean",), "Stdev of d": ("stdev",), "t": ("t",),
    "p": ("p",), "p (Holm)": ("p_adjusted",), "Sign-flip p": ("sign_flip_p",),
    "Sign-flip interval": ("sign_flip_interval",), "Smallest detectable": ("smallest_detectable",),
    "Interval for all loads (Bonferroni)": ("bonferroni_interval",), "Change": ("mean", "change"),
    "Bound": ("bound", "change_bound"), "Limit": ("limit",), "Drift": ("mean",),
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
    place: int


@dataclass(frozen=True)
class Place:
    """What a line is about; None is everything."""

    load: float | None = None
    arm: str | None = None
    metric: str | None = None
    skip: tuple[str, ...] = ()
    #: the block's place among those that are used
    used: int | None = None

    def has(self, row: Json) -> bool:
        """Whether a row of the JSON may be about this place."""
        return all(
            wanted is None or row.get(key) is None or row[key] == wanted
            for key, wanted in (("load", self.load), ("arm", self.arm), ("metric", self.metric))
        )


def tokens(line: str) -> Iterator[Token]:
    """The numbers of a line that claim something."""
    clean = line.replace("\\", "")
    for pattern in _EXEMPT:
        clean = re.sub(pattern, lambda found: " " * len(found.group()), clean)
    found = list(_NUMBER.finditer(clean))
    for index, match in enumerate(found):
        sign, whole, decimals = match.group(1), match.group(2).replace(",", ""), match.group(3) or ""
        number = float(f"{whole}.{decimals or 0}") * (-1 if sign == "−" else 1)
        yield Token(match.group(), number, bool(sign), len(decimals), _unit(clean, found, index), line, match.start())


def _unit(line: str, found: list[re.Match[str]], index: int) -> str:
    """The unit behind a number, or behind the last one of its chain ("98.3 ± 1.0%")."""
    end = found[index].end()
    unit = _UNIT.match(line, end)
    if unit:
        return unit.group(1)
    chain = _CHAIN.match(line, end)
    if chain and index + 1 < len(found) and found[index + 1].start() == chain.end():
        return _unit(line, found, index + 1)
    # the ends of an interval stand in the unit before it: "43.4 ms (40.9 to 46.0)"
    inside = re.match(r".*?([µm]?s) \([\d.,]+ to [\d.,]+\)", line[found[max(index - 2, 0)].start() :])
    before = line[: found[index].start()]
    return inside.group(1) if inside and re.search(r"[µm]?s \((?:[\d.,]+ to )?$", before) else ""


Fact = tuple[str, str, float]


def values(document: Json, at: Place = Place(), key: str = "", kind: str = "free") -> set[Fact]:
    """(key, kind, number) of every number below a value, and every list's length; of rows that name a load, an arm, a
    metric only those of this place."""
    if isinstance(document, bool) or document is None or isinstance(document, str):
        return set()
    if isinstance(document, int | float):
        return {(key, kind, float(document))}
    out: set[Fact] = set()
    if isinstance(document, list):
        out.add(("#" + key, "plain", float(len(document))))
        if key == "d" and at.used is not None:
            document = document[at.used : at.used + 1]
        if any(isinstance(item, dict) and "mser_at_boundary" in item for item in document):
            out.add(("boundary", "plain", float(sum(item["mser_at_boundary"] is True for item in document))))
        for item in document:
            if not isinstance(item, dict) or at.has(item):
                out |= values(item, at, key, kind)
        return out
    if isinstance(document.get("stdev"), int | float) and document.get("mean"):
        # the noise floor of a baseline: two stdevs, also as a share of the mean
        unit = _UNITS.get(document.get("unit") or "", "plain")
        out |= {("floor", unit, 2 * document["stdev"]), ("floor", "share", 2 * document["stdev"] / document["mean"])}
    for name, item in document.items():
        if name not in at.skip or isinstance(item, dict):
            out |= values(item, at, name, _kind(document, name, kind))
    return out


def _kind(row: Json, key: str, inherited: str) -> str:
    """What a number under a key of a row is: log (a difference of logs), share, s, bytes, points, or plain."""
    margin = row.get("margin")
    relative = isinstance(margin, dict) and margin.get("scale") == "relative"
    scale = row.get("scale") or ("log" if relative or ("margin" in row and "df" in row) or ("word" in row
                                 and "seed" not in row and "interval" in row and "metric" not in row
                                 and "within" not in row) else None)  # fmt: skip
    unit = row.get("unit") or metric_unit(str(row.get("metric") or ""))
    if key in ("value", "margin") and row.get("scale") in ("relative", "points") and "metric" not in row:
        return "share"
    if key in _ON_D and scale == "log" and "values" not in row:
        return "log"
    if key in _SHARES or ("within" in row and key in (*_ON_D, "within")) or ("drift" in row and key in _ON_D):
        return "share"
    if key.endswith(("_s", "seconds")) or key in ("at_most", "every"):
        return "s"
    if key in (*_OF_UNIT, *_ON_D):
        return _UNITS.get(unit, "plain") if unit else inherited
    if isinstance(row.get(key), dict | list):
        return "free" if inherited == "free" else inherited
    return "plain" if key in _COUNTS else inherited


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


def follows(token: Token, known: Iterable[Fact], outward: bool = False, raw: bool = False) -> bool:
    """Whether one of the values rounds to the number as it is shown; outward: a bound, rounded away from the value;
    raw: a difference of logs may stand as it is."""
    half = (1.0 if outward else 0.5) * 10.0**-token.decimals * (1 + 1e-9) + 1e-12
    for _, kind, value in known:
        for one in _shown(token, kind, value, raw):
            if abs(one - token.value) <= half or (not token.signed and abs(abs(one) - token.value) <= half):
                return True
            if token.signed and abs(one) <= half and abs(token.value) <= half:
                return True
    return False


def _shown(token: Token, kind: str, value: float, raw: bool) -> tuple[float, ...]:
    """The numbers that a value of a kind may stand as, in the token's unit; none where it has no such unit."""
    if kind == "log":
        if token.unit == "%":
            return (100 * math.expm1(value),) if value < 20 else ()
        return (value,) if raw and token.unit == "" else ()
    if kind != "free" and token.unit not in _SHOWN_AS[kind]:
        return ()
    return tuple(factor * value for factor in _FACTORS[token.unit])


def lint(folder: Path, text: str | None = None) -> list[tuple[str, str]]:
    """(number, line) of every number in a bundle's REPORT.md (or in a text instead of it) that follows from nothing."""
    return Lint(folder).faults(text if text is not None else (folder / "REPORT.md").read_text(encoding="utf-8"))


class Lint:
    """A bundle's files, read once, to hold texts against."""

    def __init__(self, folder: Path) -> None:
        self.merged: dict[str, Json] = {}
        for document in _files(folder).values():
            for key, item in document.items():
                self.merged[key] = item if key not in self.merged else [self.merged[key], item]
        self.common = values({key: self.merged.get(key) for key in ("analysis", "workload", "objectives")})
        self.common.add(("", "plain", 1.0))
        self.known: dict[tuple[str, Place], set[Fact]] = {}
        self.words: dict[str, str] = {}

    def faults(self, text: str) -> list[tuple[str, str]]:
        """The numbers of a report that follow from nothing, each with its line."""
        return [(token.text, line) for token, line, found in self.judged(text) if not found]

    def judged(self, text: str) -> Iterator[tuple[Token, str, bool]]:
        """Every number that claims something, its line, and whether it follows."""
        for line, context in self.lines(text):
            yield from self.of_line(line, context)

    @staticmethod
    def lines(text: str) -> Iterator[tuple[str, Context]]:
        """The lines that are held against the files, each with what it stands under."""
        section, headings, load = "", [""], None
        for line in text.splitlines():
            if line.startswith("## "):
                section, load = line.removeprefix("## "), None
                continue
            at = re.match(r"At ([\d,.]+) (?:req/s|concurrent):$", line)
            load = _number(at.group(1)) if at else load
            cells = re.split(r"(?<!\\)\|", line) if line.startswith("|") else []
            headings = headings if cells else [""]
            if cells and headings == [""]:
                headings = [cell.strip() for cell in cells]
            else:
                yield line, (section, tuple(headings), load)

    def of_line(self, line: str, context: Context) -> Iterator[tuple[Token, str, bool]]:
        """The numbers of one line."""
        section, headings, load = context
        cells = re.split(r"(?<!\\)\|", line) if line.startswith("|") else []
        place = _place(cells, section, load)
        if section == "Blocks" and len(cells) > 2 and cells[1].strip().isdigit():
            used = [block["block"] for block in self.merged["blocks"] if isinstance(block, dict) and block.get("used")]
            used = used or [block["block"] for block in self.merged["blocks"][0] if block.get("used")]
            number = int(cells[1])
            place = replace(place, used=used.index(number) if number in used else len(used))
        known = self._known(section, place)
        words = self.words[section]
        for part, heading in zip(cells or [line], headings, strict=True):
            keys = COLUMNS.get(heading) if section in COLUMNS_IN else None
            mine = known if keys is None else {fact for fact in known if fact[0] in keys}
            for token in tokens(part):
                here, words_count = mine, True
                if token.place in _starts(_AT, part):
                    here, words_count = {fact for fact in known if fact[0] in _LOADS}, False
                elif token.place in _starts(_LEVEL, part):
                    here, words_count = {fact for fact in known if fact[0] in ("confidence", "level")}, False
                raw = heading in RAW or (section == "Second day" and token.decimals >= 3)
                found = follows(token, here, "was not possible" in line, raw)
                yield token, line, found or (words_count and _in(token.text, words))

    def _known(self, section: str, place: Place) -> set[Fact]:
        if section not in self.words:
            self.words[section] = prose(self._scope(section))
        if (section, place) not in self.known:
            scope = self._scope(section)
            self.known[section, place] = values(scope, place) | self.common | _negative(scope) | _sums(scope)
        return self.known[section, place]

    def _scope(self, section: str) -> dict[str, Json]:
        return {key: self.merged[key] for key in SECTIONS.get(section, tuple(self.merged)) if key in self.merged}


def _starts(pattern: re.Pattern[str], line: str) -> set[int]:
    return {found.end() for found in pattern.finditer(line)}


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _place(cells: list[str], section: str, load: float | None) -> Place:
    """What a table's row is about: its load, arm, metric; outside tables everything but the details, at the top."""
    named = [cell.strip() for cell in cells]
    row = next((found for cell in named if (found := re.fullmatch(r"([\d,.]+) (?:req/s|concurrent)", cell))), None)
    load = _number(row.group(1)) if row else load if cells else None
    arm = next((cell for cell in named if cell in ("baseline", "candidate")), None) if row else None
    of = next((cell for cell in named if section == "All metrics" and metric(cell)), None)
    return Place(load, arm, of, () if section else _DETAILS)


def _in(text: str, words: str) -> bool:
    return re.search(rf"(?<![\d.,]){re.escape(text)}(?![\d]|[.,]\d)", words) is not None


def _negative(scope: Json) -> set[Fact]:
    """A fall is written as a positive amount on the card."""
    if isinstance(scope, list):
        return set().union(*map(_negative, scope)) if scope else set()
    if not isinstance(scope, dict):
        return set()
    own = (
        {("threshold", "share", -float(scope["value"]))}
        if "scale" in scope and isinstance(scope.get("value"), int | float)
        else set()
    )
    return own.union(*map(_negative, scope.values()))


def _sums(scope: dict[str, Json]) -> set[Fact]:
    """What is counted over rows: undefined values by quantity and reason, rows that passed, time apart."""
    out: set[float] = set()
    # the statistics of one quantity leave out the same values of a cell
    undefined: dict[tuple[str, str, str], float] = {}
    for row in scope.get("metrics") or []:
        for reason, count in row["undefined"].items():
            undefined[row["metric"].split(".")[0], reason, row["cell"]] = count
    sums: dict[tuple[str, str], float] = {}
    for (quantity, reason, _), count in undefined.items():
        sums[quantity, reason] = sums.get((quantity, reason), 0) + count
    out |= set(sums.values())
    for key, flag in (("validity", "passed"), ("blocks", "used")):
        rows = scope.get(key) or []
        flat = [item for part in rows for item in (part if isinstance(part, list) else [part])]
        out.add(float(sum(bool(item.get(flag)) for item in flat if isinstance(item, dict))))
    days = [datetime.fromisoformat(scope[day]["started"]) for day in ("day1", "day2") if day in scope]
    apart = {("apart", "s", (days[1] - days[0]).total_seconds())} if len(days) == 2 else set()
    conditions = scope.get("conditions") or []
    out.add(float(sum(row["source"] == "unknown" for row in conditions)))
    return {("sum", "plain", value) for value in out} | apart


def _files(folder: Path) -> dict[str, dict[str, Json]]:
    """The documents behind a report: the result without what the analysis only says, the card, the plan, the series."""
    found: dict[str, dict[str, Json]] = {}
    for name in ("verdict.json", "inference_baseline.json", "card.resolved.json", "plan.json", "reproduction.json"):
        if (folder / name).is_file():
            found[name] = json.loads((folder / name).read_text(encoding="utf-8"))
    for path in sorted((folder / "series").glob("*.parquet")):
        found[path.stem] = {path.stem: pl.read_parquet(path).to_dicts()}
    return found

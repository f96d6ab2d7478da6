"""A bundle's files -> one Bundle in memory. Only reads; refuses what is missing, damaged or newer than this program.

A bundle may come from anybody. Control characters and direction overrides, which could make a report read otherwise
than it is written, are replaced in every text when it is read; markup is escaped where it is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from benchcard.schema.errors import BundleError
from benchcard.schema.versions import BASELINE_VERSION, VERDICT_VERSION, require_version

Json = dict[str, Any]

# C0 and C1 controls (but not tab and newline), and the characters that override the direction of text
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")

#: log lines that a reader of the report must know about
NOTABLE = (
    "run_resumed", "server_died", "cell_failed", "cell_killed", "block_replaced", "block_lost", "identity_refused",
    "swapped", "aa_placed", "aa_cleared",
)  # fmt: skip


@dataclass(frozen=True)
class Bundle:
    """What a report is written from. `result` is verdict.json (ab) or inference_baseline.json (baseline)."""

    kind: str
    result: Json
    card: Json
    plan: Json
    log: tuple[Json, ...] = ()
    reproduction: Json | None = None
    series: dict[str, list[Json]] = field(default_factory=dict)

    @cached_property
    def load_unit(self) -> str:
        """ "req/s" where the card's loads are rates, "concurrent" where they are concurrencies."""
        kind = self.card.get("workload", {}).get("load_kind", "rate")
        return "concurrent" if kind == "concurrency" else "req/s"

    @cached_property
    def arms(self) -> list[str]:
        """The card's arms, baseline first."""
        return sorted(self.card.get("arms") or {"baseline": {}}, key=lambda arm: (arm != "baseline", arm))

    @cached_property
    def objectives(self) -> Mapping[str, Any]:
        """The card's objectives; empty where it has none."""
        found = self.card.get("objectives")
        return found if isinstance(found, dict) else {}

    @cached_property
    def own_objectives(self) -> dict[str, Mapping[str, Any]]:
        """The objectives of the populations that have some of their own, by name."""
        populations = self.card.get("workload", {}).get("populations") or {}
        return {name: own["objectives"] for name, own in populations.items() if own.get("objectives")}

    @cached_property
    def judged(self) -> bool:
        """Whether every attempt has objectives, the card's or its population's."""
        populations = self.card.get("workload", {}).get("populations") or {}
        return bool(self.objectives) or (bool(populations) and len(self.own_objectives) == len(populations))

    @cached_property
    def confidence(self) -> str:
        """The confidence of the intervals, in percent: "95%"."""
        return f"{float(self.card.get('analysis', {}).get('confidence', 0.95)) * 100:g}%"


def clean(value: Any) -> Any:
    """The JSON value with every unsafe character in its texts and keys replaced by U+FFFD."""
    if isinstance(value, str):
        return _UNSAFE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_UNSAFE.sub("\ufffd", str(key)): clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [clean(item) for item in value]
    return value


def _read_json(path: Path, required: bool = True) -> Json | None:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if required:
            raise BundleError(f"{path}: not found; a report needs it") from None
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise BundleError(f"{path}: cannot be read: {error}") from None
    try:
        found = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise BundleError(f"{path}: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise BundleError(f"{path}: found {type(found).__name__}; wanted a JSON object")
    cleaned: Json = clean(found)
    return cleaned


def _read_log(path: Path) -> tuple[Json, ...]:
    """The notable lines of the attempt log; a torn last line (the run was killed) is left out."""
    if not path.exists():
        return ()
    lines = []
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue
        if isinstance(line, dict) and line.get("kind") in NOTABLE:
            lines.append(clean(line))
    return tuple(lines)


def _read_series(path: Path) -> list[Json]:
    """The rows of a Parquet table; none where the analysis wrote none."""
    if not path.exists():
        return []
    import polars

    try:
        rows: list[Json] = polars.read_parquet(path).to_dicts()
    except (OSError, polars.exceptions.PolarsError) as error:
        raise BundleError(f"{path}: not a Parquet table: {error}") from None
    return [clean(row) for row in rows]


def read_bundle(folder: Path) -> Bundle:
    """What a report of the bundle in `folder` needs. Raises BundleError (missing, damaged) or InputError (newer)."""
    if not folder.is_dir():
        raise BundleError(f"{folder}: not a folder; wanted a run's bundle")
    ab, baseline = folder / "verdict.json", folder / "inference_baseline.json"
    if ab.exists():
        kind, path, key, version = "ab", ab, "verdict_version", VERDICT_VERSION
    elif baseline.exists():
        kind, path, key, version = "baseline", baseline, "baseline_version", BASELINE_VERSION
    else:
        raise BundleError(f"{folder}: found neither verdict.json nor inference_baseline.json; the analysis writes them")
    result = _read_json(path) or {}
    require_version(str(path), result.get(key), version)
    names = ("goodput", "latency", "steady", "populations")
    return Bundle(
        kind=kind,
        result=result,
        card=_read_json(folder / "card.resolved.json") or {},
        plan=_read_json(folder / "plan.json", required=False) or {},
        log=_read_log(folder / "attempts.jsonl"),
        reproduction=_read_json(folder / "reproduction.json", required=False),
        series={name: _read_series(folder / "series" / f"{name}.parquet") for name in names},
    )

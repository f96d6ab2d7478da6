"""Bundles in which something is missing: each has a word and a reason, is plain JSON, and the report says why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchcard.reports.render import render

from .bundles import SECOND, Cell, Row, ab_card, analyse, build, event

_KEPT = (
    "cell", "block", "arm", "load_point", "load", "phase", "prompt_digest", "queued", "sent", "asked_input_tokens",
    "asked_output_tokens",
)  # fmt: skip
NO_RATIO = "zero in some block, so no log ratio: d = candidate − the threshold's multiple of the baseline"


def good(block: int, arm: str, _: int) -> float:
    """Attainment of about .5 in the baseline and .8 in the candidate."""
    return 0.5 + (block * 5 % 7 - 3) / 100 if arm == "baseline" else 0.8 + (block * 3 % 5 - 2) / 100


def none_good_in_block_2(block: int, arm: str, load_point: int) -> float:
    return 0.0 if (block, arm) == (2, "candidate") else good(block, arm, load_point)


def _failed(row: Row) -> Row:
    if row["phase"] != "measure":
        return row
    return event(row["index"], scheduled=row["scheduled"]) | {key: row[key] for key in _KEPT}


def one_cell_failed(cell: Cell, rows: list[Row]) -> list[Row]:
    here = (cell.block, cell.arm, cell.load_point) == (3, "candidate", 2)
    return [_failed(row) for row in rows] if here else rows


def candidate_failed(cell: Cell, rows: list[Row]) -> list[Row]:
    return [_failed(row) for row in rows] if cell.arm == "candidate" else rows


def late(_: Cell, row: Row) -> Row:
    return row | {"loop_lag_p99": SECOND}


#: what is built; the verdict; the claimed effect's (word, scale, reason); each guard's (word, reason)
Case = tuple[dict[str, Any], str, tuple[str | None, str, str | None], list[tuple[str, str | None]]]
_FEW = "1 block; a guard needs 5"
_NO_TPOT = ", ".join(f"block {n} (candidate)" for n in (1, 2, 3, 4)) + " and 4 more"
CASES: dict[str, Case] = {
    "a percentile is missing in one block": (
        {"card": ab_card(claim__metric="ttft.p50", claim__direction="must_fall_by"), "rows": one_cell_failed},
        "inconclusive",
        ("inconclusive", "log", "undefined in block 3 (candidate)"),
        [("indeterminate", "undefined in block 3 (candidate)"), ("indeterminate", None)],
    ),
    "one block only": (
        {"card": ab_card(method__blocks=1, method__spare_blocks=0)},
        "inconclusive",
        ("inconclusive", "log", "1 block; a word needs 6"),
        [("indeterminate", _FEW), ("indeterminate", _FEW)],
    ),
    "no good request in a block": (
        {"good": none_good_in_block_2},
        "inconclusive",
        ("inconclusive", "scaled", NO_RATIO),
        [("pass", None), ("pass", None)],
    ),
    "everything failed in one arm": (
        {"rows": candidate_failed},
        "falsified",
        ("falsified", "scaled", NO_RATIO),
        [("indeterminate", f"undefined in {_NO_TPOT}"), ("regressed", None)],
    ),
    "no valid block": (
        {"client": late},
        "invalid",
        (None, "log", "the run is invalid"),
        [("indeterminate", "no valid block"), ("indeterminate", "no valid block")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_missing_is_said(name: str, tmp_path: Path) -> None:
    build_with, word, effect, guards = CASES[name]
    verdict = analyse(build(tmp_path, **{"good": good, **build_with}))
    json.dumps(verdict, allow_nan=False)
    assert verdict["verdict"] == word
    (claimed,) = [row for row in verdict["effects"] if row["claimed"]]
    assert (claimed["word"], claimed["scale"], claimed["reason"]) == effect
    assert [(row["word"], row["reason"]) for row in verdict["guards"]] == guards
    for row in [*verdict["effects"], *verdict["guards"]]:
        assert row["mean"] is not None or row["reason"], row
    for row in verdict["summary"]:
        assert row["mean"] is not None or row["reason"], row

    markdown, _ = render(tmp_path)
    text = markdown.read_text(encoding="utf-8")
    for reason in {effect[2], *[reason for _, reason in guards]} - {None}:
        # of a scaled effect the report says the same in its own words
        shown = "candidate − the threshold's multiple of the baseline" if reason == NO_RATIO else str(reason)
        assert shown in text
    assert verdict["sentence"].replace("_", r"\_") in text or verdict["sentence"] in text


def test_failures_stay_in_the_denominator(tmp_path: Path) -> None:
    """50 and 100 counted attempts a cell (10 and 20 req/s over 5 s), all failed: goodput 0, error rate 1, in 8
    blocks."""
    verdict = analyse(build(tmp_path, good=good, rows=candidate_failed))
    # of distances below, the nearer comes first
    assert "below 1.05 × the baseline's (95% interval 10.2 req/s to 10.9 req/s;" in verdict["sentence"]
    rows = {(row["metric"], row["arm"], row["load"]): row for row in verdict["summary"]}
    for load in (10.0, 20.0):
        assert rows["goodput", "candidate", load]["values"] == [0.0] * 8
        assert rows["error_rate", "candidate", load]["values"] == [1.0] * 8
        assert rows["ttft.p50", "candidate", load]["mean"] is None
    attempted = {(row["arm"], row["load"]): (row["attempted"], row["good"]) for row in verdict["attribution"]}
    assert attempted["candidate", 10.0] == (400, 0)
    assert attempted["candidate", 20.0] == (800, 0)

"""A claim is not supported by failing the slow requests, nor by returning less than was asked for."""

from __future__ import annotations

from pathlib import Path

from benchcard.analysis.goodput import judge
from benchcard.analysis.quantities import quantities

from .bundles import EVENT_COLUMNS, Cell, Row, ab_card, analyse, build, event, frame
from .test_verdict import codes, gain

LATENCY = {
    "metric": "ttft.mean",
    "direction": "must_fall_by",
    "threshold": {"value": 0.05, "scale": "relative"},
    "scope": "loads",
    "at": [20.0],
}


def failing(cell: Cell, rows: list[Row]) -> list[Row]:
    """The candidate answers each fifth request with an error."""
    if cell.arm == "candidate":
        for row in rows[::5]:
            row |= {"outcome": "http_error", "status": 503, "finish_reason": None}
    return rows


def short(cell: Cell, rows: list[Row]) -> list[Row]:
    """The candidate stops two tokens early."""
    if cell.arm == "candidate":
        for row in rows:
            row["asked_output_tokens"] = row["output_tokens"] + 2
    else:
        for row in rows:
            row["asked_output_tokens"] = row["output_tokens"]
    return rows


def equal(cell: Cell, rows: list[Row]) -> list[Row]:
    for row in rows:
        row["asked_output_tokens"] = row["output_tokens"]
    return rows


def test_failing_more_supports_no_latency(tmp_path: Path) -> None:
    card = ab_card(claim=LATENCY, guards=[])
    honest = analyse(build(tmp_path / "honest", card, good=gain(1.0, 1.34), rows=equal))
    assert honest["verdict"] == "supported"
    verdict = analyse(build(tmp_path / "failing", card, good=gain(1.0, 1.34), rows=failing))
    assert verdict["verdict"] == "inconclusive"
    assert codes(verdict)[0] == "failures_differ"
    assert "no guard on error_rate watches the rest" in verdict["sentence"]


def test_returning_less_supports_nothing(tmp_path: Path) -> None:
    verdict = analyse(build(tmp_path, good=gain(1.0, 1.34), rows=short))
    assert verdict["verdict"] == "inconclusive"
    assert codes(verdict)[0] == "unequal_work"
    assert "100.0% of the candidate's attempts and 0.0% of the baseline's" in verdict["sentence"]


def test_gaps_that_nobody_saw_meet_no_objective() -> None:
    """Fifty tokens in one chunk after 30 s: no gap to see, and so no objective on gaps met. One token has none."""
    late = 30 * 10**9
    seen: Row = {
        "outcome": "ok", "finish_reason": "length", "first_token": late, "last_token": late, "end": late,
        "chunk_times": [late], "chunk_tokens": [1],
    }  # fmt: skip
    attempts = frame(EVENT_COLUMNS, [event(0, **seen, output_tokens=50), event(1, **seen, output_tokens=1)])
    for cause, objective in (("itl", {"every": 0.15}), ("icl", {"every": 0.15}), ("tpot", {"at_most": 0.15})):
        found = judge(attempts, quantities(attempts), {"success": True, cause: objective})
        assert (found.missed[cause], found.good) == (1, 1), cause


def test_a_window_moved_after_the_run_is_not_the_planned_one(tmp_path: Path) -> None:
    def longer(cell: Cell, row: Row) -> Row:
        return {**row, "window_end": row["window_end"] + 10**9} if cell.block == 2 else row

    verdict = analyse(build(tmp_path, good=gain(1.0, 1.34), client=longer, skip=lambda cell: False))
    (check,) = [check for check in verdict["validity"] if check["name"] == "window"]
    assert {name[:3] for name in check["where"]} == {"b02"}
    assert [block["used"] for block in verdict["blocks"]] == [True, False, *[True] * 7, False]

"""Cold starts: metrics by hand, the check of the start's record, and what the verdict says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchcard.analysis.cells import Reading, read_cells
from benchcard.analysis.metrics import METRICS, START_METRICS, Measured, Value, measure
from benchcard.analysis.quantities import quantities
from benchcard.analysis.read import read_bundle
from benchcard.analysis.records import BundleError
from benchcard.analysis.start import SETTLED_REPLIES, Started, facts
from benchcard.analysis.window import Window
from benchcard.schema import metrics as catalogue
from benchcard.schema.event import EVENT_COLUMNS

from .bundles import MS, SECOND, Cell, Row, ab_card, analyse, baseline_card, build, event, frame, reply

#: launched at 1 s, ready at 3.5 s; the window is [4 s, 8 s)
START = {"cell": "b01-baseline-l1", "launched": SECOND, "looked": 3490 * MS, "ready": 3500 * MS}
WINDOW = Window(4 * SECOND, 8 * SECOND)


def values(rows: list[Row], start: Row | None = START, window: Window | None = WINDOW) -> dict[str, Value]:
    attempts = frame(EVENT_COLUMNS, rows)
    found = quantities(attempts)
    cold = facts(start, attempts, window)
    return measure(Measured(attempts.height, int(found.ok.sum()), None, 0, 4.0, found, cold))


def at(index: int, seconds: float, ttft_ms: float, **changes: Any) -> Row:
    return reply(index, [ttft_ms, ttft_ms + 20], scheduled=round(seconds * SECOND), **changes)


def settled(ttfts_ms: list[float]) -> list[Row]:
    """One request every 100 ms from the middle of the window on."""
    return [at(10 + i, 6 + i / 10, ttft) for i, ttft in enumerate(ttfts_ms)]


def test_the_start_and_the_first_request() -> None:
    # out of order in the file: the first by schedule is index 0, though index 1 got its token earlier
    found = values([at(1, 4.2, 900), at(0, 4.1, 1200), *settled([50, 70, 40, 60, 80])])
    assert found["start.ready"] == Value(2.5, 1)
    # 2.5 s until ready, then from the first schedule at 4.1 s to the first token, of index 1, at 5.1 s
    assert found["start.first_token"] == Value(3.5, 1)
    assert found["first.ttft"] == Value(1.2, 1)
    # the median of 40, 50, 60, 70, 80 ms is 60 ms
    assert found["first.slowdown"] == Value(pytest.approx(20.0), 6)


def test_requests_at_one_time_are_told_apart_by_their_index() -> None:
    assert values([at(1, 4.0, 100), at(0, 4.0, 300)])["first.ttft"].value == 0.3


def test_a_first_request_that_failed_is_no_fast_one() -> None:
    failed = event(0, scheduled=4 * SECOND, outcome="http_error", status=503)
    found = values([failed, at(1, 5.0, 100), *settled([50] * 5)])
    for name in ("first.ttft", "first.slowdown"):
        assert found[name] == Value(None, 0, {"the first request failed: http_error": 1})
    # its user waited from 4 s to 5.1 s
    assert found["start.first_token"].value == pytest.approx(3.6)


def test_where_nothing_was_answered_there_is_no_first_token() -> None:
    failed = [event(i, scheduled=4 * SECOND, outcome="connect_error") for i in range(3)]
    found = values(failed)
    assert found["start.first_token"] == Value(None, 0, {"no request was answered": 3})
    assert found["start.ready"].value == 2.5


def test_a_reply_that_was_not_streamed() -> None:
    row = at(0, 4.0, 100) | {"streamed": False, "first_token": None, "first_answer_token": None}
    found = values([row])
    assert found["first.ttft"] == Value(None, 0, {"not streamed": 1})
    assert found["start.first_token"] == Value(None, 0, {"no time of a first token": 1})


def test_an_empty_window() -> None:
    found = values([])
    assert found["first.ttft"] == found["start.first_token"] == Value(None, 0, {"no attempts in the window": 0})


def test_too_few_replies_in_the_second_half() -> None:
    # four in the second half; the one at 5.9 s is in the first, and one that failed is none
    failed = event(20, scheduled=7 * SECOND, outcome="http_error")
    found = values([at(0, 4.0, 500), at(1, 5.9, 50), *settled([50] * 4), failed])
    reason = "fewer than 5 replies in the second half of the window"
    assert found["first.slowdown"] == Value(None, 0, {reason: 1})
    assert values([at(0, 4.0, 500)], window=None)["first.slowdown"].undefined == {"no measured window": 1}


def test_a_card_needs_a_window_that_can_hold_them() -> None:
    assert catalogue.SLOWDOWN_NEEDS == 2 * SETTLED_REPLIES


def test_without_a_record_of_the_start() -> None:
    found = values([at(0, 4.0, 500)], start=None)
    nothing = Value(None, 0, {"no record of the server's start": 1})
    assert found["start.ready"] == found["start.first_token"] == nothing
    assert found["first.ttft"].value == 0.5


def test_a_warm_server_has_none_of_them() -> None:
    attempts = frame(EVENT_COLUMNS, [at(0, 4.0, 500)])
    assert set(measure(Measured(1, 1, None, 0, 4.0, quantities(attempts)))) == set(METRICS)


def test_how_long_a_server_was_idle() -> None:
    attempts = frame(EVENT_COLUMNS, [at(0, 4.25, 100)])
    assert facts(START, attempts, WINDOW).started == Started(START, 0.75)
    assert facts(None, attempts, WINDOW).started == Started(None, None)
    assert facts(START, attempts.clear(), WINDOW).started == Started(START, None)


CLAIM = {
    "metric": "start.ready", "direction": "must_fall_by", "threshold": {"value": 0.2, "scale": "relative"},
    "scope": "loads", "at": [20.0],
}  # fmt: skip
COLD = {
    "workload__test": "cold_start",
    "workload__window": {"warmup": {"seconds": 0.0}, "measure": {"seconds": 5.0}, "drain": 2.0},
    "claim": CLAIM,
    "guards": [],
    "evidence": [],
}


def cold_card(**changes: Any) -> Row:
    return ab_card(**{**COLD, **changes})


def faster(cell: Cell, row: Row) -> Row:
    """The candidate is launched 1 s later and ready at the same time: 1 s instead of 2 s."""
    wobble = cell.block * MS
    return row | {"launched": row["launched"] + (SECOND if cell.arm == "candidate" else 0) - wobble}


def test_the_verdict_is_about_the_start_and_says_so(tmp_path: Path) -> None:
    found = analyse(build(tmp_path, cold_card(), start=faster), apart=True)
    assert found["verdict"] == "supported"
    assert found["sentence"].startswith("At a cold start of atlas-70b with")
    assert "lowered start.ready by 50%" in found["sentence"]
    said = {row["name"]: row["value"] for row in found["conditions"]}
    assert said["test"] == (
        "cold start: servers were started for each cell; nothing was warmed; this says nothing about serving in steady "
        "state"
    )
    # ready 1 s before the load; the first request of 20/s at 25 ms, of 10/s at 50 ms
    assert said["server starts"] == (
        "ready is known to within 10 ms; until its first request a server was idle for 1.02 to 1.05 s, which "
        "start.first_token leaves out"
    )
    (left,) = [row for row in found["conditions"] if row["name"] == "caches on disk"]
    assert left["source"] == "unknown"
    assert len(found["summary"]) == 4 * (len(METRICS) + len(START_METRICS))
    candidate = [
        row["values"][0]
        for row in found["summary"]
        if (row["arm"], row["load_point"], row["metric"]) == ("candidate", 2, "start.ready")
    ]
    assert candidate == [1.001]


def test_a_card_of_warm_servers_is_told_nothing_of_starts(tmp_path: Path) -> None:
    found = analyse(build(tmp_path))
    assert found["sentence"].startswith("On atlas-70b with")
    assert not {"test", "server starts"} & {row["name"] for row in found["conditions"]}
    assert "server_start" not in {row["name"] for row in found["validity"]}
    assert {row["metric"] for row in found["summary"]} == set(METRICS)


BROKEN = "b01-candidate-l2"


def one_cell(change: Row | None) -> Any:
    def start(cell: Cell, row: Row) -> Row | None:
        if cell.cell != BROKEN:
            return row
        return None if change is None else row | change

    return start


def failures(tmp_path: Path, change: Row | None) -> tuple[Reading, list[str]]:
    reading = read_cells(read_bundle(build(tmp_path, cold_card(), start=one_cell(change))))
    (broken,) = [cell for block in reading.blocks for cell in block.cells if cell and cell.cell.cell == BROKEN]
    others = [cell for block in reading.blocks for cell in block.cells if cell and cell.cell.cell != BROKEN]
    assert not any(cell.failed_checks for cell in others)
    return reading, broken.failed_checks


@pytest.mark.parametrize(
    "change",
    [
        None,
        {"cell": "b02-candidate-l2"},
        {"launched": 10**18},
        {"looked": 0},
        {"ready": 10**18},
    ],
    ids=["no file", "of another cell", "launched later", "looked before", "ready after the load"],
)
def test_a_start_that_cannot_be_believed_makes_its_cell_invalid(tmp_path: Path, change: Row | None) -> None:
    reading, failed = failures(tmp_path, change)
    assert failed == ["server_start"]
    assert reading.blocks[0].cause == f"{BROKEN} failed server_start"


def test_a_start_without_a_time_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no time in ready"):
        failures(tmp_path, {"ready": None})


def test_a_claim_about_starts_on_a_card_of_warm_servers_is_refused(tmp_path: Path) -> None:
    root = build(tmp_path, ab_card(claim=CLAIM, guards=[], evidence=[]))
    from benchcard.analysis.verdict import verdict

    with pytest.raises(BundleError, match=r"no formula for metric 'start\.ready'"):
        verdict(read_cells(read_bundle(root)))


def test_an_unknown_test_is_refused(tmp_path: Path) -> None:
    root = build(tmp_path, ab_card(workload__test="lukewarm"))
    with pytest.raises(BundleError, match=r"workload\.test is 'lukewarm'; wanted serving or cold_start"):
        read_bundle(root)


def test_a_baseline_of_cold_starts(tmp_path: Path) -> None:
    found = analyse(build(tmp_path, baseline_card(workload__test="cold_start")))
    assert found["valid"]
    ready = [row["mean"] for row in found["summary"] if row["metric"] == "start.ready"]
    assert ready == [2.0, 2.0]

"""The validity checks: each fails for its own fault, and for no other cell."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchcard.analysis.cells import Reading, read_cells
from benchcard.analysis.checks import CHECKS
from benchcard.analysis.instrument import busiest_rate
from benchcard.analysis.read import read_bundle
from benchcard.analysis.records import BundleError
from benchcard.analysis.validity import validity_rows
from benchcard.runner.instrument import point as point_module

from .bundles import MS, SECOND, Cell, Row, ab_card, baseline_card, build, point

BROKEN = "b01-baseline-l2"
Rows = Callable[[list[Row]], list[Row]]


def one_block(**changes: Any) -> Row:
    return ab_card(method__blocks=1, method__spare_blocks=0, **changes)


def read(bundle: Path) -> Reading:
    return read_cells(read_bundle(bundle))


def failures(reading: Reading) -> dict[str, list[str]]:
    return {cell.cell: [r.check.name for r in results if not r.passed] for cell, results in reading.checked()}


def observed(reading: Reading, check: str, cell: str = BROKEN) -> tuple[float | None, str | None]:
    (result,) = [r for c, rs in reading.checked() if c.cell == cell for r in rs if r.check.name == check]
    return result.observed, result.reason


def with_rows(tmp_path: Path, change: Rows, card: Row | None = None) -> Reading:
    return read(
        build(
            tmp_path, card or one_block(), rows=lambda cell, events: change(events) if cell.cell == BROKEN else events
        )
    )


def with_client(tmp_path: Path, **changes: Any) -> Reading:
    def client(cell: Cell, row: Row) -> Row:
        return row | changes if cell.cell == BROKEN else row

    return read(build(tmp_path, one_block(), client=client))


def each(change: Callable[[Row], Row]) -> Rows:
    return lambda events: [change(row) for row in events]


def counted(change: Callable[[Row], Row], first: int) -> Rows:
    """Change the first so many counted attempts."""

    def rows(events: list[Row]) -> list[Row]:
        names = [row["index"] for row in events if row["phase"] == "measure"][:first]
        return [change(row) if row["index"] in names else row for row in events]

    return rows


def test_a_sound_block_passes_everything(tmp_path: Path) -> None:
    assert set(map(tuple, failures(read(build(tmp_path, one_block()))).values())) == {()}


def test_every_check_has_meaning_and_advice() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert all(check.meaning and check.advice for check in CHECKS)


def test_a_late_client(tmp_path: Path) -> None:
    # 2 of 100 late by 20 ms: the p99 is late, but they still count as ready on time (10 × 5 ms)
    reading = with_rows(tmp_path, counted(lambda row: row | {"queued": row["scheduled"] + 20 * MS}, 2))
    assert failures(reading)[BROKEN] == ["schedule_lag_p99"]
    assert observed(reading, "schedule_lag_p99") == (0.02, None)


def test_one_late_request_in_a_hundred_is_not_the_p99(tmp_path: Path) -> None:
    reading = with_rows(tmp_path, counted(lambda row: row | {"queued": row["scheduled"] + 20 * MS}, 1))
    assert failures(reading)[BROKEN] == []


def test_a_load_that_was_not_delivered(tmp_path: Path) -> None:
    reading = with_rows(tmp_path, counted(lambda row: row | {"queued": row["scheduled"] + 60 * MS}, 3))
    assert failures(reading)[BROKEN] == ["schedule_lag_p99", "delivered_load"]
    assert observed(reading, "delivered_load")[0] == pytest.approx(0.03)


def test_a_server_that_stops_answering_is_no_fault_of_the_load(tmp_path: Path) -> None:
    def timeout(row: Row) -> Row:
        gone = dict.fromkeys(("first_token", "first_answer_token", "last_token", "output_tokens", "finish_reason"))
        lists = {name: [] for name in ("chunk_times", "chunk_tokens", "chunk_kinds", "chunk_bytes")}
        return row | gone | lists | {"outcome": "timeout_total", "end": row["scheduled"] + 60 * SECOND}

    reading = with_rows(tmp_path, each(timeout))
    assert failures(reading)[BROKEN] == []
    assert reading.complete


def test_unsent_requests_were_not_delivered(tmp_path: Path) -> None:
    reading = with_rows(
        tmp_path, counted(lambda row: row | {"queued": None, "sent": None, "end": None, "outcome": "unsent"}, 5)
    )
    assert failures(reading)[BROKEN] == ["delivered_load"]


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"cpu": 6 * SECOND}, "client_cpu"),
        ({"wall_start": 0, "wall_end": 7 * SECOND}, "clock_ratio"),
        ({"plan_exhausted": True}, "plan_exhausted"),
        ({"run_delay": SECOND}, "client_starved"),
        ({"loop_lag_p99": 11 * MS}, "loop_lag_p99"),
        ({"loop_lag_p99": None}, "loop_lag_p99"),
        ({"peak_in_flight": 65}, "certified_load"),
        ({"certificate": None}, "certified_load"),
        ({"certificate": 2}, "certified_load"),
    ],
)
def test_the_clients_view_of_itself(tmp_path: Path, changes: Row, check: str) -> None:
    assert failures(with_client(tmp_path, **changes))[BROKEN] == [check]


def test_a_system_that_does_not_say_how_long_a_process_waits(tmp_path: Path) -> None:
    assert failures(with_client(tmp_path, run_delay=None))[BROKEN] == []


def test_chunks_that_come_together(tmp_path: Path) -> None:
    """Replies of five chunks, of which two come in one read: 1 in 5 is within the limit of 20%, 2 in 5 are not."""

    def together(n: int) -> Rows:
        return each(lambda row: row | {"chunk_times": [row["chunk_times"][0]] * n + row["chunk_times"][n:]})

    assert failures(with_rows(tmp_path / "one", together(2)))[BROKEN] == []
    reading = with_rows(tmp_path / "two", together(3))
    assert failures(reading)[BROKEN] == ["coalesced_chunks"]
    assert observed(reading, "coalesced_chunks") == (pytest.approx(0.4), None)


def test_where_no_token_came_none_came_together(tmp_path: Path) -> None:
    lists = {name: [] for name in ("chunk_times", "chunk_tokens", "chunk_kinds", "chunk_bytes")}
    gone = dict.fromkeys(("first_token", "first_answer_token", "last_token", "output_tokens", "finish_reason"))
    reading = with_rows(tmp_path, each(lambda row: row | gone | lists | {"outcome": "http_error"}))
    assert failures(reading)[BROKEN] == []
    assert "coalesced_chunks" not in [
        result.check.name for cell, results in reading.checked() if cell.cell == BROKEN for result in results
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tokens_per_s": 0.0}, "points[0]: tokens_per_s is 0.0; wanted a number above 0"),
        ({"peak_in_flight": "many"}, "peak_in_flight is 'many'"),
        ({"ttft_p50_error": "small"}, "ttft_p50_error is 'small'"),
    ],
)
def test_a_certificate_that_is_none_is_refused(tmp_path: Path, change: Row, said: str) -> None:
    root = build(tmp_path, one_block())
    text = json.dumps({"certificate_version": 1, "points": [point(**change)]})
    (root / "instrument" / "1.json").write_text(text)
    with pytest.raises(BundleError, match=re.escape(said)):
        read(root)


def test_the_certificate_vouches_for_loads_that_held(tmp_path: Path) -> None:
    """20 req/s of 5 tokens, up to 9 at once: as far as points were tried and held, and no further."""

    def factor(*points: Row) -> tuple[float | None, str | None]:
        root = build(tmp_path / str(len(list(tmp_path.iterdir()))), one_block())
        (root / "instrument" / "1.json").write_text(json.dumps({"certificate_version": 1, "points": list(points)}))
        return observed(read(root), "certified_load")

    rate = point(rate=40.0, tokens=5, peak_in_flight=3, tokens_per_s=200.0, requests_per_s=40.0)
    assert factor(point(requests_per_s=1.0), rate) == (0.5, None)  # 20 of 40 req/s; 9 of 64 streams
    assert factor(point(requests_per_s=80.0), rate) == (0.25, None)  # a closed loop vouches for requests/s too
    assert factor(point(peak_in_flight=6), rate) == (1.5, None)
    assert factor(point(peak_in_flight=6), point(lost=1), rate) == (1.5, None)
    assert factor(point(peak_in_flight=6), point(ttft_p50_error=0.002), rate) == (1.5, None)
    assert factor(point(peak_in_flight=6), point(ttft_p99_error=0.002), rate) == (1.5, None)
    assert factor(point(peak_in_flight=6), point(itl_p99_error=-0.002), rate) == (1.5, None)
    assert factor(point(peak_in_flight=6), point(tokens_per_s=50.0), rate) == (1.5, None)  # 100 tokens/s: 2.0 of it
    wrong = point(ttft_p50_error=0.002)
    assert factor(wrong, rate)[0] == pytest.approx(3.0)  # what is left has 3 streams
    assert factor(wrong, wrong | {"rate": 40.0}) == (
        None, "the client was off by more than 1 ms at every load that was tried",
    )  # fmt: skip


def test_the_busiest_second() -> None:
    """A sliding second; where all lies within less, what was done over that (no less than a tenth of a second)."""
    ms = 1_000_000
    assert busiest_rate(np.array([], dtype=np.int64)) == 0
    assert busiest_rate(np.arange(0, 3000, 100) * ms) == 10
    assert busiest_rate(np.array([0, 900, 950, 1850, 2000, 5000]) * ms) == 3
    assert busiest_rate(np.arange(0, 301, 3) * ms) == pytest.approx(101 / 0.3)
    assert busiest_rate(np.array([7, 7, 7]) * ms) == 30
    assert point_module.busiest_rate(np.arange(0, 3000, 100) * ms) == 10  # the runner's, of the certificate's points


def test_a_lost_row(tmp_path: Path) -> None:
    reading = with_rows(tmp_path, lambda events: [row for row in events if row["index"] != 50])
    assert failures(reading)[BROKEN] == ["accounted"]
    assert observed(reading, "accounted") == (1.0, None)


def test_a_row_too_many(tmp_path: Path) -> None:
    reading = with_rows(tmp_path, lambda events: [*events, events[50]])
    assert failures(reading)[BROKEN] == ["accounted"]


def test_a_row_that_was_never_planned(tmp_path: Path) -> None:
    reading = with_rows(tmp_path, lambda events: [*events, events[-1] | {"index": 10_000}])
    assert failures(reading)[BROKEN] == ["accounted"]


@pytest.mark.parametrize("change", [{"prompt_digest": "another"}, {"cell": "b01-candidate-l2"}])
def test_a_row_of_another_plan(tmp_path: Path, change: Row) -> None:
    reading = with_rows(tmp_path, lambda events: [row | change if row["index"] == 50 else row for row in events])
    assert failures(reading)[BROKEN] == ["on_plan"]


def test_a_schedule_that_was_moved_hides_no_delay(tmp_path: Path) -> None:
    def later(row: Row) -> Row:
        return row | {"scheduled": row["scheduled"] + 40 * MS} if row["index"] == 50 else row

    assert failures(with_rows(tmp_path, each(later)))[BROKEN] == ["on_plan"]


def test_a_counted_attempt_outside_the_window(tmp_path: Path) -> None:
    assert failures(with_client(tmp_path, window_end=1 * SECOND))[BROKEN] == ["window"]
    assert failures(with_client(tmp_path / "none", window_end=None))[BROKEN] == ["window"]


def test_times_that_run_backwards(tmp_path: Path) -> None:
    def swapped(row: Row) -> Row:
        a, b, *rest = row["chunk_times"]
        return row | {"chunk_times": [a, rest[0], b, *rest[1:]]} if row["index"] in (50, 51) else row

    reading = with_rows(tmp_path, each(swapped))
    assert failures(reading)[BROKEN] == ["time_order"]
    assert observed(reading, "time_order") == (2.0, None)


def test_an_attempt_that_was_cut_off(tmp_path: Path) -> None:
    reading = with_rows(tmp_path, counted(lambda row: row | {"outcome": "cancelled"}, 1))
    assert failures(reading)[BROKEN] == ["complete"]


def test_cut_off_attempts_of_the_drain_do_not_count(tmp_path: Path) -> None:
    def cancel(row: Row) -> Row:
        return row | {"outcome": "cancelled"} if row["phase"] == "drain" else row

    assert failures(with_rows(tmp_path, each(cancel)))[BROKEN] == []


def test_without_telemetry_validity_is_not_assumed(tmp_path: Path) -> None:
    reading = read(build(tmp_path, one_block(), client=lambda cell, row: None))
    assert failures(reading)[BROKEN] == [
        "client_cpu", "client_starved", "loop_lag_p99", "certified_load", "clock_ratio", "on_plan", "window",
        "plan_exhausted",
    ]  # fmt: skip
    assert observed(reading, "client_cpu") == (None, "no client telemetry")
    assert not reading.complete


class TestClosedLoop:
    """Concurrency 4 in the second load point: request i belongs to client i mod 4."""

    CARD = baseline_card(method__blocks=1)

    def change(self, tmp_path: Path, change: Rows) -> Reading:
        return with_rows(tmp_path, change, self.CARD)

    def test_sound(self, tmp_path: Path) -> None:
        reading = read(build(tmp_path, self.CARD))
        assert failures(reading) == {"b01-baseline-l1": [], "b01-baseline-l2": []}
        names = {r.check.name for _, results in reading.checked() for r in results}
        assert "schedule_lag_p99" not in names  # a closed loop has no schedule to be late against

    def test_requests_that_no_client_took_are_not_missing(self, tmp_path: Path) -> None:
        reading = self.change(tmp_path, lambda events: events[:-3])
        assert failures(reading)[BROKEN] == []

    def test_a_gap_in_a_clients_requests_is_a_lost_row(self, tmp_path: Path) -> None:
        reading = self.change(tmp_path, lambda events: [row for row in events if row["index"] != 21])
        assert failures(reading)[BROKEN] == ["delivered_load", "accounted"]

    def test_fewer_counted_than_planned(self, tmp_path: Path) -> None:
        reading = self.change(
            tmp_path, lambda events: [row | {"phase": "drain"} if row["index"] == 43 else row for row in events]
        )
        assert observed(reading, "delivered_load")[0] == pytest.approx(1 / 40)

    def test_by_time_the_load_decides_how_many_there_are(self, tmp_path: Path) -> None:
        def client(_: Cell, row: Row) -> Row:
            return row | {"counted_planned": None}

        assert failures(read(build(tmp_path, self.CARD, client=client)))[BROKEN] == []


def test_rows_of_the_report_name_the_cells_and_the_worst(tmp_path: Path) -> None:
    def client(cell: Cell, row: Row) -> Row:
        elapsed = row["load_end"] - row["load_start"]
        return row | {"cpu": int(elapsed * (0.9 if cell.arm == "baseline" else 0.5))}

    reading = read(build(tmp_path, one_block(), client=client))
    rows = {row["name"]: row for row in validity_rows(reading.checked(), 0, 1)}
    cpu = rows["client_cpu"]
    assert (cpu["passed"], cpu["level"], cpu["limit"]) == (False, "cell", 0.85)
    assert cpu["observed"] == pytest.approx(0.9)
    assert sorted(cpu["where"]) == ["b01-baseline-l1", "b01-baseline-l2"]
    blocks = rows["enough_blocks"]
    assert (blocks["passed"], blocks["level"], blocks["observed"], blocks["limit"]) == (False, "run", 0, 1)

"""Drift and MSER-5 of one cell against numbers computed independently (with scipy's theilslopes, by hand)."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from benchcard.analysis.quantities import quantities
from benchcard.analysis.steady import drift, mser5, steady_cell, theil_sen
from benchcard.schema.event import EVENT_COLUMNS

from .bundles import MS, Row, event, frame, reply

I = np.arange(200)  # noqa: E741 - the index of the published formula
R = (7 * I) % 11 - 5.0
LEVEL, TRANSIENT, TREND = 100 + R, 100 + 100 * np.exp(-I / 10) + R, 100 + 0.1 * I + R


@pytest.mark.parametrize(
    ("values", "percent", "digits"),
    [
        (LEVEL, (-0.14, -0.63, 0.53), 2),
        (TRANSIENT, (-2.38, -7.85, -0.77), 2),
        (TREND, (17.1, 16.7, 17.7), 1),
    ],
    ids=["level", "transient", "trend"],
)
def test_the_drift_of_the_worked_examples(values: np.ndarray, percent: tuple[float, ...], digits: int) -> None:
    found = drift(values)
    assert found is not None
    assert tuple(round(100 * x, digits) for x in (found.value, found.lower, found.upper)) == percent


@pytest.mark.parametrize(
    ("values", "cut", "statistic", "at_boundary"),
    [(LEVEL, 0, 0.0154194, False), (TRANSIENT, 40, 0.0203383, False), (TREND, 100, None, True)],
    ids=["level", "transient", "trend"],
)
def test_mser5_of_the_worked_examples(values: np.ndarray, cut: int, statistic: float | None, at_boundary: bool) -> None:
    found = mser5(values)
    assert found is not None
    assert (found.requests, found.at_boundary) == (cut, at_boundary)
    if statistic is not None:
        assert round(found.statistic, 7) == statistic


@pytest.mark.parametrize("seed", range(20))
def test_theil_sen_is_scipys(seed: int) -> None:
    """Also with ties: values of few digits."""
    from scipy.stats import theilslopes

    values = np.random.default_rng(seed).normal(10, 1, 20).round(seed % 3)
    wanted = theilslopes(values, np.arange(20), 0.95)
    assert theil_sen(values, 0.95) == pytest.approx((wanted[0], wanted[2], wanted[3]), abs=1e-14)


def test_a_constant_has_no_drift_and_nothing_to_cut() -> None:
    """0.1 in binary: the spread of its means is rounding, which is no transient."""
    values = np.full(203, 0.1)
    found, cut = drift(values), mser5(values)
    assert found is not None
    assert cut is not None
    assert found.value == pytest.approx(0, abs=1e-12)
    assert (cut.requests, cut.at_boundary) == (0, False)


def test_a_straight_line_drifts_by_its_rise() -> None:
    """1, 2, …, 100: batch means 3, 8, …, 98; slope 5, median 50.5; 5 × 19 / 50.5."""
    found = drift(np.arange(1.0, 101.0))
    assert found is not None
    assert (found.value, found.lower, found.upper) == pytest.approx((95 / 50.5,) * 3)


def test_mser5_by_hand() -> None:
    """Batch means 9, 1, 2, 1 (the last three values are left over): d = 0: (Σ(x − 3.25)²)/16 = 44.75/16; d = 1:
    (2/3)/9; d = 2: 0.5/4. The least is at d = 1, 5 requests."""
    values = np.concatenate([np.repeat([9.0, 1.0, 2.0, 1.0], 5), [50.0, 50.0, 50.0]])
    found = mser5(values)
    assert found is not None
    assert (found.requests, found.at_boundary) == (5, False)
    assert found.statistic == pytest.approx(2 / 27)
    assert mser5(values[:9]) is None


def _cell(rows: list[Row]) -> tuple[pl.DataFrame, np.ndarray]:
    attempts = frame(EVENT_COLUMNS, rows)
    return attempts, quantities(attempts).each["ttft"]


def test_requests_are_taken_in_order_of_schedule() -> None:
    """A closed loop's rows stand in the order of their index, not of their schedule. TTFT here rises with the schedule
    from 1 to 100 ms, so that the drift is the straight line's."""
    rows = [reply(99 - i, [i + 1.0], scheduled=i * MS) for i in range(100)]
    attempts, ttft = _cell(sorted(rows, key=lambda row: row["index"]))
    found = steady_cell(attempts, ttft, 0.95)
    assert found.drift is not None
    assert found.drift.value == pytest.approx(95 / 50.5)
    assert found.requests == 100
    assert [batch.mean for batch in found.batches] == pytest.approx([(5 * b + 3) / 1000 for b in range(20)])
    assert [batch.index for batch in found.batches] == [5 * b + 2 for b in range(20)]


def test_attempts_without_a_first_token_are_counted_and_left_out() -> None:
    """110 attempts; every eleventh times out, of the others one broke after its first token, which counts, and one ok
    reply was not streamed."""
    rows = []
    for i in range(110):
        at = i * MS
        if i % 11 == 10:
            rows.append(event(i, scheduled=at, outcome="timeout_total"))
        elif i == 0:
            rows.append(reply(i, [7.0], scheduled=at, outcome="truncated"))
        elif i == 1:
            rows.append(event(i, scheduled=at, outcome="ok", streamed=False))
        else:
            rows.append(reply(i, [7.0], scheduled=at))
    found = steady_cell(*_cell(rows), 0.95)
    assert found.requests == 99
    assert found.undefined == {"not streamed": 1, "timeout_total": 10}
    assert found.drift is None
    assert found.reason == "99 requests with a TTFT; a drift needs 100"
    assert sum(batch.mean for batch in found.batches) == pytest.approx(20 * 0.007)
    assert found.mser is not None
    assert found.mser.requests == 0


def test_nothing_comes_of_nothing() -> None:
    found = steady_cell(*_cell([event(0)]), 0.95)
    assert (found.requests, found.undefined, found.drift, found.mser, found.batches) == (
        0,
        {"no_token": 1},
        None,
        None,
        (),
    )

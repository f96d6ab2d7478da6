"""Metrics of hand-made attempts. The cases are faults that other harnesses had; times in ms after the schedule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benchcard.analysis.goodput import judge
from benchcard.analysis.metrics import (
    ALL_METRICS,
    METRICS,
    START_METRICS,
    STATISTICS,
    Measured,
    Value,
    inverted_cdf,
    measure,
)
from benchcard.analysis.quantities import QUANTITIES, quantities
from benchcard.analysis.records import BundleError
from benchcard.analysis.window import Window, counted, measured_window, tokens_inside
from benchcard.schema import metrics as catalogue
from benchcard.schema.event import EVENT_COLUMNS

from .bundles import MS, SECOND, Row, event, frame, reply

OBJECTIVES = {"success": True, "ttft": {"at_most": 0.2}}


def values(rows: list[Row], seconds: float = 1.0, objectives: dict[str, Any] | None = None) -> dict[str, Value]:
    """Every metric of these attempts, in a window of [0, seconds)."""
    events = frame(EVENT_COLUMNS, rows)
    attempts = counted(events)
    found = quantities(attempts)
    window = Window(0, round(seconds * SECOND))
    good = judge(attempts, found, objectives).good
    tokens = tokens_inside(events, window)
    return measure(Measured(attempts.height, int(found.ok.sum()), good, tokens, seconds, found))


def ms(value: Value) -> float:
    assert value.value is not None
    return round(value.value * 1000, 6)


def test_the_table_and_the_catalogue_are_the_same() -> None:
    assert list(ALL_METRICS) == catalogue.metric_names()
    assert [metric.name for metric in catalogue.COLD_START] == list(START_METRICS)
    assert list(ALL_METRICS) == [*METRICS, *START_METRICS]
    assert tuple(STATISTICS) == catalogue.STATISTICS
    for name, row in ALL_METRICS.items():
        listed = catalogue.metric(name)
        assert listed is not None
        assert (row.unit, row.better, row.scale) == (listed.unit, listed.better, listed.scale)
        assert row.formula
        assert row.undefined_when


def test_the_servers_metrics_are_in_the_catalogue() -> None:
    from benchcard.analysis.evidence import EVIDENCE

    assert set(EVIDENCE) == set(catalogue.SERVER_METRICS)


def test_case_1_ttft_is_the_first_token_not_the_role_chunk() -> None:
    found = values([reply(0, [500, 520], first_chunk=10 * MS)])
    assert (ms(found["ttft.p50"]), ms(found["e2e.p50"])) == (500, 520)


def test_case_2_reasoning_is_output_and_the_first_answer_has_a_metric_of_its_own() -> None:
    times = [float(t) for t in range(100, 200, 10)] + [1000.0]
    found = values([reply(0, times, kinds=["reasoning"] * 10 + ["content"], output_tokens=11)])
    assert (ms(found["ttft.p50"]), ms(found["tpot.p50"]), ms(found["ttfa.p50"])) == (100, 90, 1000)


def test_a_reply_that_only_reasons_has_no_first_answer() -> None:
    found = values([reply(0, [100, 110], kinds=["reasoning"] * 2)])
    assert found["ttfa.p50"] == Value(None, 0, {"no answer token": 1})


def test_case_4_only_token_bearing_chunks_have_gaps() -> None:
    found = values([reply(0, [100, 110, 120], output_tokens=3, end=600 * MS)])
    assert ms(found["ttft.p50"]) == 100
    assert (found["itl.p50"].n, ms(found["itl.p50"]), ms(found["itl.max"])) == (2, 10, 10)
    assert ms(found["e2e.p50"]) == 120  # to the last token, not to the end of the stream


TEN_CHUNKS = [float(t) for t in range(100, 461, 40)]


def test_case_6_tpot_divides_by_tokens_and_the_gap_is_icl() -> None:
    one_each = values([reply(0, TEN_CHUNKS, output_tokens=40)])
    assert ms(one_each["tpot.p50"]) == round(360 / 39, 6)
    assert ms(one_each["icl.p50"]) == 40
    counted_chunks = values([reply(0, TEN_CHUNKS, tokens=[4] * 10)])
    assert ms(counted_chunks["tpot.p50"]) == 10  # 360 / 36
    assert (ms(counted_chunks["itl.p50"]), counted_chunks["itl.p50"].n) == (10, 36)
    assert (ms(counted_chunks["icl.p50"]), counted_chunks["icl.p50"].n) == (40, 9)


def test_case_8_a_blank_chunk_is_no_token() -> None:
    found = values([reply(0, [100, 120], output_tokens=2)])
    assert (found["icl.p50"].n, ms(found["icl.p50"])) == (1, 20)


def test_a_chunk_that_is_counted_as_no_token_has_no_itl_and_divides_by_nothing() -> None:
    found = values([reply(0, [100, 110, 120], tokens=[1, 0, 1])])
    assert (found["itl.max"].n, ms(found["itl.max"]), found["icl.max"].n) == (1, 10, 2)


def test_case_10_the_servers_count_is_the_output() -> None:
    found = values([reply(0, [100.0 + i for i in range(100)], output_tokens=100, retokenized_tokens=50)])
    assert ms(found["tpot.p50"]) == 1


def test_case_12_one_token_has_no_tpot() -> None:
    rows = [reply(i, [100.0]) for i in range(9)] + [reply(9, [100, 120, 140])]
    found = values(rows)
    assert (ms(found["tpot.mean"]), found["tpot.mean"].n) == (20, 1)
    assert found["tpot.mean"].undefined == {"no token after the first chunk": 9}
    assert found["itl.mean"].undefined == {"fewer than two chunks": 9}


def test_case_58_failures_stay_in_the_denominators() -> None:
    failed = {"outcome": "http_error", "status": 500}
    rows = [reply(i, [100, 120]) for i in range(8)] + [event(i, **failed) for i in (8, 9)]
    found = values(rows, seconds=2.0, objectives=OBJECTIVES)
    assert found["ttft.p50"].n == 8
    assert found["ttft.p50"].undefined == {"http_error": 2}
    assert (found["error_rate"].value, found["error_rate"].n) == (0.2, 10)
    assert (found["attainment"].value, found["goodput"].value, found["request_throughput"].value) == (0.8, 4.0, 4.0)


def test_a_reply_that_was_not_streamed_has_no_ttft() -> None:
    row = reply(0, [500.0]) | {"streamed": False, "first_token": None, "first_answer_token": None}
    found = values([row])
    assert found["ttft.p50"] == Value(None, 0, {"not streamed": 1})


def test_without_a_report_the_chunks_are_the_output_tokens() -> None:
    found = values([reply(0, [100, 120, 140]) | {"output_tokens": None}])
    assert ms(found["tpot.p50"]) == 20


def test_tokens_count_where_they_arrive() -> None:
    rows = [
        reply(0, [-20, 0, 999, 1000], tokens=[1, 2, 4, 8], phase="warmup"),  # [0, 1000): the window excludes its end
        reply(1, [500.0], phase="drain"),
        reply(2, [500.0, 600.0]) | {"outcome": "truncated"},  # no total has the tokens of a failed reply
    ]
    assert values(rows, seconds=1.0)["output_throughput"].value == 7.0


def test_all_failed() -> None:
    found = values([event(i, outcome="connect_error") for i in range(20)], objectives=OBJECTIVES)
    assert found["error_rate"].value == 1.0
    assert (found["goodput"].value, found["request_throughput"].value) == (0.0, 0.0)
    assert {name for name, value in found.items() if value.value is None} == set(METRICS) - {
        "goodput",
        "attainment",
        "error_rate",
        "request_throughput",
        "output_throughput",
    }
    assert all(found[f"{q}.mean"].undefined == {"connect_error": 20} for q in QUANTITIES)


def test_an_empty_window_and_no_window() -> None:
    empty = values([reply(0, [100.0], phase="warmup")], objectives=OBJECTIVES)
    assert (empty["goodput"].value, empty["attainment"].value) == (0.0, None)
    assert empty["ttft.p50"] == Value(None, 0, {"no attempts in the window": 0})
    attempts = frame(EVENT_COLUMNS, [reply(0, [100.0])])
    found = measure(Measured(1, 1, 1, 0, None, quantities(attempts)))
    assert found["goodput"] == Value(None, 1, {"no measured window": 1})
    assert found["attainment"].value == 1.0


def test_without_objectives_nothing_is_good_or_bad() -> None:
    assert values([reply(0, [100.0])])["goodput"] == Value(None, 1, {"the card has no objectives": 1})


@pytest.mark.parametrize(
    ("client", "window"),
    [
        (None, None),
        ({"window_start": None, "window_end": None}, None),
        ({"window_start": 5, "window_end": 5}, None),
        ({"window_start": 5, "window_end": 2 * SECOND + 5}, Window(5, 2 * SECOND + 5)),
    ],
)
def test_the_window_is_what_the_client_recorded(client: Any, window: Window | None) -> None:
    assert measured_window(client) == window


def test_lists_that_do_not_fit_are_refused() -> None:
    row = reply(0, [100.0, 120.0]) | {"chunk_tokens": [1]}
    with pytest.raises(BundleError, match="differ in length"):
        values([row])


def test_percentiles_are_the_smallest_value_with_enough_at_or_below_it() -> None:
    assert [inverted_cdf(np.array([1.0, 2.0, 3.0, 4.0]), p) for p in (25, 26, 50, 51, 75, 99)] == [1, 2, 2, 3, 3, 4]
    assert inverted_cdf(np.arange(1.0, 101.0), 95) == 95
    assert inverted_cdf(np.arange(1.0, 21.0), 95) == 19
    assert inverted_cdf(np.array([7.0]), 50) == 7


@pytest.mark.parametrize("percent", [50, 90, 95, 97, 99])
def test_percentiles_are_numpys_inverted_cdf(percent: int) -> None:
    random = np.random.default_rng(percent)
    for n in range(1, 300):
        sample = np.sort(random.normal(size=n))
        assert inverted_cdf(sample, percent) == np.quantile(sample, percent / 100, method="inverted_cdf"), n

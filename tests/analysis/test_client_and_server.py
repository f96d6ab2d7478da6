"""Client against server: what must agree, what definitions allow for, and what cannot be said. Values by hand."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from benchcard.analysis.checks import CHECKS
from benchcard.analysis.client_and_server import compare, crosscheck_rows
from benchcard.analysis.compared import Compared
from benchcard.analysis.read import Cell
from benchcard.analysis.server_cell import read_server
from benchcard.analysis.view import CellView
from benchcard.schema.event import EVENT_COLUMNS

from .bundles import MS, SECOND, Row, frame, reply
from .pages import both, gauge, histogram, load, page

LIMITS = {
    "server_requests": 0.01,
    "server_tokens": 0.02,
    "server_latency": {"relative": 0.1, "absolute": 0.005},
    "littles_law": 0.2,
}
CELL = Cell("b01-baseline-l1", 1, "baseline", 1, 2.0)
TTFT, ITL, E2E = (
    "vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds", "vllm:e2e_request_latency_seconds",
)  # fmt: skip


def attempts(count: int = 10, **changes: Any) -> list[Row]:
    """So many replies, one a second, sent 10 ms after they were scheduled: tokens 100, 200 and 300 ms after that, and
    100 prompt tokens each."""
    asked = {"asked_input_tokens": 100, "input_tokens": 100, "asked_output_tokens": 3, "output_tokens": 3}
    return [
        reply(i, [110, 210, 310], scheduled=i * SECOND, sent=i * SECOND + 10 * MS, tries=1, **asked) | changes
        for i in range(count)
    ]


def cut(index: int, *chunks_ms: float, end_ms: float, outcome: str = "timeout_total") -> Row:
    """An attempt that was cut off after some tokens."""
    row = reply(index, list(chunks_ms) or [0.0], scheduled=index * SECOND, sent=index * SECOND)
    none = {} if chunks_ms else {
        "first_token": None, "last_token": None, "chunk_times": [], "chunk_tokens": [], "first_answer_token": None,
    }  # fmt: skip
    asked = {
        "asked_input_tokens": 100,
        "input_tokens": None,
        "asked_output_tokens": 8,
        "output_tokens": None,
        "tries": 1,
    }
    return row | asked | none | {"outcome": outcome, "end": index * SECOND + round(end_ms * MS)}


def server(
    requests: float = 10, prompt: float = 1000, output: float = 30, ttft: tuple[float, int] = (0.97, 10),
    itl: tuple[float, int] = (2.0, 20), e2e: tuple[float, int] = (2.97, 10), **aborted: float,
) -> list[list[Row]]:  # fmt: skip
    """A server that saw the ten attempts, 3 ms faster than the client."""
    finished = "vllm:request_success_total"
    return [
        both(finished, 5, 5 + requests, finished_reason="length"),
        both(finished, 0, aborted.get("aborted", 0), finished_reason="abort"),
        both("vllm:prompt_tokens_total", 7, 7 + prompt), both("vllm:generation_tokens_total", 7, 7 + output),
        histogram(TTFT, (0, 0), ttft), histogram(ITL, (0, 0), itl), histogram(E2E, (0, 0), e2e),
    ]  # fmt: skip


def seen(events: list[Row], pages: list[list[Row]], limits: Row | None = LIMITS, end: float = 10.0) -> CellView:
    table = frame(EVENT_COLUMNS, events)
    samples, client = page(*pages), load(0, end)
    validity: Row = limits or {}
    card: Row = {"validity": validity, "workload": {"arrivals": {"process": "poisson"}}}
    return CellView(
        card, CELL, table, table, pl.DataFrame(), client, None, None, samples, None, read_server(samples, client)
    )


def found(*args: Any, **kwargs: Any) -> dict[str, Compared]:
    return {row.what: row for row in compare(seen(*args, **kwargs))}


def test_the_same_requests_tokens_and_times_agree() -> None:
    rows = found(attempts(), server())
    assert {what: row.word for what, row in rows.items()} == {
        "requests": "agree", "prompt_tokens": "agree", "output_tokens": "agree", "ttft": "agree", "itl": "agree",
        "e2e": "agree", "in_system": "unknown",
    }  # fmt: skip
    assert (rows["requests"].client, rows["requests"].most, rows["requests"].server) == (10, 10, 10)
    assert (rows["output_tokens"].client, rows["output_tokens"].server) == (30, 30)
    # from sent, not from scheduled: 100 ms, and 300 ms for the last token
    assert rows["ttft"].client == pytest.approx(0.1)
    assert rows["ttft"].server == pytest.approx(0.097)
    assert rows["e2e"].client == pytest.approx(0.3)
    assert rows["itl"].client == pytest.approx(0.1)
    assert rows["in_system"].why == (
        "the server exposes none of vllm:num_requests_running, sglang:num_running_reqs, tgi_batch_current_size"
    )


@pytest.mark.parametrize(
    ("changes", "what", "excess"),
    [
        # 12 requests finished, 10 were sent: 2 of 10 are somebody else's
        ({"requests": 12}, "requests", 0.2),
        # 8 finished, 10 replies were complete
        ({"requests": 8}, "requests", 0.2),
        ({"prompt": 1100}, "prompt_tokens", 0.1),
        ({"output": 24}, "output_tokens", 0.2),
        # 100 ms at the client, 60 at the server: 40 - 5 = 35 ms beyond, of 60
        ({"ttft": (0.6, 10)}, "ttft", 35 / 60),
        ({"e2e": (2.0, 10)}, "e2e", 95 / 200),
        ({"itl": (1.0, 20)}, "itl", 45 / 50),
        # the server slower than the client saw it
        ({"ttft": (1.5, 10)}, "ttft", 45 / 150),
    ],
)
def test_what_differs(changes: Row, what: str, excess: float) -> None:
    rows = found(attempts(), server(**changes))
    assert rows[what].word == "differ"
    assert rows[what].excess == pytest.approx(excess)
    assert [name for name, row in rows.items() if row.word == "differ"] == [what]


def test_aborted_requests_are_left_out_of_the_count() -> None:
    assert found(attempts(), server(aborted=4))["requests"].word == "agree"


def test_the_way_to_the_server_is_allowed_for() -> None:
    """A connection that took 40 ms to stand: TTFT and E2E may be so much longer, ITL may not."""
    far = attempts(connect_start=0, connect_end=40 * MS)
    rows = found(far, server(ttft=(0.58, 10), itl=(1.8, 20), e2e=(2.58, 10)))
    assert (rows["ttft"].word, rows["e2e"].word) == ("agree", "agree")
    assert rows["ttft"].excess == 0.0
    assert found(attempts(), server(ttft=(0.58, 10)))["ttft"].word == "differ"


def test_replies_that_were_cut_off_make_a_range() -> None:
    """Two more were sent: one gave up after 2 of 8 tokens, one before its first. The server may have made anything
    from what came to what was asked for, finished, aborted or not counted them."""
    events = [*attempts(), cut(10, 100, 200, end_ms=900), cut(11, end_ms=900)]
    low = found(events, server(prompt=1100, output=32, ttft=(1.07, 11), itl=(2.1, 21)))
    high = found(events, server(requests=12, prompt=1200, output=46, ttft=(1.97, 12), itl=(2.1, 21), e2e=(4.4, 12)))
    for rows in (low, high):
        assert {row.word for name, row in rows.items() if name != "in_system"} == {"agree"}, rows
    assert (low["requests"].client, low["requests"].most) == (10, 12)
    assert (low["output_tokens"].client, low["output_tokens"].most) == (32, 46)
    assert (low["prompt_tokens"].client, low["prompt_tokens"].most) == (1100, 1200)


def test_unmatched_observations_are_bounded_by_the_longest_that_was_cut_off() -> None:
    """The server observed 11 first tokens, the client 10 and one cut off after 0.9 s: the server's mean over the ten
    is (S - 0.9)/10 to S/10. S = 3: 210 to 300 ms, the client has 100."""
    rows = found([*attempts(), cut(10, end_ms=900)], server(ttft=(3.0, 11)))
    assert rows["ttft"].excess == pytest.approx((0.210 - 0.1 - 0.005) / (3.0 / 11))
    assert rows["ttft"].word == "differ"


def test_more_observations_than_could_be_the_clients_are_not_compared() -> None:
    rows = found(attempts(), server(ttft=(1.2, 12)))
    assert rows["ttft"].word == "unknown"
    assert rows["ttft"].why == "the server observed 12, the client 10, and 0 were cut off"


def test_steps_that_are_not_chunks_are_not_compared() -> None:
    """Three tokens a step of speculation: the client sees other gaps than the server."""
    rows = found(attempts(), server(itl=(2.0, 60)))
    assert rows["itl"].word == "unknown"
    assert rows["itl"].why == ("the server observed 60 steps, the client 20 gaps between chunks: they are not the same")


def test_replies_that_were_not_streamed_have_no_first_token() -> None:
    rows = found(attempts(streamed=False), server())
    assert rows["ttft"].why == "replies were not streamed: the client sees their first token at their end"


def test_replies_whose_lengths_were_not_told_are_not_compared() -> None:
    rows = found(attempts(input_tokens=None, output_tokens=None), server())
    for what in ("prompt_tokens", "output_tokens"):
        assert rows[what].why == "the server did not say of each complete reply how many tokens it had"
    assert rows["requests"].word == "agree"


def test_one_page_of_several_replicas_is_not_compared() -> None:
    view = seen(attempts(), [*server(requests=5), *samples([0.3] * 25)])
    view.card["arms"] = {"baseline": {"server": {"replicas": 2}}}
    rows = compare(view)
    assert {row.word for row in rows} == {"unknown"}
    assert {row.why for row in rows} == {"its metrics page may be that of one of 2 replicas"}
    assert checks(view) == {}


def test_a_try_that_was_repeated_counts_at_the_server() -> None:
    rows = found(attempts(tries=2), server(requests=20, prompt=2000, output=60, ttft=(1.94, 20)))
    assert rows["requests"].word == "agree"
    assert rows["prompt_tokens"].word == "agree"
    assert rows["output_tokens"].word == "agree"


def test_a_try_that_was_repeated_is_as_long_as_its_own_request() -> None:
    """One of ten prompts has 5,000 tokens and was sent twice: the server may count 900 + 2 × 5,000. Another asked
    for 1,000 tokens and was sent once: the server has no reason to have made 1,000 more."""
    events = attempts()
    events[0] |= {"asked_input_tokens": 5000, "input_tokens": 5000, "tries": 2}
    events[1] |= {"asked_output_tokens": 1000}
    once = found(events, server(prompt=10_900, output=33))
    assert (once["prompt_tokens"].client, once["prompt_tokens"].most) == (5900, 10_900)
    assert (once["output_tokens"].client, once["output_tokens"].most) == (30, 33)
    assert {once[what].word for what in ("prompt_tokens", "output_tokens")} == {"agree"}
    assert found(events, server(prompt=10_900, output=1030))["output_tokens"].word == "differ"


def samples(values: list[float], waiting: float = 0.0) -> list[list[Row]]:
    """Gauges at the middle of each of so many parts of 10 s."""
    step = 10 / len(values)
    at = [((i + 0.5) * step, value) for i, value in enumerate(values)]
    return [
        gauge("vllm:num_requests_running", *at), gauge("vllm:num_requests_waiting", *((t, waiting) for t, _ in at)),
    ]  # fmt: skip


def test_littles_law() -> None:
    """Ten requests of 0.3 s in 10 s: 0.3 in the system; less a first step (TTFT of 97 ms) and one more (100 ms) for
    each: 0.103 at the least."""
    quiet = [*server(), *samples([0.3] * 25)]
    row = found(attempts(), quiet)["in_system"]
    assert row.word == "agree"
    assert (row.client, row.most, row.server) == (pytest.approx(0.103), pytest.approx(0.3), pytest.approx(0.3))
    crowded = found(attempts(), [*server(), *samples([0.3] * 25, waiting=0.3)])["in_system"]
    assert crowded.excess == pytest.approx(1.0)
    assert crowded.word == "differ"


def test_littles_law_is_unknown_where_no_step_is_told() -> None:
    """A step that is not told is not taken for none: the range would be too narrow, and the cell invalid."""
    silent = [*server()[:-2], *samples([0.05] * 25)]  # neither the time between tokens nor E2E
    row = found(attempts(), silent)["in_system"]
    assert (row.word, row.why) == ("unknown", "the server does not tell how long its steps were")


def test_littles_law_allows_for_three_standard_errors_and_needs_samples() -> None:
    """0 and 1.2 in turn, 26 samples: a mean of 0.6 with a standard error of 0.6·√(26/25)/√26 = 0.12."""
    row = found(attempts(), [*server(), *samples([0.0, 1.2] * 13)])["in_system"]
    assert row.excess == 0.0
    few = found(attempts(), [*server(), *samples([0.3] * 19)])["in_system"]
    assert few.why == "gauges were sampled 19 times in the load; 20 are needed"


def test_a_reset_is_unknown_and_fails_no_cell() -> None:
    view = seen(attempts(), [*server(), both("process_start_time_seconds", 1, 2)])
    rows = compare(view)
    assert {row.word for row in rows} == {"unknown"}
    assert rows[0].why is not None
    assert rows[0].why.startswith("process_start_time_seconds changed")
    assert rows[0].server is None


def test_nothing_is_compared_without_limits_or_metrics() -> None:
    assert compare(seen(attempts(), server(), limits=None)) == ()
    assert compare(seen(attempts(), [])) == ()
    assert compare(seen(attempts(sent=None), server())) == ()


def checks(view: CellView) -> dict[str, tuple[float | None, bool]]:
    from dataclasses import replace

    of = {"server_requests", "server_tokens", "server_latency", "littles_law"}
    whole = replace(view, compared=compare(view))
    applied = [check for check in CHECKS if check.name in of and check.applies(whole)]
    return {
        check.name: (check.observe(whole)[0], (check.observe(whole)[0] or 0) <= check.limit(view.card))
        for check in applied
    }


def test_the_checks_show_the_worst_and_apply_where_something_was_compared() -> None:
    found_ = checks(seen(attempts(), server(prompt=1100, output=24)))
    assert found_["server_requests"] == (0.0, True)
    assert found_["server_tokens"] == (pytest.approx(0.2), False)
    assert found_["server_latency"][1] is True
    assert "littles_law" not in found_
    assert checks(seen(attempts(), [both("vllm:num_preemptions_total", 0, 1)])) == {}


def test_rows_of_the_verdict() -> None:
    rows = crosscheck_rows([({"cell": "b01"}, compare(seen(attempts(), server(requests=12))))])
    assert len(rows) == 7
    assert rows[0] == {
        "cell": "b01", "what": "requests", "check": "server_requests", "unit": "requests", "client": 10,
        "client_most": 10, "server": 12, "difference": 2, "excess": 0.2, "limit": 0.01, "word": "differ", "why": None,
        "note": "client: from the complete replies to every try that was sent; server: requests finished, without "
        "those it counts as aborted",
    }  # fmt: skip

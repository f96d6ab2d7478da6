"""Goodput as a conjunction, and where the rest went."""

from __future__ import annotations

from typing import Any

import pytest
from benchcard.analysis.goodput import Judgement, add, judge
from benchcard.analysis.quantities import quantities
from benchcard.schema.event import EVENT_COLUMNS

from .bundles import MS, Row, ab_card, analyse, build, event, frame, reply

SEED = {
    "success": True,
    "ttft": {"at_most": 0.6},
    "itl": {"every": 0.15},
    "output": {"finish": ["stop", "length"], "min_tokens": 1},
}


def judged(rows: list[Row], objectives: dict[str, Any] | None) -> Judgement:
    attempts = frame(EVENT_COLUMNS, rows)
    return judge(attempts, quantities(attempts), objectives)


def test_the_seeds_example() -> None:
    """8 req/s offered for 10 s: goodput 6.2, 1.1 missed TTFT, 0.4 missed an ITL, 0.3 errored."""
    rows = [reply(i, [100, 120, 140]) for i in range(62)]
    rows += [reply(i, [700, 720, 740]) for i in range(62, 73)]
    rows += [reply(i, [100, 120, 300]) for i in range(73, 77)]
    rows += [event(i, outcome="http_error") for i in range(77, 80)]
    found = judged(rows, SEED)
    assert (found.attempted, found.good) == (80, 62)
    assert found.missed == found.first_cause == {"success": 3, "ttft": 11, "itl": 4, "output": 0}
    assert found.outcomes == {"http_error": 3, "ok": 77}


def test_the_seeds_example_per_second_in_the_verdict(tmp_path: Any) -> None:
    def rows(cell: Any, events: list[Row]) -> list[Row]:
        out, seen = [], 0
        for row in events:
            if row["phase"] == "measure":
                if 62 <= seen < 73:
                    row = moved(row, 700, 720, 740)
                elif 73 <= seen < 77:
                    row = moved(row, 100, 120, 300)
                elif seen >= 77:
                    row = failed(row)
                seen += 1
            out.append(row)
        return out

    card = ab_card(workload__loads=[8.0], workload__window__measure={"seconds": 10.0}, guards=[], method__blocks=6)
    card["claim"]["at"] = [8.0]
    verdict = analyse(build(tmp_path, card, rows=rows, skip=lambda cell: cell.block > 6))
    row = verdict["attribution"][0]
    assert row["per_second"] == {
        "attempted": 8.0,
        "good": 6.2,
        "missed": {"success": 0.3, "ttft": 1.1, "itl": 0.4, "output": 0.0},
        "first_cause": {"success": 0.3, "ttft": 1.1, "itl": 0.4, "output": 0.0},
    }
    assert (row["window_s"], row["attempted"], row["good"]) == (60.0, 480, 372)
    # two equal arms never support a rise
    assert verdict["verdict"] == "falsified"


def moved(row: Row, *chunks_ms: float) -> Row:
    timed = reply(row["index"], list(chunks_ms), scheduled=row["scheduled"])
    return row | {key: timed[key] for key in timed if key.startswith(("chunk", "first", "last", "end", "output"))}


def failed(row: Row) -> Row:
    gone = ("first_token", "first_answer_token", "last_token", "output_tokens", "finish_reason")
    lists = ("chunk_times", "chunk_tokens", "chunk_kinds", "chunk_bytes")
    end = {"outcome": "http_error", "status": 500, "end": row["scheduled"] + MS}
    return row | dict.fromkeys(gone) | {name: [] for name in lists} | end


def test_case_54_a_limit_is_kept_at_the_limit_and_missed_beyond_it() -> None:
    rows = [reply(i, [ttft, ttft + 10]) for i, ttft in enumerate((100.0, 200.0, 201.0))]
    found = judged([*rows, event(3, outcome="timeout_total")], {"success": True, "ttft": {"at_most": 0.2}})
    assert (found.good, found.attempted) == (2, 4)
    assert found.missed == {"success": 1, "ttft": 1}


def test_several_causes_count_under_each_and_once_under_the_first() -> None:
    rows = [reply(0, [700, 1000]), reply(1, [100, 120], finish_reason="abort")]
    found = judged(rows, SEED)
    assert found.good == 0
    assert found.missed == {"success": 0, "ttft": 1, "itl": 1, "output": 1}
    assert found.first_cause == {"success": 0, "ttft": 1, "itl": 0, "output": 1}


def test_every_objective_and_its_order() -> None:
    everything: dict[str, Any] = {
        "success": True,
        "ttft": {"at_most": 0.1},
        "itl": {"every": 0.01},
        "icl": {"every": 0.02},
        "tpot": {"at_most": 0.01},
        "e2e": {"at_most": 0.3},
        "output": {"finish": ["stop"], "min_tokens": 4},
    }
    bad = reply(0, [200.0, 400.0], output_tokens=2)
    found = judged([bad], everything)
    assert found.missed == dict.fromkeys(("success",), 0) | dict.fromkeys(list(everything)[1:], 1)
    assert list(found.missed) == ["success", "ttft", "itl", "icl", "tpot", "e2e", "output"]
    assert [cause for cause, count in found.first_cause.items() if count] == ["ttft"]
    for cause, limit in (("itl", 0.2), ("icl", 0.2), ("tpot", 0.2), ("e2e", 0.4), ("ttft", 0.2)):
        key = next(iter(everything[cause]))
        assert judged([bad], {"success": True, cause: {key: limit}}).good == 1, cause
        assert judged([bad], {"success": True, cause: {key: limit - 0.001}}).good == 0, cause


def test_one_token_misses_no_itl_and_no_tpot() -> None:
    objectives = {"itl": {"every": 0.01}, "icl": {"every": 0.01}, "tpot": {"at_most": 0.01}}
    assert judged([reply(0, [100.0])], objectives).good == 1


def test_a_first_token_that_was_not_seen_is_not_on_time() -> None:
    row = reply(0, [100.0]) | {"first_token": None, "streamed": False}
    assert judged([row], SEED).missed["ttft"] == 1


def test_a_failure_misses_success_and_what_it_exceeded_until_then() -> None:
    slow = reply(0, [900, 920]) | {"outcome": "truncated", "finish_reason": None}
    found = judged([slow, event(1, outcome="timeout_total")], SEED)
    assert found.missed == {"success": 2, "ttft": 1, "itl": 0, "output": 0}
    assert found.first_cause == {"success": 2, "ttft": 0, "itl": 0, "output": 0}


@pytest.mark.parametrize("outcome", ["truncated", "no_token", "unsent", "cancelled"])
def test_only_ok_is_good(outcome: str) -> None:
    assert judged([reply(0, [100.0]) | {"outcome": outcome}], {"success": True}).good == 0


def test_without_objectives_only_outcomes_are_known() -> None:
    found = judged([reply(0, [100.0]), event(1, outcome="http_error")], None)
    assert (found.good, found.missed) == (None, {"success": 1})


def test_cells_add_up() -> None:
    one, two = judged([reply(0, [100.0])], SEED), judged([event(0, outcome="no_token")], SEED)
    total = add([one, two, two])
    assert (total.attempted, total.good) == (3, 1)
    assert total.missed["success"] == 2
    assert total.outcomes == {"ok": 1, "no_token": 2}
    assert add([judged([reply(0, [1.0])], None)]).good is None

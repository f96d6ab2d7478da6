"""The servers' metrics over cells: ratios of sums, the most, engines, and what is said where there is no number."""

from __future__ import annotations

import pytest
from benchcard.analysis.server_cell import read_server
from benchcard.analysis.server_metrics import SERVER_METRICS, Told, over_cells, server

from .bundles import Row
from .pages import both, gauge, histogram, load, page

HITS, QUERIES = "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"
BASELINE, CANDIDATE = ("baseline", 1, 20.0), ("candidate", 1, 20.0)


def cell(name: str, *rows: list[Row], seconds: float = 10.0) -> Told:
    return name, read_server(page(*rows), load(0, seconds)) if rows else None


def value(name: str, *cells: Told, engine: str | None = None) -> float | str | None:
    """The metric over cells, or why there is none."""
    numerator, denominator, why = over_cells(SERVER_METRICS[name], cells, engine)
    if why is not None:
        return why
    return SERVER_METRICS[name].offset + numerator / denominator if denominator else SERVER_METRICS[name].none


def test_ratios_are_of_sums() -> None:
    """60/100 and 100/300 are 160/400, not the mean of 60% and 33%."""
    cells = [
        cell("a", both(HITS, 5, 65), both(QUERIES, 7, 107)),
        cell("b", both(HITS, 0, 100), both(QUERIES, 0, 300)),
    ]
    assert value("server.prefix_cache_hit_rate", *cells) == 0.4
    assert value("server.prefix_cache_hit_rate", cell("a", both(HITS, 1, 1), both(QUERIES, 1, 1))) == (
        "no prompt token was looked up in the cache"
    )


def test_rates_are_per_second_of_all_loads() -> None:
    tokens = "vllm:generation_tokens_total"
    cells = [cell("a", both(tokens, 0, 100), seconds=10), cell("b", both(tokens, 50, 350), seconds=30)]
    assert value("server.generation_tokens", *cells) == 10.0


def test_speculation() -> None:
    """30 drafts of 4 tokens each, 45 accepted: 45/120 of the tokens, and 1 + 45/30 tokens a step."""
    told = cell(
        "a", both("vllm:spec_decode_num_drafts_total", 10, 40), both("vllm:spec_decode_num_draft_tokens_total", 0, 120),
        both("vllm:spec_decode_num_accepted_tokens_total", 5, 50),
    )  # fmt: skip
    assert value("server.spec_decode_acceptance_rate", told) == 0.375
    assert value("server.spec_decode_acceptance_length", told) == 2.5


def test_gauges_over_cells_weigh_by_time_and_the_most_is_the_most() -> None:
    waiting = "vllm:num_requests_waiting"
    cells = [cell("a", gauge(waiting, (5, 1)), seconds=10), cell("b", gauge(waiting, (10, 4)), seconds=20)]
    assert value("server.queue.mean", *cells) == 3.0
    assert value("server.queue.max", *cells) == 4.0


def test_preemptions_are_per_request_and_iterations_have_their_mean() -> None:
    told = cell(
        "a", both("vllm:num_preemptions_total", 0, 3), both("vllm:request_success_total", 0, 12),
        histogram("vllm:iteration_tokens_total", (100, 10), (1124, 18)),
    )  # fmt: skip
    assert value("server.preemptions", told) == 0.25
    assert value("server.iteration_tokens.mean", told) == 128.0


def test_one_cell_without_a_number_leaves_none_over_all() -> None:
    good = cell("good", both(HITS, 0, 1), both(QUERIES, 0, 2))
    reset = cell("reset", both(HITS, 9, 1), both(QUERIES, 0, 2))
    assert str(value("server.prefix_cache_hit_rate", good, reset)).startswith(f"reset: {HITS} went backwards")
    assert value("server.prefix_cache_hit_rate", good, cell("none")) == "none: the server's metrics were not read"
    assert value("server.prefix_cache_hit_rate") == "no cell to read it from"


def rows(document: Row, metric: str) -> list[Row]:
    return [row for row in document["rows"] if row["metric"] == metric]


def test_rows_of_both_arms_with_their_reasons() -> None:
    document = server(
        {
            BASELINE: [cell("b1", both(HITS, 0, 0), both(QUERIES, 0, 0))],
            CANDIDATE: [cell("c1", both(HITS, 0, 3), both(QUERIES, 0, 4)), cell("c2", both(HITS, 0, 1))],
        }
    )
    first, second = rows(document, "server.prefix_cache_hit_rate")
    assert first == {
        "arm": "baseline", "load_point": 1, "load": 20.0, "engine": None, "metric": "server.prefix_cache_hit_rate",
        "unit": "1", "meaning": "prompt tokens found in the prefix cache / looked up", "value": None, "cells": 1,
        "samples": None, "empty": True, "undefined": "no prompt token was looked up in the cache",
    }  # fmt: skip
    assert (second["value"], second["cells"], second["empty"]) == (None, 2, False)
    assert second["undefined"] == (
        "c2: the server exposes none of vllm:prefix_cache_queries_total, vllm:gpu_prefix_cache_queries_total, "
        "sglang:prompt_tokens_total"
    )


def test_speculation_that_no_server_has_is_left_out_without_a_warning() -> None:
    document = server({BASELINE: [cell("b1", both(HITS, 0, 1), both(QUERIES, 0, 2))]})
    assert not rows(document, "server.spec_decode_acceptance_rate")
    assert not any("spec_decode" in warning["text"] for warning in document["warnings"])


def test_several_engines_have_rows_of_their_own() -> None:
    waiting = "vllm:num_requests_waiting"
    document = server({BASELINE: [cell("b1", gauge(waiting, (5, 1), engine="0"), gauge(waiting, (5, 7), engine="1"))]})
    assert [(row["engine"], row["value"], row["samples"]) for row in rows(document, "server.queue.mean")] == [
        (None, 8.0, 1), ("0", 1.0, 1), ("1", 7.0, 1),
    ]  # fmt: skip


def test_warnings_are_given_once_with_their_cells() -> None:
    whole = [both(HITS, 0, 1), both(QUERIES, 0, 2)]
    document = server(
        {
            BASELINE: [cell("b1", *whole), cell("b2")],
            CANDIDATE: [cell("c1", *whole), cell("c2", *whole, both("vllm:prompt_tokens_total", 5, 1))],
        }
    )
    kinds = {warning["kind"]: warning for warning in document["warnings"]}
    assert kinds["reset"]["cells"] == ["c2"]
    assert kinds["reset"]["text"].startswith("vllm:prompt_tokens_total went backwards")
    assert kinds["unread"] == {"kind": "unread", "text": "the server's metrics were not read", "cells": ["b2"]}
    missing = [warning for warning in document["warnings"] if "kv_cache_usage_perc" in warning["text"]]
    assert [warning["cells"] for warning in missing] == [["b1", "c1"]]


def test_no_metrics_at_all() -> None:
    document = server({BASELINE: [cell("b1")]})
    assert document == {
        "rows": [],
        "warnings": [{"kind": "unread", "text": "the server's metrics were not read", "cells": ["b1"]}],
    }


@pytest.mark.parametrize("name", SERVER_METRICS)
def test_every_metric_has_a_meaning_and_what_it_needs(name: str) -> None:
    metric = SERVER_METRICS[name]
    assert metric.meaning
    assert metric.unit
    assert metric.needs

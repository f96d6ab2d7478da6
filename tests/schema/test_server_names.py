"""The names of servers' metrics: one table here and one in the analysis, and what is kept of a page."""

from __future__ import annotations

import dataclasses

import pytest
from benchcard.analysis import server_names as analysis
from benchcard.analysis.evidence import EVIDENCE
from benchcard.analysis.server_metrics import SERVER_METRICS as FORMULAS
from benchcard.schema.metrics import SERVER_METRIC_UNITS, SERVER_METRICS
from benchcard.schema.server_names import PROCESS_START, SERVER_NAMES, dated, watched


def test_the_two_tables_are_the_same() -> None:
    assert [dataclasses.astuple(row) for row in SERVER_NAMES] == [
        dataclasses.astuple(row) for row in analysis.SERVER_NAMES
    ]
    assert PROCESS_START == analysis.PROCESS_START
    for ours, theirs in zip(SERVER_NAMES, analysis.SERVER_NAMES, strict=True):
        assert [ours.samples(name) for name in ours.exposed] == [theirs.samples(name) for name in theirs.exposed]


def test_what_a_card_may_name_as_evidence_has_a_formula_and_the_same_unit() -> None:
    assert tuple(SERVER_METRICS) == EVIDENCE
    assert {name: FORMULAS[name].unit for name in EVIDENCE} == SERVER_METRIC_UNITS


def test_what_is_kept_while_a_load_runs() -> None:
    kept = watched()
    assert {
        "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc",
        "vllm:generation_tokens_total", "vllm:request_success_total", "process_start_time_seconds",
    } <= kept  # fmt: skip
    assert not [name for name in kept if name.endswith(("_bucket", "_sum", "_count", "_created"))]
    assert "vllm:prefix_cache_hits_created" in dated()


@pytest.mark.parametrize("row", SERVER_NAMES, ids=lambda row: row.name)
def test_every_row_is_whole(row: object) -> None:
    assert row.kind in ("counter", "gauge", "histogram")
    assert row.unit
    assert row.exposed
    assert not any(name.endswith(("_sum", "_count")) for name in row.exposed)

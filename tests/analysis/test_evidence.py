"""The server's own counters: what they show, and when they show nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchcard.analysis.evidence import judge_evidence
from benchcard.analysis.read import read_bundle
from benchcard.analysis.records import BundleError

from .bundles import Cell, Row, ab_card, build

HIT_RATE = {"metric": "server.prefix_cache_hit_rate", "arm": "candidate", "direction": "at_least", "limit": 0.5}
ACCEPTANCE = "server.spec_decode_acceptance_length"
Server = Callable[[Cell, list[Row]], list[Row] | None]


def found(tmp_path: Path, server: Server, row: Row) -> Row:
    card = ab_card(method__blocks=2, method__spare_blocks=0)
    bundle = read_bundle(build(tmp_path, card, server=server))
    cells = [cell for block in bundle.blocks for cell in block.cells]
    return judge_evidence(bundle, [row], cells, [20.0])[0]


def samples(**counters: tuple[float, float]) -> list[Row]:
    """before and after of each counter; two underscores stand for the colon."""
    return [
        {"when": when, "name": name.replace("__", ":", 1), "labels": "{}", "value": value}
        for name, values in counters.items()
        for when, value in zip(("before", "after"), values, strict=True)
    ]


def test_a_rate_is_a_ratio_of_sums_over_the_arms_cells_at_the_claimed_loads(tmp_path: Path) -> None:
    def server(cell: Cell, _: list[Row]) -> list[Row]:
        if cell.arm == "baseline" or cell.load_point == 1:
            return samples(vllm__prefix_cache_hits_total=(0, 999), vllm__prefix_cache_queries_total=(0, 999))
        hits, queries = (60, 100) if cell.block == 1 else (100, 300)
        return samples(vllm__prefix_cache_hits_total=(5, 5 + hits), vllm__prefix_cache_queries_total=(7, 7 + queries))

    result = found(tmp_path, server, HIT_RATE)
    assert (result["observed"], result["word"], result["reason"]) == (160 / 400, "fails", None)
    assert found(tmp_path, server, HIT_RATE | {"limit": 0.4})["word"] == "holds"
    assert found(tmp_path, server, HIT_RATE | {"direction": "at_most", "limit": 0.4})["word"] == "holds"


def test_label_sets_add_up(tmp_path: Path) -> None:
    def server(_: Cell, __: list[Row]) -> list[Row]:
        rows = samples(vllm__prefix_cache_hits_total=(0, 10), vllm__prefix_cache_queries_total=(0, 20))
        return rows + [row | {"labels": '{"engine":"1"}'} for row in rows]

    assert found(tmp_path, server, HIT_RATE)["observed"] == 0.5


def test_what_happened_without_anything_to_divide_it_by_is_unknown(tmp_path: Path) -> None:
    """50 preemptions and no request finished: neither 0 nor a small number of them per request."""

    def server(preempted: int) -> Server:
        return lambda *_: samples(vllm__num_preemptions_total=(0, preempted), vllm__request_success_total=(3, 3))

    row = {"metric": "server.preemptions", "arm": "candidate", "direction": "at_most", "limit": 0.1}
    result = found(tmp_path / "some", server(50), row)
    assert (result["observed"], result["word"]) == (None, "unknown")
    # two blocks' cells
    assert result["reason"] == "no request was finished, yet 100 were counted that are divided by it"
    assert found(tmp_path / "none", server(0), row)["word"] == "holds"


def test_acceptance_length(tmp_path: Path) -> None:
    def server(_: Cell, __: list[Row]) -> list[Row]:
        return samples(
            vllm__spec_decode_num_accepted_tokens_total=(10, 40), vllm__spec_decode_num_drafts_total=(10, 30)
        )

    result = found(tmp_path, server, HIT_RATE | {"metric": ACCEPTANCE, "limit": 1.5})
    assert (result["observed"], result["word"]) == (2.5, "holds")


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (None, "the server's metrics were not read"),
        ([], "the server's metrics were not read"),
        (
            samples(vllm__prefix_cache_hits_total=(50, 10), vllm__prefix_cache_queries_total=(0, 100)),
            "vllm:prefix_cache_hits_total went backwards (was the server restarted within the cell, or did another "
            "replica answer?)",
        ),
        (
            samples(vllm__prefix_cache_hits_total=(0, 10)),
            "the server exposes none of vllm:prefix_cache_queries_total, vllm:gpu_prefix_cache_queries_total, "
            "sglang:prompt_tokens_total",
        ),
        (
            samples(vllm__prefix_cache_hits_total=(0, 10), vllm__prefix_cache_queries_total=(0, 100))[1:],
            "vllm:prefix_cache_hits_total was not read before the load",
        ),
    ],
)
def test_what_was_not_seen_is_unknown_and_never_zero(tmp_path: Path, rows: Any, reason: str) -> None:
    result = found(tmp_path, lambda cell, _: rows, HIT_RATE)
    assert (result["observed"], result["word"]) == (None, "unknown")
    assert result["reason"] == f"b01-candidate-l2: {reason}"


@pytest.mark.parametrize(("direction", "word"), [("at_least", "fails"), ("at_most", "holds")])
def test_a_cache_that_was_never_asked_never_hit(tmp_path: Path, direction: str, word: str) -> None:
    rows = samples(vllm__prefix_cache_hits_total=(0, 0), vllm__prefix_cache_queries_total=(0, 0))
    result = found(tmp_path, lambda cell, _: rows, HIT_RATE | {"direction": direction})
    assert (result["observed"], result["word"]) == (None, word)
    assert result["reason"] == "no prompt token was looked up in the cache"


def test_an_unknown_metric_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"no formula for 'server\.magic'"):
        found(tmp_path, lambda cell, rows: rows, HIT_RATE | {"metric": "server.magic"})

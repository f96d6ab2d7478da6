"""One system, swept and repeated."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from .bundles import Cell, Row, analyse, baseline_card, build


def slower_each_block(cell: Cell, events: list[Row]) -> list[Row]:
    """A TTFT of 100, 110, 120 ms in blocks 1, 2, 3, five chunks 20 ms apart."""
    out = []
    for row in events:
        first = row["scheduled"] + (90 + 10 * cell.block) * 1_000_000
        times = [first + i * 20_000_000 for i in range(5)]
        out.append(row | {"chunk_times": times, "first_token": times[0], "last_token": times[-1], "end": times[-1]})
    return out


def test_mean_and_stdev_over_the_repeats(tmp_path: Path) -> None:
    found = analyse(build(tmp_path, baseline_card(), rows=slower_each_block), apart=True)
    assert (found["baseline_version"], found["valid"]) == (1, True)
    assert [(row["load"], row["load_unit"]) for row in found["sweep"]] == [(1.0, "concurrent"), (4.0, "concurrent")]
    metrics = found["sweep"][0]["metrics"]
    ttft = metrics["ttft.p50"]
    assert ttft["values"] == pytest.approx([0.1, 0.11, 0.12])
    assert (ttft["mean"], ttft["stdev"]) == (pytest.approx(0.11), pytest.approx(0.01))
    # the spread of a number that does not vary is 0, not its rounding error
    assert (metrics["tpot.p50"]["mean"], metrics["tpot.p50"]["stdev"]) == (pytest.approx(0.02), 0.0)
    # 40 requests, one each 200 ms: 5 a second, 25 tokens a second; the reply before the window gives it its last token
    assert metrics["request_throughput"]["mean"] == pytest.approx(5.0)
    assert metrics["error_rate"]["mean"] == 0.0
    # four clients: four times as much
    assert found["sweep"][1]["metrics"]["request_throughput"]["mean"] == pytest.approx(20.0)


def test_a_p95_from_too_few_requests_is_labelled(tmp_path: Path) -> None:
    few = analyse(build(tmp_path / "few", baseline_card(method__blocks=1)))
    metrics = few["sweep"][0]["metrics"]
    assert metrics["ttft.p95"]["label"] == metrics["tpot.p95"]["label"] == "p95 from fewer than 130 requests"
    assert metrics["ttft.p95"]["requests"] == [40]
    assert metrics["ttft.p50"]["label"] is None
    assert metrics["ttft.p50"]["reason"] == "one block has no spread"
    window = {"warmup": {"requests": 4}, "measure": {"requests": 130}, "drain": 2.0}
    enough = analyse(build(tmp_path / "enough", baseline_card(method__blocks=1, workload__window=window)))
    assert enough["sweep"][0]["metrics"]["ttft.p95"]["label"] is None


def test_objectives_may_be_absent(tmp_path: Path) -> None:
    found = analyse(build(tmp_path, baseline_card()))
    row = found["attribution"][0]
    assert (row["attempted"], row["good"], row["per_second"]["good"]) == (120, None, None)
    assert row["missed"] == {"success": 0}
    assert not (tmp_path / "series" / "goodput.parquet").exists()


def test_a_repeat_that_is_missing_makes_it_invalid(tmp_path: Path) -> None:
    found = analyse(build(tmp_path, baseline_card(), skip=lambda cell: cell.block == 2))
    assert (found["valid"], found["because"][0]["code"]) == (False, "incomplete")
    assert found["because"][0]["text"] == "2 of 3 repeats are valid"


def test_latency_curves(tmp_path: Path) -> None:
    analyse(build(tmp_path, baseline_card(), rows=slower_each_block))
    curves = pl.read_parquet(tmp_path / "series" / "latency.parquet")
    assert curves.columns == ["arm", "load_point", "load", "metric", "percentile", "value_s", "n", "lower_s", "upper_s"]
    assert set(curves["metric"]) == {"ttft", "tpot", "itl", "e2e"}
    ttft = curves.filter((pl.col("metric") == "ttft") & (pl.col("load_point") == 1))
    assert ttft["n"].unique().to_list() == [120]
    assert ttft.filter(pl.col("percentile") == 0.5)["value_s"].item() == pytest.approx(0.11)
    assert ttft["value_s"].is_sorted()
    assert ttft.height <= 101

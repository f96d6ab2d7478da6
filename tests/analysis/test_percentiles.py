"""Percentiles: what n carries, intervals by rank, and "at most X", against tables and plain sums."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from benchcard.analysis import percentiles
from benchcard.analysis.curves import CURVE_POINTS, pool, thin
from benchcard.schema.metrics import PERCENTILE_NEEDS
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from .bundles import MS, Row, ab_card, analyse, baseline_card, build, event

NS = [(0, 44, 90, 152, 459), (1, 64, 130, 219, 662), (2, 81, 165, 277, 838), (3, 97, 198, 332, 1001)]
NS += [(5, 127, 259, 433, 1307), (10, 197, 398, 667, 2010)]


def below(k: int, n: int, percent: int) -> Fraction:
    """P(X ≤ k), X binomial (n, percent%), by adding up."""
    p = Fraction(percent, 100)
    return sum((comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1)), Fraction(0))


@pytest.mark.parametrize(("violations", "p90", "p95", "p97", "p99"), NS)
def test_smallest_n(violations: int, p90: int, p95: int, p97: int, p99: int) -> None:
    """The p99 of one violation, 662, is also in the MLPerf inference rules."""
    found = [percentiles.smallest_n(violations, percent) for percent in (90, 95, 97, 99)]
    assert found == [p90, p95, p97, p99]
    for percent, n in zip((90, 95, 97, 99), found, strict=True):
        assert stats.binom.cdf(violations, n, 1 - percent / 100) <= 0.01
        assert stats.binom.cdf(violations, n - 1, 1 - percent / 100) > 0.01


def test_the_catalogue_has_the_same_needs() -> None:
    assert {f"p{percent}": percentiles.needed(percent) for percent in (90, 95, 97, 99)} == PERCENTILE_NEEDS
    # 12 / 2^11 = .0059, but 11 / 2^10 = .0107
    assert percentiles.needed(50) == 11


@pytest.mark.parametrize(
    ("n", "percent", "lower", "upper"),
    [(1000, 99, 983, 997), (2000, 99, 1971, 1989), (10_000, 99, 9880, 9920), (1000, 50, 469, 532)],
)
def test_ranks(n: int, percent: int, lower: int, upper: int) -> None:
    low, high = percentiles.interval_ranks(n, np.array([percent / 100]), 0.95)
    assert (low[0], high[0]) == (lower, upper)


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 60), percent=st.integers(1, 99))
def test_ranks_are_the_tightest_with_their_tails(n: int, percent: int) -> None:
    tail = Fraction(1, 40)
    lower = max((r for r in range(1, n + 1) if below(r - 1, n, percent) <= tail), default=0)
    upper = min((s for s in range(1, n + 1) if 1 - below(s - 1, n, percent) <= tail), default=n + 1)
    low, high = percentiles.interval_ranks(n, np.array([percent / 100]), 0.95)
    assert (low[0], high[0]) == (lower, upper)


def test_the_ends_of_a_distribution_have_no_interval() -> None:
    low, high = percentiles.interval_ranks(100, np.array([0.0, 1.0]), 0.95)
    assert (low[0], high[1]) == (0, 101)


@settings(max_examples=60, deadline=None)
@given(violations=st.integers(0, 12), attempts=st.integers(0, 80), percent=st.sampled_from([50, 90, 95]))
def test_established_is_the_binomial_test(violations: int, attempts: int, percent: int) -> None:
    chance = below(violations, attempts, 100 - percent) if violations < attempts else Fraction(1)
    assert percentiles.established(violations, attempts, percent) == (chance <= Fraction(1, 100))
    most = percentiles.allowed(attempts, percent)
    passing = [t for t in range(attempts) if below(t, attempts, 100 - percent) <= Fraction(1, 100)]
    assert most == max(passing, default=None)


@pytest.mark.parametrize(
    ("n", "highest", "reason"),
    [
        (0, None, "p99 needs 662 values; 0 here"),
        (10, None, "p99 needs 662 values; 10 here"),
        (63, 50, "p99 needs 662 values; 63 here"),
        (320, 97, "p99 needs 662 values; 320 here"),
        (662, 99, None),
    ],
)
def test_what_n_carries(n: int, highest: int | None, reason: str | None) -> None:
    assert percentiles.highest_carried(n) == highest
    assert percentiles.withheld(n, 99) == reason


@settings(max_examples=30, deadline=None)
@given(sizes=st.lists(st.integers(1, 50), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_pooled_ranks_are_those_of_all_values_together(sizes: list[int], seed: int) -> None:
    draws = [np.sort(np.random.default_rng(seed + i).integers(0, 20, n).astype(float)) for i, n in enumerate(sizes)]
    together = np.sort(np.concatenate(draws))
    found = pool([thin(draw) for draw in draws])
    assert found.n == len(together)
    assert found.at(np.arange(1, len(together) + 1)).tolist() == together.tolist()


def test_a_thinned_curve_is_off_by_no_more_than_its_step() -> None:
    ordered = np.arange(100_000, dtype=np.float64)
    rank = np.arange(1, 100_001, 997)
    off = pool([thin(ordered)]).at(rank) - (rank - 1)
    assert off.min() >= 0
    assert off.max() <= 100_000 / CURVE_POINTS


def row(rows: list[Row], **wanted: object) -> Row:
    (found,) = [r for r in rows if all(r[key] == value for key, value in wanted.items())]
    return found


def with_ttft(ms: Callable[[Any, int], int]) -> Any:
    """A hook for `build`: each reply moved so that its TTFT is exactly that many ms."""

    def move(cell: Any, rows: list[Row]) -> list[Row]:
        for i, each in enumerate(rows):
            shift = each["scheduled"] + ms(cell, i) * MS - each["first_token"]
            each["chunk_times"] = [t + shift for t in each["chunk_times"]]
            for key in ("first_token", "last_token", "first_answer_token", "first_byte", "end"):
                each[key] = None if each.get(key) is None else each[key] + shift
        return rows

    return move


def test_rows_of_a_run(tmp_path: Path) -> None:
    """8 blocks of 100 requests at 20 req/s, all with a TTFT of 100 ms: 800 values carry p99, 100 carry p90."""
    verdict = analyse(build(tmp_path, rows=with_ttft(lambda cell, i: 100)))
    place = {"arm": "baseline", "load_point": 2, "metric": "ttft"}
    assert row(verdict["latency"], **place, percentile=99) == {
        **place, "load": 20.0, "percentile": 99, "value_s": 0.1, "interval_s": [0.1, 0.1], "n": 800, "attempts": 800,
        "withheld": None, "basis": "pooled over blocks: description", "blocks": 8, "block_mean_s": None,
        "block_interval_s": None, "block_reason": "p99 needs 662 values in each block; the least has 100",
    }  # fmt: skip
    at_90 = row(verdict["latency"], **place, percentile=90)
    assert (at_90["block_mean_s"], at_90["block_interval_s"], at_90["block_reason"]) == (0.1, [0.1, 0.1], None)
    few = row(verdict["latency"], **(place | {"load_point": 1}), percentile=99)
    assert (few["value_s"], few["interval_s"], few["withheld"]) == (None, None, "p99 needs 662 values; 400 here")


def test_the_interval_over_blocks(tmp_path: Path) -> None:
    """Medians of 101, 102, ... 108 ms: mean 104.5, s = sqrt(6), t(.975, 7) = 2.364624."""
    found = analyse(build(tmp_path, rows=with_ttft(lambda cell, i: 100 + cell.block)))
    at = row(found["latency"], arm="candidate", load_point=2, metric="ttft", percentile=50)
    half = 2.364624 * 6**0.5 / 8**0.5
    assert at["block_mean_s"] == pytest.approx(0.1045)
    assert at["block_interval_s"] == pytest.approx([(104.5 - half) / 1000, (104.5 + half) / 1000], rel=1e-6)


def test_objectives_count_errors_as_violations(tmp_path: Path) -> None:
    """800 attempts at 20 req/s; 2% too late and one failed in each block: 16 + 8 = 24 violations. binom.cdf(24, 800,
    .05) = .0044 and binom.cdf(24, 800, .03) = .55: p95. p97 allows 13 (cdf .0072; of 14 .0140)."""

    def failed(cell: Any, rows: list[Row]) -> list[Row]:
        counted = [i for i, r in enumerate(rows) if r["phase"] == "measure" and r["first_token"] is not None]
        late = {i for i in counted if rows[i]["first_token"] - rows[i]["scheduled"] > 600_000_000}
        i = next(i for i in counted if i not in late)
        keep = ("run", "cell", "block", "arm", "load_point", "load", "phase", "prompt_digest", "queued", "sent")
        rows[i] = event(rows[i]["index"], scheduled=rows[i]["scheduled"], **{k: rows[i][k] for k in keep})
        return rows

    verdict = analyse(build(tmp_path, ab_card(), good=lambda block, arm, point: 0.98, rows=failed))
    assert stats.binom.cdf(24, 800, 0.05) <= 0.01 < stats.binom.cdf(24, 800, 0.03)
    most = max(t for t in range(30) if stats.binom.cdf(t, 800, 0.03) <= 0.01)
    assert row(verdict["objective_percentiles"], arm="candidate", load_point=2) == {
        "arm": "candidate", "load_point": 2, "load": 20.0, "population": None, "metric": "ttft", "limit_s": 0.6,
        "percentile": 95, "violations": 24, "n": 800,
        "reason": f"p97 allows {most} violations among 800; 24 here",
        "basis": "pooled over blocks, requests taken as independent: description",
    }  # fmt: skip


def test_nothing_but_failures_is_defined(tmp_path: Path) -> None:
    def fail(cell: Any, rows: list[Row]) -> list[Row]:
        keep = ("run", "cell", "block", "arm", "load_point", "load", "phase", "prompt_digest", "queued", "sent")
        return [event(r["index"], scheduled=r["scheduled"], **{k: r[k] for k in keep}) for r in rows]

    verdict = analyse(build(tmp_path, rows=fail))
    at = row(verdict["latency"], arm="baseline", load_point=2, metric="e2e", percentile=50)
    assert (at["value_s"], at["withheld"]) == (None, "no value among 800 attempts")
    assert at["block_reason"] == "p50 needs 11 values in each block; the least has 0"
    found = row(verdict["objective_percentiles"], arm="baseline", load_point=2)
    assert (found["percentile"], found["violations"]) == (None, 800)
    most = max(t for t in range(800) if stats.binom.cdf(t, 800, 0.5) <= 0.01)
    assert found["reason"] == f"p50 allows {most} violations among 800; 800 here"
    assert (verdict["knee"]["baseline"]["word"], verdict["knee"]["baseline"]["points"][0]["lower"]) == (
        "below the lowest load",
        0.0,
    )


def test_no_run_is_defined(tmp_path: Path) -> None:
    card = baseline_card()
    found = analyse(build(tmp_path, card, skip=lambda cell: True))
    assert {at["withheld"] for at in found["latency"]} == {"no counted attempts"}
    assert {at["block_reason"] for at in found["latency"]} == {"no valid block"}


def test_the_curve_has_its_interval(tmp_path: Path) -> None:
    """TTFTs of 100 to 149 ms in 8 blocks of 50: the ranks are those of scipy's binom.ppf."""
    build(tmp_path, rows=with_ttft(lambda cell, i: 100 + i * 37 % 50))
    analyse(tmp_path)
    events = pl.concat(
        pl.read_parquet(path, columns=["phase", "first_token", "scheduled"])
        for path in sorted((tmp_path / "events").glob("*-baseline-l1.parquet"))
    ).filter(pl.col("phase") == "measure")
    values = np.sort((events["first_token"] - events["scheduled"]).to_numpy() / 1e9)
    curve = pl.read_parquet(tmp_path / "series" / "latency.parquet").filter(
        (pl.col("arm") == "baseline") & (pl.col("load_point") == 1) & (pl.col("metric") == "ttft")
    )
    n = len(values)
    assert curve["n"].unique().to_list() == [n]
    for share, low, high in curve.select("percentile", "lower_s", "upper_s").rows():
        r, s = (int(stats.binom.ppf(0.025, n, share)), int(stats.binom.ppf(0.975, n, share)) + 1)
        assert low == (None if share == 0 or r < 1 else pytest.approx(values[r - 1]))
        assert high == (None if share == 1 or s > n else pytest.approx(values[s - 1]))


def test_each_population_has_its_own_objectives(tmp_path: Path) -> None:
    """Every third request is batch's, whose own limit of 50 ms all of them miss."""

    def mixed(cell: Any, rows: list[Row]) -> list[Row]:
        return [each | {"population": "batch" if each["index"] % 3 == 0 else "chat"} for each in rows]

    own = {"success": True, "ttft": {"at_most": 0.05}}
    mix = {"chat": {"share": 0.67}, "batch": {"share": 0.33, "objectives": own}}
    card = ab_card(workload__populations=mix)
    found = analyse(build(tmp_path, card, rows=mixed))["objective_percentiles"]
    chat, batch = (row(found, arm="baseline", load_point=2, population=name) for name in mix)
    assert (chat["limit_s"], chat["percentile"], chat["violations"]) == (0.6, 99 if chat["n"] >= 459 else 97, 0)
    assert (batch["limit_s"], batch["percentile"], batch["violations"]) == (0.05, None, batch["n"])
    assert chat["n"] + batch["n"] == 800

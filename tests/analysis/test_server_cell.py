"""Counters, gauges and resets of a server over one cell; expected values by hand."""

from __future__ import annotations

import math

import polars as pl
import pytest
from benchcard.analysis.server_cell import read_server
from benchcard.analysis.server_page import over_time
from hypothesis import given
from hypothesis import strategies as st

from .pages import SECOND, both, gauge, histogram, load, page, row

RUNNING, WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
TOKENS, START = "vllm:generation_tokens_total", "process_start_time_seconds"
AGAIN = "(was the server restarted within the cell, or did another replica answer?)"


def test_counters_are_changes_and_histograms_sums_and_counts() -> None:
    told = read_server(
        page(both(TOKENS, 100, 350), histogram("vllm:time_to_first_token_seconds", (2.0, 10), (3.5, 16))), load(0, 10)
    )
    assert told is not None
    assert told.change("generation_tokens") == (250.0, None)
    assert (told.change("ttft.sum"), told.change("ttft.count")) == ((1.5, None), (6.0, None))
    assert told.mean_of("ttft") == 0.25
    assert told.seconds == 10.0
    assert told.reset is None


def test_engines_add_up_and_stand_apart() -> None:
    told = read_server(page(both(TOKENS, 0, 30, engine="0"), both(TOKENS, 5, 15, engine="1")), load(0, 1))
    assert told is not None
    assert told.engines == ("0", "1")
    assert told.change("generation_tokens") == (40.0, None)
    assert told.change("generation_tokens", "1") == (10.0, None)
    assert told.change("generation_tokens", "2") == (None, "engine 2 does not expose it")


def test_labels_within_an_engine_add_up_and_a_new_one_starts_at_zero() -> None:
    name = "vllm:request_success_total"
    rows = [
        *both(name, 3, 7, engine="0", finished_reason="length"),
        row("after", name, 2, 99, engine="0", finished_reason="abort"),
    ]
    told = read_server(page(rows), load(0, 1))
    assert told is not None
    assert told.change("finished") == (6.0, None)
    assert told.aborted == 2.0


def test_a_gauge_is_a_mean_over_the_time_of_the_load() -> None:
    """Samples at 2, 4 and 8 s of a load from 1 to 9 s: the first stands for 1 to 3, the second for 3 to 6, the third
    for 6 to 9 s: (2·2 + 3·8 + 3·4) / 8 = 5. What was sampled outside the load does not count."""
    told = read_server(page(gauge(RUNNING, (0.5, 99), (2, 2), (4, 8), (8, 4), (9.5, 99))), load(1, 9))
    assert told is not None
    found, why = told.gauge("running")
    assert found is not None, why
    assert (found.integral, found.seconds, found.mean, found.most, found.samples) == (40.0, 8.0, 5.0, 8.0, 3)
    assert found.stdev == pytest.approx(math.sqrt(((2 - 14 / 3) ** 2 + (8 - 14 / 3) ** 2 + (4 - 14 / 3) ** 2) / 2))


def test_gauges_of_several_engines_add_up_and_shares_are_means() -> None:
    kv = "vllm:kv_cache_usage_perc"
    told = read_server(
        page(
            gauge(RUNNING, (1, 4), (2, 0), engine="0"), gauge(RUNNING, (1, 0), (2, 6), engine="1"),
            gauge(kv, (1, 0.2), engine="0"), gauge(kv, (1, 0.6), engine="1"),
        ),
        load(0, 3),
    )  # fmt: skip
    assert told is not None
    together, first, share = told.gauge("running")[0], told.gauge("running", "0")[0], told.gauge("kv_usage")[0]
    assert together is not None
    assert first is not None
    assert share is not None
    # the most of the sum is 6, not 4 + 6
    assert (together.mean, together.most) == (5.0, 6.0)
    assert (first.mean, first.most) == (2.0, 4.0)
    assert share.mean == pytest.approx(0.4)


def test_running_and_waiting_together() -> None:
    told = read_server(page(gauge(RUNNING, (1, 4), (3, 2)), gauge(WAITING, (1, 1), (3, 5))), load(0, 4))
    assert told is not None
    found = told.in_system[0]
    assert found is not None
    assert (found.mean, found.most) == (6.0, 7.0)


def test_a_load_without_samples_has_no_gauge() -> None:
    told = read_server(page(gauge(RUNNING)), load(0, 1))
    assert told is not None
    assert told.gauge("running") == (None, "vllm:num_requests_running was not sampled during the load")
    assert told.in_system[0] is None


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("old", [True, False])
def test_old_and_new_names(new: bool, old: bool) -> None:
    """Where both are exposed the new one is read; the old one alone is read too; neither is no number."""
    rows = []
    if new:
        rows += gauge("vllm:kv_cache_usage_perc", (1, 0.5)) + histogram(
            "vllm:inter_token_latency_seconds", (0, 0), (2, 4)
        )
        rows += both("vllm:prefix_cache_hits_total", 0, 7)
    if old:
        rows += gauge("vllm:gpu_cache_usage_perc", (1, 0.25))
        rows += histogram("vllm:time_per_output_token_seconds", (0, 0), (9, 3))
        rows += both("vllm:gpu_prefix_cache_hits_total", 0, 3)
    told = read_server(page(rows or both(TOKENS, 0, 1)), load(0, 2))
    assert told is not None
    usage, _ = told.gauge("kv_usage")
    if not new and not old:
        assert usage is None
        assert told.change("itl.sum")[0] is None
        assert told.why("kv_usage") == (
            "the server exposes none of vllm:kv_cache_usage_perc, vllm:gpu_cache_usage_perc, sglang:token_usage"
        )
        return
    assert usage is not None
    assert usage.mean == (0.5 if new else 0.25)
    assert told.mean_of("itl") == (0.5 if new else 3.0)
    assert told.change("prefix_hits") == (7.0 if new else 3.0, None)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (both(START, 1000.0, 2000.0), f"{START} changed {AGAIN}"),
        ([*both(START, 1000.0, 1000.0), row("during", START, 2000.0, 1)], f"{START} changed {AGAIN}"),
        (both("vllm:generation_tokens_created", 5.0, 6.0), f"vllm:generation_tokens_created changed {AGAIN}"),
        (both("vllm:prompt_tokens_total", 50, 10), f"vllm:prompt_tokens_total went backwards {AGAIN}"),
        # it came back above where it was: only the sample in between shows it
        (
            [*both("vllm:prompt_tokens_total", 50, 60), row("during", "vllm:prompt_tokens_total", 2, 1)],
            f"vllm:prompt_tokens_total went backwards {AGAIN}",
        ),
        (
            [*both("vllm:prompt_tokens_total", 5, 9), row("before", "vllm:prompt_tokens_total", 5, -1, engine="1")],
            f"vllm:prompt_tokens_total lost a label set {AGAIN}",
        ),
        (
            histogram("vllm:e2e_request_latency_seconds", (9, 3), (8, 4)),
            f"vllm:e2e_request_latency_seconds_sum went backwards {AGAIN}",
        ),
    ],
)
def test_a_reset_makes_every_number_of_the_cell_unknown(rows: list[dict[str, object]], reason: str) -> None:
    """Also those of counters that look whole: one that stood at 0 would not show that it was reset."""
    told = read_server(page(both(TOKENS, 0, 500), gauge(RUNNING, (1, 3)), rows), load(0, 2))
    assert told is not None
    assert told.reset == reason
    assert told.change("generation_tokens") == (None, reason)
    assert told.change("ttft.count") == (None, reason)
    assert told.gauge("running") == (None, reason)
    assert told.in_system == (None, reason)


def test_what_was_not_read_at_one_end_is_unknown() -> None:
    told = read_server(page([row("after", TOKENS, 5, 99)]), load(0, 1))
    assert told is not None
    assert told.change("generation_tokens") == (None, f"{TOKENS} was not read before the load")
    # the server died in the cell
    told = read_server(page([row("before", TOKENS, 5, -1)]), load(0, 1))
    assert told is not None
    assert told.change("generation_tokens") == (None, f"{TOKENS} was not read after the load")


def test_no_page_is_no_server() -> None:
    assert read_server(None) is None
    assert read_server(page()) is None


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_value_that_is_no_number(value: float) -> None:
    told = read_server(page(both(TOKENS, 0, value), gauge(RUNNING, (1, value), (2, 3))), load(0, 3))
    assert told is not None
    assert told.change("generation_tokens") == (None, f"{TOKENS} is not a finite number")
    running = told.gauge("running")[0]
    assert running is not None
    assert (running.mean, running.samples) == (3.0, 1)


def test_a_bundle_from_before_there_was_a_time() -> None:
    samples = page(both(TOKENS, 1, 4)).with_columns(time=pl.lit(None, dtype=pl.Int64))
    told = read_server(samples)
    assert told is not None
    assert told.change("generation_tokens") == (3.0, None)


def brute_force(at: dict[int, float], span: tuple[int, int]) -> float:
    """The mean over every ns of the span of the nearest sample."""
    total = 0.0
    for tick in range(*span):
        total += at[min(at, key=lambda time: (abs(time - (tick + 0.5)), time))]
    return total / (span[1] - span[0])


@given(
    st.dictionaries(st.integers(0, 40), st.integers(0, 9), min_size=1, max_size=8),
    st.integers(1, 40),
)
def test_the_mean_is_that_of_the_nearest_sample(at: dict[int, int], more: int) -> None:
    # times are doubled, so that no middle between two samples splits a tick
    samples = {2 * time: float(value) for time, value in at.items()}
    span = (0, 80 + more)
    found = over_time(samples, span)
    assert found is not None
    assert found.mean == pytest.approx(brute_force(samples, span))
    assert min(samples.values()) - 1e-9 <= found.mean <= found.most + 1e-9
    assert found.most == max(samples.values())
    assert found.seconds == pytest.approx(span[1] / SECOND)


@pytest.mark.parametrize("lost", [math.nan, math.inf, -math.inf])
def test_a_sample_that_is_no_number_hides_no_reset(lost: float) -> None:
    """100 before, no number during, 50 after: the counter was reset, and its change is not -50."""
    told = read_server(
        page(both(TOKENS, 100, 50), [row("during", TOKENS, lost, 3)], both("vllm:num_preemptions_total", 0, 0)),
        load(0, 10),
    )
    assert told is not None
    assert told.reset == f"{TOKENS} went backwards {AGAIN}"
    assert told.change("generation_tokens") == (None, told.reset)


def test_a_start_time_that_is_no_number_is_no_restart() -> None:
    told = read_server(page(both(START, math.nan, 7), [row("during", START, math.nan, 3)]), load(0, 10))
    assert told is not None
    assert told.reset is None


def test_a_share_told_by_several_ranks_of_one_engine_is_their_mean() -> None:
    """Two label sets of one engine, 80% and 60% of their caches in use: 70%, not 140%; requests still add up."""
    used, running = "sglang:token_usage", "sglang:num_running_reqs"
    told = read_server(
        page(
            gauge(used, (2, 0.8), (4, 0.8), dp_rank="0"), gauge(used, (2, 0.6), (4, 0.6), dp_rank="1"),
            gauge(running, (2, 3), (4, 3), dp_rank="0"), gauge(running, (2, 4), (4, 4), dp_rank="1"),
        ),
        load(1, 5),
    )  # fmt: skip
    assert told is not None
    shares, requests = told.gauge("kv_usage")[0], told.gauge("running")[0]
    assert shares is not None
    assert requests is not None
    assert (shares.mean, shares.most) == pytest.approx((0.7, 0.7))
    assert requests.mean == 7.0


def test_a_sample_without_one_of_the_engines_numbers_is_left_out() -> None:
    """At 4 s engine 1 says NaN: the sum of the two is not known then, and is not engine 0's alone."""
    told = read_server(
        page(
            gauge(RUNNING, (2, 5), (4, 5), (6, 5), engine="0"),
            gauge(RUNNING, (2, 5), (4, math.nan), (6, 5), engine="1"),
        ),
        load(1, 7),
    )
    assert told is not None
    together, first = told.gauge("running")[0], told.gauge("running", "0")[0]
    assert together is not None
    assert first is not None
    assert (together.mean, together.samples) == (10.0, 2)
    assert (first.mean, first.samples) == (5.0, 3)

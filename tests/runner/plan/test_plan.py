"""The plan is a pure function of card and seed."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchcard.runner.plan import prompts
from benchcard.runner.plan.blocks import plan_blocks
from benchcard.runner.plan.draws import Stream, zipf_cumulative
from benchcard.runner.plan.plan import canonical_row, make_plan, write_plan
from benchcard.runner.plan.prompts import Prompts, prompt_digest, salted
from benchcard.runner.plan.requests import PlannedRequest, plan_requests
from benchcard.runner.plan.window import Phases
from benchcard.schema.card import load_card
from benchcard.schema.digest import canonical_json
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ..cards import small_card


@pytest.fixture
def card(tmp_path: Path) -> dict[str, Any]:
    return load_card(small_card(tmp_path, loads="20 req/s, 40 req/s")).resolved


def test_the_same_card_and_seed_give_the_same_bytes(card: dict[str, Any], tmp_path: Path) -> None:
    files = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        write_plan(make_plan(card, "sha256:x"), folder)
        files.append([(folder / file).read_bytes() for file in ("plan.json", "plan/requests.parquet")])
    assert files[0] == files[1]
    assert make_plan(card, "sha256:x", seed=12).digest() != make_plan(card, "sha256:x").digest()


def test_raw_words_are_those_of_pcg64_seeded_with_the_purpose() -> None:
    """The stream is fixed for good: raw PCG64 words, from a seed that is the SHA-256 of seed and purpose."""
    import hashlib

    state = int.from_bytes(hashlib.sha256(b"7/arrivals/3/1").digest(), "big")
    assert Stream(7, "arrivals", 3, 1).raw(4).tolist() == np.random.PCG64(state).random_raw(4).tolist()
    # Written down once, so that a numpy that changes its stream is noticed.
    assert Stream(7, "arrivals", 3, 1).raw(2).tolist() == PINNED_WORDS


EIGHT = {"median": 8, "sigma": 0.4}
PINNED_WORDS = [17018684684286432532, 60712086730437599]


def test_in_a_window_that_is_a_time_the_time_decides() -> None:
    """Whatever order turns are taken in (clients of several workers): what is scheduled inside counts."""
    phases = Phases({"warmup": {"seconds": 1e-8}, "measure": {"seconds": 2e-8}})
    assert [phases.of(i, at) for i, at in enumerate([5, 11, 9, 29, 31, 28, 30])] == [
        "warmup", "measure", "warmup", "measure", "drain", "measure", "drain",
    ]  # fmt: skip
    mixed = Phases({"warmup": {"requests": 2}, "measure": {"seconds": 2e-8}})
    assert [mixed.of(i, at) for i, at in enumerate([5, 6, 10, 9, 29, 31, 30])] == [
        "warmup", "warmup", "measure", "warmup", "measure", "drain", "drain",
    ]  # fmt: skip
    assert (mixed.window_start, mixed.window_end) == (10, 30)


def test_draws_have_their_distributions() -> None:
    gaps = np.array(Stream(1, "gaps").exponential_ns(20000, 50.0)) / 1e9
    assert stats.kstest(gaps, "expon", args=(0, 1 / 50)).pvalue > 0.01
    assert stats.kstest(Stream(1, "normal").normals(20000), "norm").pvalue > 0.01
    tokens = Stream(1, "tokens").token_ids(200000)
    assert (tokens.min(), tokens.max()) == (1000, 29999)
    assert stats.chisquare(np.bincount((tokens - 1000) // 290)).pvalue > 0.01


def test_zipf() -> None:
    weights = np.arange(1, 6) ** -1.1
    assert zipf_cumulative(5, 1.1) == pytest.approx(np.cumsum(weights / weights.sum()))


@given(st.integers(0, 2**63 - 1), st.integers(1, 30))
@settings(max_examples=60, deadline=None)
def test_shuffles_are_permutations(seed: int, n: int) -> None:
    assert sorted(Stream(seed, "x").shuffled(list(range(n)))) == list(range(n))


def test_orders_are_uniform() -> None:
    counts = Counter(tuple(Stream(seed, "order").shuffled([1, 2, 3])) for seed in range(6000))
    assert len(counts) == 6
    assert stats.chisquare(list(counts.values())).pvalue > 0.01


def test_blocks_hold_every_cell_once(card: dict[str, Any]) -> None:
    for block in plan_blocks(card, 3):
        assert sorted(cell.cell for cell in block.cells) == sorted(
            f"b{block.block:02d}-{arm}-l{point}" for arm in ("baseline", "candidate") for point in (1, 2)
        )
        # Restarted for each arm in a block: an arm goes through the loads, in the block's order.
        assert [cell.arm for cell in block.cells] == [block.arms[0]] * 2 + [block.arms[1]] * 2
        assert [cell.load_point for cell in block.cells] == block.loads * 2


@given(seed=st.integers(0, 2**63 - 1))
@settings(max_examples=20, deadline=None)
def test_blocks_share_no_prompt(seed: int) -> None:
    workload = {
        "arrivals": {"process": "poisson"}, "load_kind": "rate", "loads": [20.0],
        "window": {"warmup": {"seconds": 0.2}, "measure": {"requests": 10}, "drain": 0.5},
        "requests": {
            "lengths": {"input": EIGHT, "output": EIGHT, "correlation": 0.5},
            "prefix": {"documents": 3, "tokens": 20, "choice": {"law": "uniform"}},
        },
    }  # fmt: skip
    seen: set[bytes] = set()
    for block in (1, 2, 3):
        requests = plan_requests({"workload": workload}, seed, block, 1)
        text = Prompts({"workload": workload}, seed)
        documents = {text.tokens((block, 1), r)[:20].tobytes() for r in requests}
        assert len(documents) <= 3
        assert not documents & seen
        seen |= documents
        assert [r.index for r in requests] == list(range(len(requests)))
        assert sum(r.phase == "measure" for r in requests) == 10
        offsets = [r.offset_ns for r in requests]
        assert offsets == sorted(offsets)
        digests = [prompt_digest(text.tokens((block, 1), r)) for r in requests]
        assert len(set(digests)) == len(digests)


def test_poisson_arrivals_fill_the_window(card: dict[str, Any]) -> None:
    counts = []
    for block in range(1, 301):
        requests = plan_requests(card, 5, block, 2)
        inside = [r for r in requests if r.phase == "measure"]
        assert all(100_000_000 <= r.offset_ns < 600_000_000 for r in inside)
        assert requests[-1].phase == "drain"
        counts.append(len(inside))
    # 40 req/s for 0.5 s: Poisson with mean and variance 20.
    assert np.mean(counts) == pytest.approx(20, abs=4 * math.sqrt(20 / 300))
    assert np.var(counts) / np.mean(counts) == pytest.approx(1, abs=4 * math.sqrt(2 / 300))


def test_constant_arrivals() -> None:
    workload = {
        "arrivals": {"process": "constant"}, "load_kind": "rate", "loads": [10.0],
        "window": {"warmup": {"requests": 1}, "measure": {"seconds": 0.3}, "drain": 0.2},
        "requests": {
            "lengths": {"input": {"median": 4, "sigma": 0}, "output": {"median": 6, "sigma": 0}}, "prefix": None,
        },
    }  # fmt: skip
    requests = plan_requests({"workload": workload}, 1, 1, 1)
    assert [(r.offset_ns, r.phase) for r in requests] == [
        (100_000_000, "warmup"), (200_000_000, "measure"), (300_000_000, "measure"), (400_000_000, "measure"),
        (500_000_000, "drain"), (600_000_000, "drain"), (700_000_000, "drain"),
    ]  # fmt: skip
    assert {(r.input_tokens, r.output_tokens) for r in requests} == {(4, 6)}


def test_lengths_keep_their_correlation() -> None:
    workload = {
        "arrivals": {"process": "constant"}, "load_kind": "rate", "loads": [1000.0],
        "window": {"warmup": {"requests": 0}, "measure": {"requests": 4000}, "drain": 0.0},
        "requests": {
            "lengths": {
                "input": {"median": 2000, "sigma": 0.4}, "output": {"median": 500, "sigma": 0.5}, "correlation": 0.6,
            },
            "prefix": None,
        },
    }  # fmt: skip
    requests = plan_requests({"workload": workload}, 1, 1, 1)
    logs = np.log([[r.input_tokens, r.output_tokens] for r in requests])
    assert np.corrcoef(logs.T)[0, 1] == pytest.approx(0.6, abs=0.04)
    assert np.exp(np.median(logs, axis=0)) == pytest.approx([2000, 500], rel=0.04)
    assert logs.std(axis=0) == pytest.approx([0.4, 0.5], rel=0.05)


def test_windows_by_time_and_by_count() -> None:
    by_count = Phases({"warmup": {"requests": 1}, "measure": {"requests": 2}})
    assert [by_count.of(i, 10 * i) for i in range(4)] == ["warmup", "measure", "measure", "drain"]
    assert (by_count.window_start, by_count.window_end) == (10, 30)
    by_time = Phases({"warmup": {"seconds": 1e-8}, "measure": {"seconds": 2e-8}})
    assert [by_time.of(i, 10 * i + 5) for i in range(4)] == ["warmup", "measure", "measure", "drain"]
    assert (by_time.window_start, by_time.window_end) == (10, 30)


def test_salt_keeps_the_length_and_parts_the_arms() -> None:
    tokens = Stream(1, "t").token_ids(10)
    one, other = salted(tokens, "baseline"), salted(tokens, "candidate")
    assert len(one) == len(other) == 10
    assert one[:4].tolist() != other[:4].tolist()
    assert one[4:].tolist() == other[4:].tolist() == tokens[4:].tolist()
    assert salted(tokens, None).tolist() == tokens.tolist()


@given(
    key=st.tuples(st.integers(1, 99), st.integers(1, 9)),
    numbers=st.tuples(*[st.integers(0, 2**53 - 1)] * 4),
    maybe=st.tuples(*[st.none() | st.integers(0, 2**53 - 1)] * 3),
    phase=st.sampled_from(["", "warmup", "measure", "drain"]),
)
def test_a_row_is_written_in_canonical_json(
    key: tuple[int, int], numbers: tuple[int, ...], maybe: tuple[int | None, ...], phase: str
) -> None:
    index, prefix, inputs, outputs = numbers
    request = PlannedRequest(index, phase, maybe[0], maybe[1], maybe[2], prefix, inputs, outputs)
    digest = "0123456789abcdef" * 4
    wanted = [*key, index, phase, *maybe, prefix, inputs, outputs, digest]
    assert canonical_row(key, request, digest) == canonical_json(wanted)


def test_the_digest_of_a_planned_prompt_is_that_of_its_tokens(card: dict[str, Any]) -> None:
    text = Prompts(card, 11)
    for request in plan_requests(card, 11, 1, 1)[:50]:
        assert text.digest((1, 1), request) == prompt_digest(text.tokens((1, 1), request))
        alone = replace(request, prefix_tokens=0, prefix_group=None)
        assert text.digest((1, 1), alone) == prompt_digest(text.tokens((1, 1), alone))


def test_the_parts_that_processes_take_are_the_whole(card: dict[str, Any]) -> None:
    """Parts of 7 prompts against all of them one after another."""
    requests = {(block, 1): plan_requests(card, 11, block, 1) for block in (1, 2)}
    alone = prompts.prompt_digests(card, 11, requests)
    parts = [prompts._part(card, 11, (1, 1), first, first + 7) for first in range(0, len(requests[1, 1]), 7)]
    assert [digest for part in parts for digest in part] == alone[1, 1]
    assert all(len(part) <= 7 for part in parts)


def test_a_plan_of_many_requests_is_the_same_on_one_core_and_on_two(
    card: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = card["workload"] | {
        "loads": [6000.0],
        "window": {"warmup": {"seconds": 0.0}, "measure": {"seconds": 20.0}, "drain": 0.0},
    }
    small = card | {"workload": workload}
    requests = {(1, 1): plan_requests(small, 11, 1, 1)}
    assert len(requests[1, 1]) > 2 * prompts._WORTH_A_PROCESS
    monkeypatch.setattr(prompts, "_PART", 50_000)
    monkeypatch.setattr(prompts.os, "sched_getaffinity", lambda _: {0, 1})
    several = prompts.prompt_digests(small, 11, requests)
    monkeypatch.setattr(prompts.os, "sched_getaffinity", lambda _: {0})
    assert several == prompts.prompt_digests(small, 11, requests)

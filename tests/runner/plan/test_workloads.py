"""Plans of traces, recorded requests, pairs, populations and conversations: pure, fresh for each block, and what they
say they are."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchcard.runner.plan import prompts
from benchcard.runner.plan.plan import Plan, make_plan
from benchcard.runner.plan.prompts import Prompts, prompt_digests
from benchcard.runner.plan.recorded import recorded_rows
from benchcard.runner.plan.requests import PlannedRequest, plan_requests
from benchcard.schema.card import load_card
from benchcard.schema.errors import InputError
from hypothesis import given, settings
from hypothesis import strategies as st

LAW = {"input": {"median": 30.0, "sigma": 0.5}, "output": {"median": 8.0, "sigma": 0.5}, "correlation": 0.3}
SHORT = {"input": {"median": 5.0, "sigma": 0.2}, "output": {"median": 3.0, "sigma": 0.0}, "correlation": 0.0}
BY_TIME = {"warmup": {"seconds": 0.3}, "measure": {"seconds": 1.5}, "drain": 0.3}
ZIPF = {"documents": 3, "tokens": 20, "choice": {"law": "zipf", "exponent": 1.1}}


def card_of(**workload: Any) -> dict[str, Any]:
    """The parts of a resolved card that a plan of requests needs."""
    common = {
        "arrivals": {"process": "poisson"}, "load_kind": "rate", "loads": [20.0, 40.0], "window": BY_TIME,
        "endpoint": "completions", "cache_state": "cold", "populations": None, "requests": {"lengths": LAW},
    }  # fmt: skip
    system = {"engine": {"kind": "simulated"}, "model": {}, "flags": {}}
    return {"system": system, "method": {"blocks": 3, "spare_blocks": 1}, "workload": common | workload}


def population(**own: Any) -> dict[str, Any]:
    return {"share": 0.5, "share_by_level": None, "lengths": LAW, "prefix": None} | own


CONVERSATIONS = {"turns": [2, 4], "think_time": 0.05, "think": "exponential"}
CARDS = [
    card_of(requests={"lengths": LAW, "prefix": ZIPF}),
    card_of(requests={"lengths": LAW, "prefix": {**ZIPF, "documents": None}}),
    card_of(requests={"lengths": LAW, "conversations": CONVERSATIONS}),
    card_of(requests={"lengths": LAW, "prefix": ZIPF, "conversations": CONVERSATIONS}),
    card_of(
        requests={"lengths": LAW, "conversations": CONVERSATIONS}, load_kind="concurrency", loads=[3.0, 5.0],
        arrivals={"process": "closed", "think_time": 0.0}, window={**BY_TIME, "measure": {"requests": 20}},
    ),
    card_of(populations={"a": population(prefix=ZIPF), "b": population(lengths=SHORT)}),
    card_of(
        arrivals={"process": "profile", "levels": [0.5, 1.5], "period": 0.4},
        populations={
            "a": population(share=None, share_by_level=[1.0, 0.25], prefix=ZIPF),
            "b": population(share=None, share_by_level=[0.0, 0.75], prefix={**ZIPF, "documents": 2}),
        },
    ),
]  # fmt: skip


@given(seed=st.integers(0, 2**53), card=st.sampled_from(CARDS))
@settings(max_examples=40, deadline=None)
def test_a_plan_is_a_function_of_card_and_seed_and_blocks_share_nothing(seed: int, card: dict[str, Any]) -> None:
    """On any number of processes (parts of 7 prompts), the same; another block or load point, other prompts and other
    documents."""
    keys = [(block, point) for block in (1, 2, 3) for point in (1, 2)]
    requests = {key: plan_requests(card, seed, *key) for key in keys}
    assert requests == {key: plan_requests(card, seed, *key) for key in keys}
    whole = prompt_digests(card, seed, requests)
    some = keys[0]
    parts = [prompts._part(card, seed, some, first, first + 7) for first in range(0, len(requests[some]), 7)]
    assert [digest for part in parts for digest in part] == whole[some]
    seen = Counter(digest for digests in whole.values() for digest in set(digests))
    assert max(seen.values()) == 1
    text = Prompts(card, seed)
    documents: Counter[bytes] = Counter()
    for key, rows in requests.items():
        begin = {text.tokens(key, r)[: r.prefix_tokens].tobytes() for r in rows if r.prefix_tokens and not r.turn}
        documents.update(begin)
    assert not documents or max(documents.values()) == 1


def _in_common(one: list[int], other: list[int]) -> int:
    """The tokens with which both begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _brute_force(plan_card: dict[str, Any], rows: list[PlannedRequest], text: Prompts) -> list[int]:
    """The longest beginning that each prompt shares with an earlier one, token by token. Answers are made up: what
    matters is that they are nobody else's."""
    said: dict[int, list[int]] = {}
    before: list[list[int]] = []
    shared = []
    for row in rows:
        own = text.tokens((1, 1), row).tolist()
        history = said.get(row.conversation, []) if row.conversation is not None else []
        prompt = [*history, *own]
        assert len(prompt) == row.input_tokens
        answer = [-1000 * row.index - i - 1 for i in range(row.output_tokens)]
        shared.append(max((_in_common(prompt, old) for old in before), default=0))
        # the last token of an answer was never put through the model
        before.append([*prompt, *answer[:-1]])
        if row.conversation is not None:
            said[row.conversation] = [*prompt, *answer]
    return shared


@pytest.mark.parametrize("card", CARDS)
def test_what_can_be_reused_is_what_prompts_have_in_common(card: dict[str, Any]) -> None:
    rows = plan_requests(card, 5, 1, 1)[:120]
    plan = Plan(card, "", 5, "card", [], {(1, 1): rows}, {})
    assert plan.reusable(1, 1) == _brute_force(card, rows, plan.prompts)


def test_conversations_keep_the_rate_and_hold_their_history() -> None:
    card = card_of(
        requests={"lengths": LAW, "conversations": {**CONVERSATIONS, "think": "fixed"}}, loads=[40.0],
        window={**BY_TIME, "measure": {"seconds": 200.0}},
    )  # fmt: skip
    rows = plan_requests(card, 1, 1, 1)
    first = [row for row in rows if row.turn == 0]
    # 40 req/s in conversations of 2 to 4 turns: 200.6 s x 40 / 3 of them, Poisson
    assert len(first) == pytest.approx(200.6 * 40 / 3, abs=3 * np.sqrt(200.6 * 40 / 3))
    assert len(rows) == pytest.approx(200.6 * 40, rel=0.05)
    assert {row.turns for row in rows} == {2, 3, 4}
    for before, row in pairwise(rows):
        assert row.index == before.index + 1
        if row.turn:
            assert (row.conversation, row.turn) == (before.conversation, (before.turn or 0) + 1)
            assert row.history_tokens == before.input_tokens + before.output_tokens
            assert (row.offset_ns, row.think_ns) == (None, 50_000_000)
        else:
            assert before.turn == (before.turns or 0) - 1


def test_shares_are_kept_and_follow_the_profile() -> None:
    rows = plan_requests({**CARDS[6], "workload": {**CARDS[6]["workload"], "loads": [2000.0]}}, 3, 1, 1)
    by_level: list[Counter[str | None]] = [Counter(), Counter()]
    for row in rows:
        by_level[(row.offset_ns or 0) // 200_000_000 % 2][row.population] += 1
    assert by_level[0]["b"] == 0
    high = by_level[1]
    n = high["a"] + high["b"]
    assert high["b"] / n == pytest.approx(0.75, abs=3 * np.sqrt(0.75 * 0.25 / n))
    # documents of one population are nobody else's: 3 of a's, 2 of b's
    assert {row.prefix_group for row in rows if row.population == "a"} == {0, 1, 2}
    assert {row.prefix_group for row in rows if row.population == "b"} == {3, 4}


CARD = """\
card: 1
kind: baseline
id: files
decision: {{question: "Is the plan right?", owner: tests, budget: 20 min}}
system: {{engine: {{kind: simulated}}, model: {{context_limit: 8192}}}}
arms: {{baseline: {{}}}}
workload:
{workload}
  window: {{warmup: 0 s, measure: {measure}, drain: 1 s}}
  client: {{timeout_total: 1 s, timeout_idle: 1 s, timeout_connect: 1 s}}
method: {{repeats: 2, seed: 7, spare_blocks: 0}}
"""


def planned(folder: Path, workload: str, measure: str = "4 s", **files: str) -> Plan:
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)
    path = folder / "card.yaml"
    path.write_text(CARD.format(workload=workload, measure=measure))
    card = load_card(path)
    return make_plan(card.resolved, card.digest, inputs=card.inputs)


ROWS = [
    (0, 40, [0, 1, 2]),
    (0, 33, [0, 1, 3]),
    (1500, 48, [0, 1, 2]),
    (1500, 10, [0]),
    (2250, 20, [4, 1]),
    (4000, 60, []),
]
MOONCAKE = "".join(
    json.dumps({"timestamp": at, "input_length": n, "output_length": 5 + i, "hash_ids": ids}) + "\n"
    for i, (at, n, ids) in enumerate(ROWS)
)
TRACE = "  arrivals: {process: trace, file: t.jsonl, format: mooncake, hash_block: 16}\n  requests: {from: trace}\n"


def test_a_trace_keeps_order_ties_and_every_gap(tmp_path: Path) -> None:
    """Slowed down by 2, and at a rate of its own: 5 gaps in 4 s are 1.25 req/s, so .25 req/s is a slowdown of 5."""
    plan = planned(tmp_path, f"{TRACE}  slowdown: [2, 1]\n", t__jsonl=MOONCAKE)
    assert plan.card["workload"]["loads"] == [0.625, 1.25]
    rows = plan.requests[1, 1]
    # after its end it begins anew, a mean gap (.8 s) later: at 2 x 4.8 s, past the drain's end at 4 + 1 s
    assert [row.offset_ns for row in rows] == [0, 0, 3_000_000_000, 3_000_000_000, 4_500_000_000]
    assert [row.row for row in rows] == [0, 1, 2, 3, 4]
    assert [(row.input_tokens, row.output_tokens) for row in rows] == [(40, 5), (33, 6), (48, 7), (10, 8), (20, 9)]
    # whole speed: 4 s of window, then the second pass begins at 4.8 s, in the drain
    again = plan.requests[1, 2]
    assert [row.offset_ns for row in again] == [0, 0, 1_500_000_000, 1_500_000_000, 2_250_000_000, 4_000_000_000] + [
        4_800_000_000
    ] * 2
    assert [row.phase for row in again] == ["measure"] * 5 + ["drain"] * 3
    slow = planned(tmp_path, f"{TRACE}  loads: [0.25 req/s]\n", "20 s", t__jsonl=MOONCAKE)
    assert [row.offset_ns for row in slow.requests[1, 1]][:5] == [0, 0, 7_500_000_000, 7_500_000_000, 11_250_000_000]


def test_equal_ids_are_equal_text(tmp_path: Path) -> None:
    plan = planned(tmp_path, f"{TRACE}  slowdown: [1]\n", t__jsonl=MOONCAKE)
    rows, text = plan.requests[1, 1], plan.prompts
    assert plan.reusable(1, 1) == _brute_force(plan.card, rows, text)
    # By hand: blocks of 16. Row 1 (33 tokens) has blocks 0 and 1 of row 0, then one token of another block. Row 2 (48)
    # has row 0's 40 tokens. Row 3 (10) is within block 0. Rows 4 and 5 begin with nobody's text.
    assert plan.reusable(1, 1)[:6] == [0, 32, 40, 10, 0, 0]
    # A second pass through the trace is new text: its first row shares nothing with the first pass.
    assert plan.reusable(1, 1)[6] == 0
    # Another block is new text, too.
    assert text.tokens((1, 1), rows[0]).tolist() != text.tokens((2, 1), plan.requests[2, 1][0]).tolist()


def test_pairs_stay_together(tmp_path: Path) -> None:
    pairs = "input_tokens,output_tokens\n" + "".join(f"{10 + i},{100 + i}\n" for i in range(50))
    workload = "  arrivals: constant\n  loads: [200 req/s]\n  requests: {pairs: {file: p.csv, format: csv}}\n"
    rows = planned(tmp_path, workload, p__csv=pairs).requests[1, 1]
    assert {row.output_tokens - (row.input_tokens or 0) for row in rows} == {90}
    assert len({row.input_tokens for row in rows}) == 50


@given(blocks=st.integers(1, 4), points=st.integers(1, 3), n=st.integers(1, 20), seed=st.integers(0, 2**32))
def test_recorded_rows_are_dealt_out_once(blocks: int, points: int, n: int, seed: int) -> None:
    file = {"reuse": "never", "path": {"name": "x"}}
    card = card_of(requests={"file": file}, loads=[1.0] * points) | {"method": {"blocks": blocks, "spare_blocks": 0}}
    rows = blocks * points * n
    dealt = [
        row
        for block in range(1, blocks + 1)
        for point in range(1, points + 1)
        for row in recorded_rows(card, (seed, block, point), n, rows)
    ]
    assert sorted(dealt) == list(range(rows))
    with pytest.raises(InputError, match="share none"):
        recorded_rows(card, (seed, 1, 1), n, rows - 1)
    file["reuse"] = "in_each_block"
    again = recorded_rows(card, (seed, 1, 1), 2 * rows, rows)
    assert Counter(again) == dict.fromkeys(range(rows), 2)


def test_recorded_prompts_and_their_lengths(tmp_path: Path) -> None:
    lines = [json.dumps({"prompt": f"question {i}", "output_tokens": 3 + i % 2} if i % 3 else {"prompt": [7, 8, i]})
             for i in range(400)]  # fmt: skip
    workload = "  arrivals: constant\n  loads: [20 req/s]\n  requests: {file: r.jsonl, output: 9}\n"
    plan = planned(tmp_path, workload, r__jsonl="\n".join(lines))
    rows = plan.requests[1, 1]
    for row in rows:
        assert row.row is not None
        prompt = plan.prompts.recorded(row)
        assert prompt is not None
        ids = row.row % 3 == 0
        assert prompt.prompt == ([7, 8, row.row] if ids else f"question {row.row}")
        assert (row.input_tokens, row.output_tokens) == ((3, 9) if ids else (None, 3 + row.row % 2))
    assert plan.reusable(1, 1) == [None] * len(rows)
    other = {row.row for row in plan.requests[2, 1]}
    assert not other & {row.row for row in rows}


def test_what_cannot_fit_is_refused_when_planned(tmp_path: Path) -> None:
    lengths = "{input: {median: 8000, sigma: 1}, output: 4}"
    workload = f"  arrivals: constant\n  loads: [20 req/s]\n  requests: {{lengths: {lengths}}}\n"
    with pytest.raises(
        InputError, match=r"^the plan holds a request of \d+ prompt and 4 output tokens; wanted at most 8192"
    ):
        planned(tmp_path, workload)

"""What was delivered beside what was planned: arrivals, lengths, conversations, the cached share; by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from benchcard.analysis.as_planned import before_the_last
from benchcard.analysis.cells import check_rows, read_cell
from benchcard.analysis.issued import in_words as issued_in_words
from benchcard.analysis.issued import issued
from benchcard.analysis.lengths import OutputLengths, output_lengths, outputs_in_words, prompt_lengths
from benchcard.analysis.lengths import in_words as prompts_in_words
from benchcard.analysis.read import read_bundle
from benchcard.analysis.reuse import CachedShare, cached_share
from benchcard.analysis.reuse import in_words as reuse_in_words
from benchcard.analysis.turns import Told, comparable
from benchcard.schema.event import EVENT_COLUMNS, SERVER_COLUMNS

from .bundles import MS, ab_card, build, event, frame, reply

CONFIG = {"name": "vllm:cache_config_info", "labels": '{"block_size":"16"}', "value": 1.0, "when": "before"}


def events(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return frame(EVENT_COLUMNS, rows)


class TestArrivals:
    def test_gaps_and_lateness(self) -> None:
        """Gaps of 10 and 30 ms in turn: mean 20, standard deviation 10, so .5. Every request 1 ms late but the last, 3
        ms late: its gap is 32, the others are as they were."""
        at = [0]
        for i in range(20):
            at.append(at[-1] + (10 if i % 2 else 30))
        rows = [event(i, scheduled=t * MS, queued=(t + (3 if i == 20 else 1)) * MS) for i, t in enumerate(at)]
        found = issued(events(rows))
        assert found.late == pytest.approx(0.003)
        assert found.planned == pytest.approx(0.5)
        gaps = [30, 10] * 9 + [30, 12]
        mean = sum(gaps) / 20
        assert found.made == pytest.approx((sum((g - mean) ** 2 for g in gaps) / 20) ** 0.5 / mean)
        assert issued_in_words([found]) == (
            "99% of the counted requests were taken up within 3 ms of their time (worst cell); gaps vary by 0.5 of "
            "their mean in the schedule, by 0.493 as made (median cell)"
        )

    def test_too_few_to_say(self) -> None:
        found = issued(events([event(0, queued=2 * MS)]))
        assert (found.late, found.planned, found.made) == (0.002, None, None)
        assert issued_in_words([]) == "unknown (no request was taken up)"


class TestOutputs:
    def test_shorter_and_longer_than_asked_for(self) -> None:
        """Casebook 13: of 100 that were to be 100 tokens long, 5 end at 5; one is longer."""
        rows = [
            reply(i, [1.0], output_tokens=5 if i < 5 else 101 if i == 5 else 100, asked_output_tokens=100)
            for i in range(100)
        ]
        found = output_lengths(events(rows))
        assert found == OutputLengths(100, 5, 1, None)
        assert outputs_in_words([found, OutputLengths(10, 0, 0, 0.5)]) == (
            "of 110 replies that count them 5 are shorter than asked for, 1 longer; correlation of the logarithms of "
            "prompt and output length 0.50 (median cell)"
        )
        assert outputs_in_words([OutputLengths(3, 0, 0, None)]) == "as asked for in all 3 replies that count them"

    def test_correlation_is_of_what_requests_say_themselves(self) -> None:
        """Own lengths 1, 2, 4, … and outputs twice that, behind documents of 1,000 tokens: 1, as delivered."""
        rows = [
            reply(i, [1.0], output_tokens=2 * 2 ** (i % 8), asked_output_tokens=2 * 2 ** (i % 8),
                  asked_input_tokens=1000 + 2 ** (i % 8), own_tokens=2 ** (i % 8), input_tokens=1000 + 2 ** (i % 8))
            for i in range(32)
        ]  # fmt: skip
        assert output_lengths(events(rows)).correlation == pytest.approx(1.0)


def test_recorded_texts_that_the_plan_has_not_counted() -> None:
    """Two counted by the server alone, one as planned (token ids), one that nobody counts."""
    asked, counted = (None, None, 40, None), (366, 386, 40, None)
    rows = [
        reply(i, [1.0], asked_input_tokens=a, input_tokens=n)
        for i, (a, n) in enumerate(zip(asked, counted, strict=True))
    ]
    text = "366 to 386 tokens by the server's count in 2 replies to recorded text, which the plan has not counted"
    assert prompts_in_words([prompt_lengths(events(rows[:2]))]) == text
    assert prompts_in_words([prompt_lengths(events(rows[:1])), prompt_lengths(events(rows[1:]))]) == (
        f"as planned in all 1 replies that count them; {text}"
    )
    assert prompts_in_words([prompt_lengths(events(rows[3:]))]) == (
        "unknown (no reply says how many tokens its prompt had)"
    )


ROWS = [
    reply(0, [1.0], input_tokens=100, reusable_tokens=0, cached_tokens=0),
    reply(1, [1.0], input_tokens=100, reusable_tokens=70, cached_tokens=64),
    # A prompt that was there whole: one token of it is computed, so 96 of 112 at most (7 blocks less the last).
    reply(2, [1.0], input_tokens=112, reusable_tokens=112, cached_tokens=96),
]


class TestCachedShare:
    def test_of_the_replies(self) -> None:
        found = cached_share(events(ROWS), events(ROWS), frame(SERVER_COLUMNS, [CONFIG]))
        assert (found.planned, found.measured, found.source, found.block) == (160 / 312, 160 / 312, "replies", 16)

    def test_of_the_servers_metrics_where_replies_do_not_tell(self) -> None:
        rows = [{**row, "cached_tokens": None} for row in ROWS]
        samples = [
            CONFIG,
            *({"name": f"vllm:prefix_cache_{name}_total", "labels": "{}", "value": value, "when": when}
              for name, values in (("hits", (10.0, 88.0)), ("queries", (100.0, 412.0)))
              for when, value in zip(("before", "after"), values, strict=True)),
        ]  # fmt: skip
        found = cached_share(events(rows), events(rows), frame(SERVER_COLUMNS, samples))
        assert (found.planned, found.measured, found.source) == (160 / 312, 78 / 312, "metrics")

    def test_a_server_that_leaves_zeros_out(self) -> None:
        """No reply tells 0: the one without a count had none. A reply that was cut off is left out, as unknown."""
        rows = [{**ROWS[0], "cached_tokens": None}, *ROWS[1:]]
        found = cached_share(events(rows), events(rows), frame(SERVER_COLUMNS, [CONFIG]))
        assert (found.planned, found.measured, found.source) == (160 / 312, 160 / 312, "replies")
        cut = [*rows, {**ROWS[1], "index": 3, "outcome": "cancelled", "cached_tokens": None}]
        assert cached_share(events(cut), events(cut), frame(SERVER_COLUMNS, [CONFIG])) == found
        # Where zeros are told, a count that is not there is unknown.
        some = [ROWS[0], {**ROWS[1], "cached_tokens": None}, ROWS[2]]
        assert cached_share(events(some), events(some), frame(SERVER_COLUMNS, [CONFIG])).measured == 96 / 212

    def test_why_it_is_not_planned(self) -> None:
        share = CachedShare(None, 0.25, "replies", 16)
        told = "25.0% of prompt tokens came from the cache, by the server's replies; what could be reused is unknown, "
        for requests, why in (
            ({"file": {"path": "p.jsonl"}}, "since recorded prompts are not compared"),
            (
                {"file": None},
                "since the card names no tokenizer, so that nobody knows where a chat's template and words begin to "
                "differ",
            ),
        ):
            card = {"workload": {"requests": requests, "endpoint": "chat"}}
            assert reuse_in_words(card, [("baseline", share)]) == [("baseline", told + why)]

    def test_unknown_stays_unknown(self) -> None:
        rows = [{**row, "reusable_tokens": None} for row in ROWS]
        assert cached_share(events(rows), events(rows), None).planned is None
        nothing = [event(0)]
        found = cached_share(events(nothing), events(nothing), None)
        assert (found.planned, found.measured, found.block) == (None, None, None)


def test_a_cell_that_hits_what_it_did_not_put_there_is_invalid(tmp_path: Path) -> None:
    """Casebook 42: nothing of the plan is shared, and a tenth of the prompts comes from the cache."""
    card = ab_card(validity=ab_card()["validity"] | {"cached_beyond_plan": 0.02})

    def warm(cell: Any, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        share = 10 if cell.arm == "candidate" else 1
        return [{**row, "input_tokens": 100, "reusable_tokens": 0, "cached_tokens": share} for row in rows]

    bundle = read_bundle(build(tmp_path, card, rows=warm))
    for arm, passed in (("baseline", True), ("candidate", False)):
        cell = next(c for block in bundle.blocks for c in block.cells if c.arm == arm)
        (row,) = [row for row in check_rows(read_cell(bundle, cell)) if row["name"] == "cached_beyond_plan"]
        assert (row["passed"], row["observed"]) == (passed, pytest.approx(0.01 if passed else 0.1))


def test_conversations_in_words() -> None:
    from benchcard.analysis.turns import in_words

    assert in_words([None, None]) is None
    assert in_words([Told(5, 5, 0, 0, 0, 12, 0), None]) == (
        "5 of 5 that began in the window had every turn; in 12 later turns the server counts the history as it was said"
    )
    assert in_words([Told(5, 3, 1, 1, 4, 12, 2), Told(5, 5, 0, 0, 0, 10, 0)]) == (
        "8 of 10 that began in the window had every turn; 1 ended with a turn that failed, 1 with the load: 4 turns "
        "were never due; in 22 later turns the server counts the history as it was said but in 2"
    )
    assert in_words([Told(5, 5, 0, 0, 0, 12, 12)], comparable=False) == (
        "5 of 5 that began in the window had every turn; their history is not compared with the server's count, since "
        "the card names no tokenizer"
    )


@pytest.mark.parametrize(
    ("engine", "endpoint", "tokenizer", "expected"),
    [
        ("vllm", "completions", "words", True),
        ("vllm", "chat", "words", False),
        ("openai", "chat", {"unknown": "closed"}, False),
        ("vllm", "chat", {"name": "tokenizer.json", "sha256": "0"}, True),
        ("simulated", "chat", "words", True),
    ],
)
def test_which_histories_are_compared(engine: str, endpoint: str, tokenizer: Any, expected: bool) -> None:
    system = {"engine": {"kind": engine}, "model": {"tokenizer": tokenizer}}
    assert comparable({"system": system, "workload": {"endpoint": endpoint}}) is expected


def test_a_client_of_a_closed_loop_begins_its_conversations_in_order() -> None:
    """Client 0 has taken 0, 1 and 6: 3 must be there. Client 1 has taken nothing, so nothing of it is due."""
    planned = pl.DataFrame({"index": [0, 1, 3, 6, 8, 2, 4], "client": [0, 0, 0, 0, 0, 1, 1]})
    assert sorted(before_the_last(planned, pl.Series([0, 1, 6]))) == [0, 1, 3, 6]

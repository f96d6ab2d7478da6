"""Where outputs first differ: by token ids, by a tokenizer, by characters."""

from __future__ import annotations

import pytest
from benchcard.runner.quality.ask import read_output
from benchcard.runner.quality.divergence import Output, diverged_at, first_difference
from benchcard.runner.quality.items import Question
from benchcard.runner.quality.table import as_frame, gate_rows
from hypothesis import given
from hypothesis import strategies as st

IDS = st.lists(st.integers(0, 3), max_size=8)


@given(IDS, IDS)
def test_the_first_difference_by_its_meaning(a: list[int], b: list[int]) -> None:
    """It is the length of the longest beginning that both have; none where both are nothing else."""
    common = max(n for n in range(min(len(a), len(b)) + 1) if a[:n] == b[:n])
    assert first_difference(a, b) == (None if a == b else common)


def out(text: str, ids: list[int] | None = None, tokens: int | None = None) -> Output:
    return Output("ok", text, ids, tokens)


class Letters:
    """A tokenizer of one token for two characters."""

    def ids(self, text: str) -> list[int]:
        return [hash(text[i : i + 2]) for i in range(0, len(text), 2)]


@pytest.mark.parametrize(
    ("first", "other", "tokenizer", "expected"),
    [
        (out("ab", [1, 2, 3]), out("ab", [1, 2, 4]), None, (2, "token_ids")),
        (out("ab", [1, 2]), out("ab", [1, 2]), None, (None, "token_ids")),
        (out("ab", [1, 2]), out("ab", [1, 2, 3]), None, (2, "token_ids")),
        # One of them without ids: texts.
        (out("abcdef", [1, 2, 3]), out("abcdxf"), Letters(), (2, "retokenized")),
        (out("abcdef"), out("abcdef"), Letters(), (None, "retokenized")),
        # 10 characters and 5 tokens: character 7 is in token 3.
        (out("abcdefghij", None, 5), out("abcdefgXij", None, 5), None, (3, "characters")),
        (out("abcdefghij", None, 5), out("abcdefghij", None, 5), None, (None, "characters")),
        # Nobody says how many tokens: character 40 may be in any token up to that one.
        (out("a" * 41), out("a" * 40 + "b"), None, (0, "characters")),
        # 40 characters in 10 tokens against 10 characters in 10: character 8 is in token 2, or in token 8.
        (out("abcdefgh" + "x" * 32, None, 10), out("abcdefghij", None, 10), None, (2, "characters")),
        (out(""), out("a", None, 1), None, (0, "characters")),
        # Half a surrogate pair is compared as the question mark that stands for it.
        (out("ab\ud83d"), out("abX"), Letters(), (1, "retokenized")),
        # All reasoning: the texts are the same, and say nothing.
        (out("", None, 64), out("", None, 64), None, (None, "nothing")),
        (out("", None, 64), out("", None, 64), Letters(), (None, "nothing")),
        (out("", [1, 2]), out("", [1, 2]), None, (None, "token_ids")),
    ],
)
def test_where_outputs_part(first: Output, other: Output, tokenizer: object, expected: tuple[int | None, str]) -> None:
    assert diverged_at(first, other, tokenizer) == expected  # type: ignore[arg-type]


GREEDY = {"gate": "greedy_divergence", "risk": "r", "items": None}


def test_a_missing_side_is_at_its_worst_for_the_candidate_alone() -> None:
    """Item a: the baseline has no answer. Item b: neither pass of the others has one. Item c: nothing was asked."""
    failed = Output("timeout")
    asked = [Question(name, [1], "d") for name in "abc"]
    outputs = {
        "baseline": [[failed, out("x", [1]), None]],
        "candidate": [[out("x", [1]), failed, None]],
        "baseline_aa": [[out("x", [1]), failed, None]],
    }
    rows = {(row["arm"], row["item"]): row for row in gate_rows(GREEDY, asked, outputs, None, None)}
    assert len(rows) == 6
    assert rows["candidate", "a"]["diverged_at"] == 0
    assert rows["baseline_aa", "a"]["diverged_at"] is None
    assert (rows["candidate", "b"]["answered"], rows["candidate", "b"]["outcome"]) == (False, "timeout")
    assert rows["candidate", "b"]["output_digest"] is None
    # SHA-256 of "x"
    digest = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    assert rows["baseline", "b"]["output_digest"] == digest
    assert as_frame(list(rows.values())).height == 6


def test_repeats_are_held_against_the_baselines_first() -> None:
    asked = [Question("a", [1], "d")]
    outputs = {"baseline": [[out("", [1, 2])], [out("", [1, 3])]], "candidate": [[out("", [1, 2])], [out("", [4])]]}
    rows = [(row["arm"], row["repeat"], row["diverged_at"]) for row in gate_rows(GREEDY, asked, outputs, None, None)]
    assert rows == [("baseline", 1, None), ("baseline", 2, 1), ("candidate", 1, None), ("candidate", 2, 0)]


def test_a_completions_reply_and_a_chats() -> None:
    usage = {"completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 16}}
    choice = {"text": "ab", "finish_reason": "length", "token_ids": [5, 6]}
    assert read_output({"choices": [choice], "usage": usage}) == Output("ok", "ab", [5, 6], 2, "length", 16)
    chat = {"message": {"content": None}, "finish_reason": "stop"}
    assert read_output({"choices": [chat]}) == Output("ok", "", None, None, "stop", None)
    with pytest.raises((KeyError, TypeError, IndexError)):
        read_output({"choices": []})

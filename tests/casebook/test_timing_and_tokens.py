"""Casebook 1-13: what is a token, and when."""

from __future__ import annotations

import pytest
from benchcard.analysis.quantities import quantities
from benchcard.runner.tokens.tokenizer import Tokenizer
from tokenizers import Tokenizer as Library
from tokenizers import models, pre_tokenizers

from ..runner.client.scripted import DONE, FIN, ROLE, content, delta, event, stream, usage
from .replay import attempt, metrics, ms, row, rows

EMPTY = delta()


@pytest.mark.parametrize("first", [ROLE, delta(role="assistant", content=None), delta(role="assistant")])
def test_01_the_role_chunk_is_not_the_first_token(first: bytes) -> None:
    found = metrics(
        rows(attempt(stream((10, first), (500, content("a")), (520, content("b") + FIN + usage(2) + DONE))))
    )
    assert ms(found["ttft.p50"]) == 500
    assert ms(found["itl.p50"]) == 20


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_02_reasoning_is_output(key: str) -> None:
    pieces = [(100 + 10 * i, delta(**{key: "r"})) for i in range(10)]
    script = stream(*pieces, (1000, content("a") + FIN + usage(11) + DONE))
    found = metrics(rows(attempt(script)))
    assert ms(found["ttft.p50"]) == 100
    assert ms(found["ttfa.p50"]) == 1000
    assert ms(found["tpot.p50"]) == 90  # (1000 - 100) / (11 - 1)


def test_04_events_that_carry_no_token_have_no_time_in_the_metrics() -> None:
    script = stream(
        (10, ROLE), (100, content("a")), (110, content("b")), (120, content("c") + FIN), (400, usage(3)), (600, DONE)
    )
    frame = rows(attempt(script))
    found = metrics(frame)
    assert ms(found["ttft.p50"]) == 100
    assert [round(x * 1e3, 6) for x in quantities(frame).samples["itl"]] == [10, 10]
    assert ms(found["e2e.p50"]) == 120


def test_06_a_chunks_gap_is_not_an_inter_token_latency() -> None:
    script = stream(*[(100 + 40 * i, content("abcd")) for i in range(10)], (460, FIN + usage(40) + DONE))
    found = metrics(rows(attempt(script)))
    assert ms(found["tpot.p50"]) == pytest.approx(360 / 39, abs=1e-6)
    assert ms(found["icl.p50"]) == 40


def test_06_with_counts_on_each_chunk() -> None:
    def four(i: int) -> bytes:
        return event(
            {"choices": [{"delta": {"content": "abcd"}}], "usage": {"prompt_tokens": 5, "completion_tokens": 4 * i}}
        )

    script = stream(*[(100 + 40 * i, four(i + 1)) for i in range(10)], (460, FIN + usage(40) + DONE))
    found = metrics(rows(attempt(script), token_counts="per_chunk_usage"))
    assert ms(found["tpot.p50"]) == 10  # 360 / (40 - 4)
    assert ms(found["icl.p50"]) == 40
    assert ms(found["itl.p50"]) == 10
    assert found["itl.p50"].n == 36


def test_08_a_blank_chunk_is_no_token() -> None:
    script = stream((100, content("a")), (110, content("")), (120, content("b") + FIN + usage(2) + DONE))
    frame = rows(attempt(script))
    assert [round(x * 1e3, 6) for x in quantities(frame).samples["icl"]] == [20]


def test_10_the_servers_count_stands() -> None:
    found = row(stream(*[(i, content(" ")) for i in range(100)], (100, FIN + usage(100) + DONE)))
    assert found["output_tokens"] == 100
    assert found["retokenized_tokens"] is None
    assert found["chunk_tokens_retokenized"] is None


def spaces() -> Tokenizer:
    """A tokenizer that merges spaces, two and then four; other characters of "ab" are tokens of their own."""
    vocabulary = {"\u0120": 0, "\u0120\u0120": 1, "\u0120\u0120\u0120\u0120": 2, "a": 3, "b": 4}
    merges = [("\u0120", "\u0120"), ("\u0120\u0120", "\u0120\u0120")]
    library = Library(models.BPE(vocabulary, merges))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return Tokenizer(library.to_str().encode(), "spaces")


@pytest.mark.parametrize("token_counts", ["chunk", "retokenized"])
def test_10_retokenizing_merges_tokens(token_counts: str) -> None:
    """100 spaces a millisecond apart: 100 output tokens, of which the text's 25 are another number, in another column.
    Each four come whole with the fourth."""
    script = stream(*[(i, content(" ")) for i in range(100)], (100, FIN + usage(100) + DONE))
    frame = rows(attempt(script), token_counts=token_counts, tokenizer=spaces())
    found = frame.row(0, named=True)
    assert found["output_tokens"] == 100
    assert found["retokenized_tokens"] == 25
    assert found["chunk_tokens_retokenized"] == [0, 0, 0, 1] * 25
    assert found["chunk_tokens"] == ([1] * 100 if token_counts == "chunk" else [0, 0, 0, 1] * 25)
    values = metrics(frame)
    assert values["itl.p50"].n == (99 if token_counts == "chunk" else 25)
    assert values["itl_retokenized.p50"].n == 25


def test_10_inter_token_latency_by_the_texts_tokens() -> None:
    """Chunks of 1, 2 and 4 of the text's tokens, 40 ms apart: 20 ms twice, 10 ms four times."""
    script = stream((100, content("a")), (140, content("ab")), (180, content("abab") + FIN + usage(3) + DONE))
    frame = rows(attempt(script), tokenizer=spaces())
    found = metrics(frame)
    assert ms(found["itl.p50"]) == 40
    assert [round(x * 1e3, 6) for x in quantities(frame).samples["itl_retokenized"]] == [10, 10, 10, 10, 20, 20]
    assert ms(found["tpot.p50"]) == 40  # (180 - 100) / (3 - 1): the server's count stands
    by_text = metrics(rows(attempt(script), tokenizer=spaces(), token_counts="retokenized"))
    assert ms(by_text["itl.p50"]) == 10
    assert by_text["itl.p50"].n == 6


def test_10_without_a_tokenizer_the_metric_is_undefined() -> None:
    found = metrics(rows(attempt(stream((1, content("a")), (2, content("b") + FIN + usage(2) + DONE)))))
    assert found["itl_retokenized.p50"].value is None
    assert found["itl_retokenized.p50"].undefined == {"no tokenizer declared": 1}
    assert ms(found["itl.p50"]) == 1


def test_12_outputs_of_one_token_have_no_tpot() -> None:
    one = stream((10, content("a") + FIN + usage(1) + DONE))
    three = stream((10, content("a")), (30, content("b")), (50, content("c") + FIN + usage(3) + DONE))
    found = metrics(rows(*[attempt(one, i) for i in range(9)], attempt(three, 9)))
    assert ms(found["tpot.p50"]) == 20
    assert found["tpot.p50"].n == 1
    assert sum((found["tpot.p50"].undefined or {}).values()) == 9


def test_13_an_output_shorter_than_asked_is_seen() -> None:
    short = stream((10, content("a") + content("b") + FIN + usage(5) + DONE))
    found = row(short, asked=100)
    assert (found["asked_output_tokens"], found["output_tokens"], found["finish_reason"]) == (100, 5, "stop")


def test_14_the_servers_count_of_a_prompt_stands_beside_the_planned_one() -> None:
    """The server counts 7 tokens more than planned: both are kept, and the difference is reported."""
    from benchcard.analysis.lengths import in_words, prompt_lengths

    more = event({"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 1}})
    frame = rows(*[attempt(stream((10, content("a") + FIN + more + DONE)), i) for i in range(3)])
    assert frame["asked_input_tokens"].to_list() == [5, 5, 5]
    assert frame["input_tokens"].to_list() == [12, 12, 12]
    assert in_words([prompt_lengths(frame)]) == (
        "not as planned in 3 of 3 replies: the server counts +7 tokens; both are kept"
    )

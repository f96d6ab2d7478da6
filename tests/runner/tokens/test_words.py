"""Chat prompts of planned lengths. Counts by hand: in ChatML a question takes 8 tokens beside its words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from benchcard.runner.plan.exact import planned_prompts, some_prompts
from benchcard.runner.plan.plan import Plan, make_plan
from benchcard.runner.tokens import verify
from benchcard.runner.tokens.words import PLAIN, AlphabetWords, Words
from benchcard.schema.card import load_card
from benchcard.schema.errors import InputError
from tokenizers import Tokenizer, normalizers

from .made import CHATML, WORDS, byte_level, card_in, word_level


def words_of(path: Path) -> Words:
    card = load_card(path)
    return Words.from_card(card.resolved, card.inputs)


def plan_of(path: Path) -> Plan:
    card = load_card(path)
    return make_plan(card.resolved, card.digest, inputs=card.inputs)


def alphabet_of(path: Path) -> AlphabetWords:
    words = words_of(path)
    assert isinstance(words, AlphabetWords)
    return words


def test_without_a_tokenizer_a_token_is_a_word() -> None:
    assert PLAIN.text([1000, 1001]) == "w1000 w1001"
    assert (PLAIN.template_tokens, PLAIN.least_input, PLAIN.exact, PLAIN.tokenizer) == (0, 1, False, None)
    assert PLAIN.count([{"role": "user", "content": "x"}]) is None


def test_the_alphabet_of_a_byte_level_bpe(tmp_path: Path) -> None:
    words = alphabet_of(card_in(tmp_path, byte_level()))
    assert set(words.alphabet.words) == {*WORDS, "user", "assistant", "system"} - _several_tokens()
    assert words.template_tokens == 8  # <|im_start|> user \n, <|im_end|> \n <|im_start|> assistant \n
    assert words.turn_tokens == 10  # after an answer: <|im_end|> \n <|im_start|> user \n, then as at the first
    assert (words.least_input, words.least_turn) == (9, 11)


def _several_tokens() -> set[str]:
    """The words that this BPE cuts up, alone or after a space."""
    library = Tokenizer.from_str(byte_level())
    all_words = (*WORDS, "user", "assistant", "system")
    return {word for word in all_words if {len(library.encode(word)), len(library.encode(f" {word}"))} != {1}}


def test_a_text_has_as_many_words_as_the_template_leaves_room_for(tmp_path: Path) -> None:
    words = words_of(card_in(tmp_path, byte_level()))
    ids = list(range(1000, 29000, 700))
    assert len(ids) == 40
    assert len(words.text(ids).split()) == 32
    assert words.count([{"role": "user", "content": words.text(ids)}]) == 40
    # A later turn makes the prompt longer by as many tokens as it has ids.
    history = [{"role": "user", "content": words.text(ids)}, {"role": "assistant", "content": "queen river"}]
    assert words.count([*history, {"role": "user", "content": words.text(ids[:25], later_turn=True)}]) == 40 + 2 + 25
    # Equal beginnings stay equal: a document, then other words.
    other = [*ids[:30], *reversed(ids[30:])]
    assert words.text(ids).split()[:30] == words.text(other).split()[:30]


def test_every_word_of_the_alphabet_is_drawn_alike(tmp_path: Path) -> None:
    words = alphabet_of(card_in(tmp_path, byte_level()))
    text = words.text(range(1000, 30000 + words.template_tokens)).split()
    counts = {word: text.count(word) for word in words.alphabet.words}
    assert max(counts.values()) - min(counts.values()) <= words.template_tokens + 1


def test_a_tokenizer_that_puts_a_bos_before_texts(tmp_path: Path) -> None:
    """Templates write their own: in chat none is added, as servers do."""
    from tokenizers.processors import TemplateProcessing

    library = Tokenizer.from_str(byte_level())
    library.post_processor = TemplateProcessing("<s> $A", None, [("<s>", library.token_to_id("<s>"))])
    template = "{{ bos_token }}" + CHATML
    words = words_of(card_in(tmp_path, library.to_str(), template=template, config={"bos_token": "<s>"}))
    assert words.template_tokens == 9


def test_a_template_in_the_tokenizers_config(tmp_path: Path) -> None:
    config: dict[str, object] = {"chat_template": "{{ eos_token }}" + CHATML, "eos_token": {"content": "</s>"}}
    assert words_of(card_in(tmp_path, byte_level(), template=None, config=config)).template_tokens == 9


def test_a_word_level_tokenizer(tmp_path: Path) -> None:
    """Cut at white space and special tokens: newlines are none."""
    words = alphabet_of(card_in(tmp_path, word_level()))
    assert words.alphabet.words == WORDS
    assert words.template_tokens == 5  # <|im_start|> user, <|im_end|> <|im_start|> assistant


def test_truncation_and_padding_in_the_file_are_for_training(tmp_path: Path) -> None:
    library = Tokenizer.from_str(byte_level())
    library.enable_truncation(12)
    library.enable_padding(length=64)
    assert words_of(card_in(tmp_path, library.to_str())).template_tokens == 8


def test_too_few_words(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"tokenizer.json: found 3 words that are one token each .* at least 16"):
        plan_of(card_in(tmp_path, word_level(WORDS[:3])))


def test_messages_that_are_not_made_up_need_no_words(tmp_path: Path) -> None:
    words = words_of(card_in(tmp_path, word_level(WORDS[:3])))
    assert words.count([{"role": "user", "content": "apple bread"}]) == 5 + 2


def test_a_file_that_the_library_cannot_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found what the tokenizers library cannot read"):
        words_of(card_in(tmp_path, '{"model": {"type": "Nonsense", "vocab": {}}}'))


@pytest.mark.parametrize(("size", "fits"), [(29_995, False), (30_000, True)])
def test_completions_need_a_vocabulary_that_holds_the_token_ids(tmp_path: Path, size: int, fits: bool) -> None:
    path = card_in(tmp_path, word_level(size=size - 4), endpoint="completions")
    if fits:
        words = words_of(path)
        assert (words.template_tokens, words.exact) == (0, False)
        assert words.tokenizer is not None
        return
    with pytest.raises(InputError, match=r"a vocabulary of 29,995 tokens; wanted at least 30,000"):
        words_of(path)


def counts(plan: Plan, path: Path) -> list[tuple[int, int]]:
    """(planned, counted) of each prompt, by the library itself and a template written out by hand."""
    library = Tokenizer.from_file(str(path.parent / "model" / "tokenizer.json"))
    words = Words.from_card(plan.card, plan.inputs)
    found = []
    for prompt in planned_prompts(plan):
        text = f"<|im_start|>user\n{words.text(prompt.ids.tolist())}<|im_end|>\n<|im_start|>assistant\n"
        found.append((len(prompt.ids), len(library.encode(text).ids)))
    return found


@pytest.mark.parametrize("requests", [
    "{lengths: {input: 40, output: 8}}",
    "{lengths: {input: 9, output: 8}}",
    "{lengths: {input: {median: 12, sigma: 1}, output: 8}}",
    "{lengths: {input: {median: 30, sigma: 1}, output: 8}, prefix: {documents: 2, tokens: 50}}",
])  # fmt: skip
def test_every_planned_prompt_is_as_long_as_planned(tmp_path: Path, requests: str) -> None:
    path = card_in(tmp_path, byte_level(), requests=requests)
    plan = plan_of(path)
    found = counts(plan, path)
    assert len(found) >= 20
    assert all(planned == counted for planned, counted in found)
    assert min(planned for planned, _ in found) >= 9


def test_draws_below_the_least_are_raised_to_it(tmp_path: Path) -> None:
    """A log-normal of median 4 and sigma .1 lies below 9 always: every prompt is the template and one word."""
    plan = plan_of(card_in(tmp_path, byte_level(), requests="{lengths: {input: {median: 4, sigma: 0.1}, output: 8}}"))
    assert {request.input_tokens for rows in plan.requests.values() for request in rows} == {9}


def test_a_fixed_length_that_the_template_takes_alone(tmp_path: Path) -> None:
    path = card_in(tmp_path, byte_level(), requests="{lengths: {input: 8, output: 8}}")
    with pytest.raises(InputError) as caught:
        plan_of(path)
    assert str(caught.value) == (
        "workload.requests.lengths.input: found 8 tokens; wanted at least 9: the chat template takes 8, and a prompt "
        "has a word"
    )


def test_words_that_merge_are_found_when_planned(tmp_path: Path) -> None:
    """'river apple' becomes one word: among the words of the alphabet, in their order, they are not neighbours."""
    library = Tokenizer.from_str(word_level())
    library.normalizer = normalizers.Replace("river apple", "river")
    path = card_in(tmp_path, library.to_str(), requests="{lengths: {input: 400, output: 8}}")
    with pytest.raises(InputError) as caught:
        plan_of(path)
    said = (
        r"the prompt of request \d+ of block 1 at load point 1: model/tokenizer.json makes 39\d tokens of it .* 400 are"
    )
    assert re.match(said, str(caught.value))


def test_of_a_large_plan_one_prompt_in_so_many_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(card_in(tmp_path, byte_level()))
    total = sum(len(rows) for rows in plan.requests.values())
    assert [verify.one_in(n) for n in (0, 1, 2_000_000, 2_000_001, 7_000_000)] == [1, 1, 1, 2, 4]
    words = Words.from_card(plan.card, plan.inputs)
    assert verify.verify_prompts(words, planned_prompts(plan)) == total
    assert verify.verify_prompts(words, planned_prompts(plan, 3)) == -(-total // 3)
    assert verify.verify_prompts(PLAIN, planned_prompts(plan)) == 0
    assert len({prompt.name for prompt in some_prompts(plan, 3)}) == 3


def test_the_requests_of_a_cell_carry_them(tmp_path: Path) -> None:
    import json

    from benchcard.runner.client.wire import Body

    plan = plan_of(card_in(tmp_path, byte_level()))
    words = Words.from_card(plan.card, plan.inputs)
    prompt = next(planned_prompts(plan)).ids.tolist()
    body: dict[str, Any] = json.loads(Body(plan.card, "m", words=words).whole(prompt, 8))
    assert body["messages"] == [{"role": "user", "content": words.text(prompt)}]
    assert len(body["messages"][0]["content"].split()) == 32

"""Words that are one token each wherever they stand in a chat prompt, so that a prompt can be made of any length."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ...schema.errors import InputError
from .tokenizer import Tokenizer

#: With fewer words prompts that differ would begin alike, and hit what another left in the cache.
FEWEST_WORDS = 16
#: words that are tried together, each beside others than itself
_TOGETHER = 64
#: a token that is a word, perhaps after the sign with which byte-level and SentencePiece vocabularies write a space
_WORD = re.compile("[\u0120\u2581]?([a-z]+)")


@dataclass(frozen=True)
class Alphabet:
    """The words, in the order of the vocabulary, and the tokens of a prompt beside its words: a prompt whose message
    has n words has `template_tokens` + n."""

    words: tuple[str, ...]
    template_tokens: int


def find_alphabet(tokenizer: Tokenizer, render: Callable[[str], str]) -> Alphabet:
    """The alphabet of a tokenizer in a chat template (`render`: the whole prompt of a user's message).

    A word is in it if alone, and three times in a row, it takes one token each, and if it does among other words.
    Raises InputError where fewer than FEWEST_WORDS do.
    """
    words = _candidates(tokenizer)
    ones = tokenizer.counts([render(word) for word in words])
    threes = tokenizer.counts([render(f"{word} {word} {word}") for word in words])
    template_tokens = min(ones, default=1) - 1
    steady = [
        word
        for word, one, three in zip(words, ones, threes, strict=True)
        if (one, three) == (template_tokens + 1, template_tokens + 3)
    ]
    kept = _among_others(tokenizer, render, steady, template_tokens)
    if len(kept) < FEWEST_WORDS:
        raise InputError(
            f"{tokenizer.name}: found {len(kept)} words that are one token each in the chat template; wanted at least "
            f"{FEWEST_WORDS}, to make prompts of. Take endpoint: completions, or recorded requests"
        )
    return Alphabet(tuple(kept), template_tokens)


def _candidates(tokenizer: Tokenizer) -> list[str]:
    """The vocabulary's lowercase words that are two tokens twice in a row, without a template: a quick first look."""
    found: dict[str, int] = {}
    for token, id_ in tokenizer.vocabulary.items():
        match = _WORD.fullmatch(token)
        if match is not None:
            found[match[1]] = min(id_, found.get(match[1], id_))
    words = sorted(found, key=lambda word: (found[word], word))
    counts = tokenizer.counts([f"{word} {word}" for word in words])
    return [word for word, count in zip(words, counts, strict=True) if count == 2]


def _among_others(
    tokenizer: Tokenizer, render: Callable[[str], str], words: list[str], template_tokens: int
) -> list[str]:
    groups = [words[first : first + _TOGETHER] for first in range(0, len(words), _TOGETHER)]
    counts = tokenizer.counts([render(" ".join(group)) for group in groups])
    return [
        word
        for group, count in zip(groups, counts, strict=True)
        if count == template_tokens + len(group)
        for word in group
    ]

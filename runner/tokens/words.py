"""Words for token ids: the text of a chat prompt of a planned length.

Without a tokenizer file a token id is the word w<id>, and how many tokens a server makes of it is its own affair. With
one, ids become words of the tokenizer's alphabet, as many as the template leaves room for; the count of the whole
rendered prompt is the planned one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from ...schema.digest import canonical_json
from ...schema.errors import InputError
from ...schema.inputs import Inputs
from ..plan.draws import TOKEN_ID_RANGE
from .alphabet import Alphabet, find_alphabet
from .template import ChatTemplate
from .tokenizer import Tokenizer, card_template, card_tokenizer


class Words:
    """Plain words, which no tokenizer stands behind."""

    #: of the card, for counting texts again; None where it names none
    tokenizer: Tokenizer | None = None

    @property
    def template_tokens(self) -> int:
        """The template's own tokens in a prompt of one question."""
        return 0

    @property
    def turn_tokens(self) -> int:
        """The template's own tokens in what a later turn adds to the prompt and the answer before it."""
        return 0

    @property
    def least_input(self) -> int:
        """The shortest prompt that there can be, in tokens: the template and one word."""
        return self.template_tokens + 1

    @property
    def least_turn(self) -> int:
        """The least that a later turn can add, in tokens."""
        return self.turn_tokens + 1

    @property
    def head_tokens(self) -> int:
        """The template's own tokens before the user's message, which all prompts have in common."""
        return 0

    @property
    def exact(self) -> bool:
        """Whether the server's count of a chat prompt is known beforehand."""
        return False

    def text(self, ids: Sequence[int], later_turn: bool = False) -> str:
        """The user's message that stands for these token ids, in a first turn or a later one."""
        return " ".join(f"w{token}" for token in ids)

    def count(self, messages: Sequence[Mapping[str, str]]) -> int | None:
        """The tokens of a whole rendered prompt; None where nobody can say."""
        return None

    @staticmethod
    def from_card(card: Mapping[str, Any], inputs: Inputs) -> Words:
        """The words of a resolved card; kept, since it takes seconds to look through a large vocabulary. Raises
        InputError for files that cannot be read, and for completions whose token ids the vocabulary does not hold."""
        model = (card.get("system") or {}).get("model") or {}
        facts = [model.get(key) for key in ("tokenizer", "tokenizer_config", "chat_template")]
        if not isinstance(facts[0], dict) or "sha256" not in facts[0]:
            return PLAIN
        return _from_files(canonical_json(facts).decode(), card["workload"]["endpoint"], _Paths(inputs))


class TokenIds(Words):
    """Completions: prompts are token ids, and the tokenizer is there to count texts."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        if tokenizer.size < TOKEN_ID_RANGE[1]:
            raise InputError(
                f"{tokenizer.name}: found a vocabulary of {tokenizer.size:,} tokens; wanted at least "
                f"{TOKEN_ID_RANGE[1]:,}, since prompts are token ids from {TOKEN_ID_RANGE[0]:,} to "
                f"{TOKEN_ID_RANGE[1] - 1:,}. Take endpoint: chat"
            )


class AlphabetWords(Words):
    """Chat: words of the tokenizer's alphabet in its template. Recorded messages need no alphabet: it is looked for
    when the first word is asked for, and InputError is raised then if there is none."""

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate) -> None:
        self.tokenizer = tokenizer
        self._template = template

    @cached_property
    def alphabet(self) -> Alphabet:
        """The words that prompts are made of."""
        assert self.tokenizer is not None
        return find_alphabet(self.tokenizer, self.rendered)

    @property
    def template_tokens(self) -> int:
        """The template's own tokens in a prompt of one question."""
        return self.alphabet.template_tokens

    @cached_property
    def turn_tokens(self) -> int:
        """The template's own tokens in what a later turn adds to the prompt and the answer before it."""
        word = self.alphabet.words[0]
        two_turns = self.count([{"role": role, "content": word} for role in ("user", "assistant", "user")])
        assert two_turns is not None
        return two_turns - self.template_tokens - 3

    @cached_property
    def head_tokens(self) -> int:
        """The template's own tokens before the user's message, which all prompts have in common."""
        assert self.tokenizer is not None
        one, other = (self.tokenizer.ids(self.rendered(word)) for word in self.alphabet.words[:2])
        return next(index for index, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1])

    @property
    def exact(self) -> bool:
        """The tokenizer counts as the server does."""
        return True

    def text(self, ids: Sequence[int], later_turn: bool = False) -> str:
        """As many words as the template leaves room for: those of the first ids, so equal beginnings stay equal."""
        words = self.alphabet.words
        low, high = TOKEN_ID_RANGE
        own = len(ids) - (self.turn_tokens if later_turn else self.template_tokens)
        # In proportion, so that a draw that is uniform over the ids is over the words.
        return " ".join(words[(int(token) - low) * len(words) // (high - low)] for token in ids[: max(own, 1)])

    def rendered(self, content: str) -> str:
        """The whole prompt of one message of the user's."""
        return self._template.render([{"role": "user", "content": content}])

    def count(self, messages: Sequence[Mapping[str, str]]) -> int | None:
        """The tokens of a whole rendered prompt."""
        assert self.tokenizer is not None
        return self.tokenizer.count(self._template.render(messages))


PLAIN = Words()


class _Paths:
    """Inputs as a part of a cache's key: what a digest stands for is the same wherever it lies."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Paths)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=4)
def _from_files(facts: str, endpoint: str, paths: _Paths) -> Words:
    tokenizer_file, config, template = json.loads(facts)
    card = {"system": {"model": {"tokenizer": tokenizer_file, "tokenizer_config": config, "chat_template": template}}}
    tokenizer = card_tokenizer(card, paths.inputs)
    assert tokenizer is not None
    if endpoint != "chat":
        return TokenIds(tokenizer)
    return AlphabetWords(tokenizer, card_template(card, paths.inputs))

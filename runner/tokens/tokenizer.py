"""The card's tokenizer: texts to counts of tokens, by the library that servers use."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ...schema.errors import InputError
from ...schema.inputs import Inputs
from ...schema.tokenizer_files import template_of
from .template import ChatTemplate, special_tokens

if TYPE_CHECKING:
    from tokenizers import Tokenizer as _Library


class Tokenizer:
    """A tokenizer.json. Special tokens are added (a BOS) only where it is asked for."""

    def __init__(self, data: bytes, name: str) -> None:
        from tokenizers import Tokenizer as Library

        self.name = name
        try:
            self._library: _Library = Library.from_buffer(data)
        except Exception as error:  # the library raises no narrower one
            raise InputError(f"{name}: found what the tokenizers library cannot read ({error})") from None
        # What a file asks for to make batches for training would cut a long prompt, or fill up a short one.
        self._library.no_truncation()
        self._library.no_padding()

    @property
    def vocabulary(self) -> Mapping[str, int]:
        """Every token as it is written in the file, with its id; added ones are left out."""
        found: dict[str, int] = self._library.get_vocab(with_added_tokens=False)
        return found

    @property
    def size(self) -> int:
        """One more than the largest token id."""
        return max(self._library.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    def count(self, text: str, *, special: bool = False) -> int:
        """The tokens of a text. `special`: with those that the file puts around a text (BOS)."""
        return len(self._library.encode(text, add_special_tokens=special))

    def ids(self, text: str) -> list[int]:
        """The tokens of a text, without special ones."""
        return list(self._library.encode(text, add_special_tokens=False).ids)

    def counts(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each text, without special ones; on all cores."""
        return [len(found) for found in self._library.encode_batch_fast(list(texts), add_special_tokens=False)]

    def text(self, ids: Sequence[int]) -> str:
        """A text of these tokens; not every list of tokens is what its text is cut into."""
        return str(self._library.decode(list(ids), skip_special_tokens=False))

    def tokens_by_piece(self, pieces: Sequence[str]) -> list[int]:
        """A text came in pieces: the tokens of the whole, each counted in the piece that completes it.

        So the sum is the text's own count, whatever merges across pieces, and a token's time is that of its last
        character. (Encoding every beginning of the text would tell how the count grows, but takes time squared.)"""
        # Half a surrogate pair, which JSON can hold, is no text.
        text = "".join(pieces).encode("utf-8", "replace").decode()
        encoding = self._library.encode(text, add_special_tokens=False)
        ends = list(accumulate(map(len, pieces)))
        found = [0] * len(pieces)
        last = 0
        for _, end in encoding.offsets:
            # A token without characters of its own (offsets 0, 0) goes with the one before.
            last = max(last, end)
            if found:
                found[bisect_left(ends, max(last, 1))] += 1
        return found


def card_tokenizer(card: Mapping[str, Any], inputs: Inputs) -> Tokenizer | None:
    """The tokenizer whose file the resolved card names; None where it names none."""
    file = _file(card, "tokenizer")
    return None if file is None else Tokenizer(inputs.data(file), str(file["name"]))


def card_template(card: Mapping[str, Any], inputs: Inputs) -> ChatTemplate:
    """The chat template that goes with the card's tokenizer: its own file, or the one in tokenizer_config.json."""
    config_file, template_file = _file(card, "tokenizer_config"), _file(card, "chat_template")
    config = {} if config_file is None else json.loads(inputs.data(config_file))
    if template_file is not None:
        return ChatTemplate(inputs.data(template_file).decode(), special_tokens(config), str(template_file["name"]))
    source = template_of(config)
    assert config_file is not None, "a rule of the card sees to it"
    assert source is not None
    return ChatTemplate(source, special_tokens(config), str(config_file["name"]))


def _file(card: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
    value = card["system"]["model"].get(key)
    return value if isinstance(value, dict) and "sha256" in value else None

"""Where two outputs first differ. Pure.

Token ids are compared where both replies have them; else the tokens that the card's tokenizer makes of the texts; else
characters, whose place is turned into that of a token in proportion, rounded down: of both outputs' the earlier one,
and token 0 where neither says how many tokens it has. Two empty texts show nothing (a reply that is all reasoning).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..tokens.tokenizer import Tokenizer

#: what a divergence was seen by
SOURCES = ("token_ids", "retokenized", "characters", "nothing")


@dataclass(frozen=True)
class Output:
    """What became of one asking. `outcome` is ok, or why there is no answer; the rest is None without one. `tokens`:
    the server's count of output tokens; `cached_tokens`: what it says of the prompt; `ids`: of the output tokens."""

    outcome: str
    text: str | None = None
    ids: list[int] | None = None
    tokens: int | None = None
    finish_reason: str | None = None
    cached_tokens: int | None = None

    @property
    def answered(self) -> bool:
        """Whether there is a reply."""
        return self.outcome == "ok"

    def as_json(self) -> dict[str, Any]:
        """For the working file."""
        return asdict(self)


def first_difference(first: Sequence[Any], other: Sequence[Any]) -> int | None:
    """The first index at which two sequences differ, their ends included; None where they are the same."""
    for index, (a, b) in enumerate(zip(first, other, strict=False)):
        if a != b:
            return index
    return None if len(first) == len(other) else min(len(first), len(other))


def diverged_at(first: Output, other: Output, tokenizer: Tokenizer | None) -> tuple[int | None, str]:
    """(the first token at which another output differs from the first, from 0, or None; what it was seen by). Both are
    answered."""
    if first.ids is not None and other.ids is not None:
        return first_difference(first.ids, other.ids), SOURCES[0]
    texts = (first.text or "", other.text or "")
    if not any(texts):
        return None, SOURCES[3]
    if tokenizer is not None:
        # half a surrogate pair, which JSON can hold, is no text
        clean = (text.encode("utf-8", "replace").decode() for text in texts)
        return first_difference(*(tokenizer.ids(text) for text in clean)), SOURCES[1]
    at = first_difference(*texts)
    if at is None:
        return None, SOURCES[2]
    known = [(text, output.tokens) for text, output in zip(texts, (first, other), strict=True)]
    return min((at * tokens // len(text) for text, tokens in known if text and tokens), default=0), SOURCES[2]

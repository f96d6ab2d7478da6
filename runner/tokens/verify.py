"""Planned chat prompts held against the tokenizer, before a server is: each is as long as planned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from ...schema.errors import InputError
from .words import AlphabetWords, Words

#: The most tokens of prompts that are encoded to verify a plan: some ten seconds. Of a larger plan every k-th prompt is
#: verified, with the k that stays below this; every word of every prompt was tried when the alphabet was made.
MOST_TOKENS = 2_000_000
_AT_A_TIME = 256


@dataclass(frozen=True)
class PlannedPrompt:
    """A prompt of the plan: its name in a message, and its token ids, as many as its whole length."""

    name: str
    ids: npt.NDArray[np.int32]


def one_in(total_tokens: int) -> int:
    """Which prompts of a plan of so many prompt tokens are verified: one in this many."""
    return max(1, -(-total_tokens // MOST_TOKENS))


def verify_prompts(words: Words, prompts: Iterable[PlannedPrompt]) -> int:
    """Encode each prompt in its template; returns how many. Raises InputError naming the first that is not as long as
    planned. Words without a tokenizer, and token ids, have nothing to verify."""
    if not isinstance(words, AlphabetWords):
        return 0
    verified = 0
    assert words.tokenizer is not None
    for some in _batches(prompts):
        counts = words.tokenizer.counts([words.rendered(words.text(prompt.ids.tolist())) for prompt in some])
        for prompt, count in zip(some, counts, strict=True):
            if count != len(prompt.ids):
                raise InputError(
                    f"{prompt.name}: {words.tokenizer.name} makes {count} tokens of it in the chat template; "
                    f"{len(prompt.ids)} are planned. Its words merge with one another: take endpoint: completions"
                )
        verified += len(some)
    return verified


def _batches(prompts: Iterable[PlannedPrompt]) -> Iterator[list[PlannedPrompt]]:
    left = iter(prompts)
    while some := list(islice(left, _AT_A_TIME)):
        yield some


def require_room(workload: Mapping[str, Any], words: Words) -> None:
    """Refuse fixed prompt lengths that the template alone takes. (Of a distribution, draws below are raised to the
    least that there can be: Words.least_input.) Raises InputError."""
    places = {"workload.requests.lengths.input": (workload["requests"] or {}).get("lengths")}
    for name, own in (workload.get("populations") or {}).items():
        places[f"workload.populations.{name}.lengths.input"] = own.get("lengths")
    for place, lengths in places.items():
        law = None if lengths is None else lengths["input"]
        if law is not None and not law["sigma"] and round(law["median"]) < words.least_input:
            raise InputError(
                f"{place}: found {law['median']:g} tokens; wanted at least {words.least_input}: the chat template "
                f"takes {words.template_tokens}, and a prompt has a word"
            )

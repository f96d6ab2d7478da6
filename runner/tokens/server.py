"""The card's tokenizer held against the server's own: a few planned prompts, counted by both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...schema.errors import SystemUnderTestError
from ..engines.probe import Probe
from .verify import PlannedPrompt
from .words import Words

#: how many planned prompts are sent to /tokenize whenever a server has come up
PROMPTS = 3


def check_server(words: Words, prompts: Sequence[PlannedPrompt], model: str, arm: str, probe: Probe) -> str | None:
    """Why the server's count could not be had; None where it agrees, or where the card names no tokenizer.

    Chat prompts are counted as they are sent. Completions are sent as token ids, which nobody counts: there the text of
    the ids is. Raises SystemUnderTestError, naming both counts, where they differ: the lengths on the card would be
    another system's.
    """
    tokenizer = words.tokenizer
    if tokenizer is None:
        return None
    if not prompts:
        return "the plan holds recorded text only, and no prompt of it was sent to /tokenize"
    for prompt in prompts:
        ids = prompt.ids.tolist()
        body: dict[str, Any] = {"model": model}
        if words.exact:
            messages = [{"role": "user", "content": words.text(ids)}]
            body |= {"messages": messages, "add_generation_prompt": True}
            ours = words.count(messages)
        else:
            body["prompt"] = tokenizer.text(ids)
            ours = tokenizer.count(body["prompt"], special=True)
        theirs = probe.tokenize(body)
        if isinstance(theirs, str):
            return theirs
        if theirs != ours:
            raise SystemUnderTestError(
                f"{arm}: the server makes {theirs} tokens of {prompt.name}, {tokenizer.name} makes {ours}; the card's "
                "tokenizer (or its chat template) is not the one that the server uses"
            )
    return None

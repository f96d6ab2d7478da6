"""Rules about the tokenizer: who can use one, what needs one, and what it needs itself."""

from __future__ import annotations

from collections.abc import Iterator

from .defaults import Filled
from .errors import Problem

_MODEL = ("system", "model")
_TOKENIZER = (*_MODEL, "tokenizer")


def _has_file(filled: Filled) -> bool:
    """Whether the card names a tokenizer file, read or not."""
    value = filled.get(*_TOKENIZER)
    return filled.on_card(*_TOKENIZER) and value != "words" and not (isinstance(value, dict) and "unknown" in value)


def _embedded_engine_has_words(filled: Filled) -> Iterator[Problem]:
    if filled.engine == "simulated" and _has_file(filled):
        hint = "to the embedded engine a word is a token"
        yield filled.problem(_TOKENIZER, "a tokenizer file with the embedded engine", "words", hint)


def _what_needs_a_tokenizer(filled: Filled) -> Iterator[Problem]:
    if _has_file(filled):
        return
    counts = ("workload", "client", "token_counts")
    if filled.get(*counts) == "retokenized":
        wanted = "a file in system.model.tokenizer, or another source of counts"
        yield filled.problem(counts, "retokenized without a tokenizer", wanted)
    places = [("claim",), *(("guards", index) for index, _ in enumerate(filled.get("guards") or []))]
    for place in places:
        name = filled.get(*place, "metric")
        if isinstance(name, str) and name.startswith("itl_retokenized."):
            wanted = "a file in system.model.tokenizer, or itl"
            yield filled.problem((*place, "metric"), f"{name} without a tokenizer", wanted)
    if filled.engine == "simulated":
        return
    for key in ("tokenizer_config", "chat_template"):
        if filled.on_card(*_MODEL, key):
            wanted = "a file in system.model.tokenizer beside it"
            yield filled.problem((*_MODEL, key), f"{key} without a tokenizer", wanted, at_key=True)


def _chat_has_a_template(filled: Filled) -> Iterator[Problem]:
    endpoint = filled.get("workload", "endpoint")
    if not isinstance(filled.get(*_TOKENIZER), dict) or not _has_file(filled) or endpoint is None:
        return
    keys = ("tokenizer_config", "chat_template")
    if endpoint != "chat":
        for key in keys:
            if filled.on_card(*_MODEL, key):
                found = f"{key} with endpoint: {endpoint}"
                yield filled.problem((*_MODEL, key), found, "no such key", "it belongs to chat", at_key=True)
        return
    unread = any(filled.on_card(*_MODEL, key) and filled.get(*_MODEL, key) is None for key in keys)
    in_config = (filled.get(*_MODEL, "tokenizer_config") or {}).get("has_chat_template")
    if not (unread or in_config or filled.get(*_MODEL, "chat_template")):
        wanted = "the key chat_template, as in chat_template: chat_template.jinja"
        yield filled.problem(_TOKENIZER, "a tokenizer without a chat template, for chat", wanted)


TOKENIZER_RULES = (_embedded_engine_has_words, _what_needs_a_tokenizer, _chat_has_a_template)

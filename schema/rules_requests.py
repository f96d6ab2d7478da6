"""Rules about requests: what their lengths come from, conversations, and what fits the context."""

from __future__ import annotations

from collections.abc import Iterator

from .defaults import Filled
from .errors import Problem

_WHERE = ("workload", "requests")
#: what a request's lengths can come from: one of them
_SHAPES = ("lengths", "pairs", "file", "from")


def shapes_of(filled: Filled) -> list[str]:
    """What the card says that requests' lengths come from; one thing, if it is right."""
    return [key for key in _SHAPES if filled.on_card(*_WHERE, key)]


def _requests_have_lengths(filled: Filled) -> Iterator[Problem]:
    """Lengths come from one place. (Where there are populations, each may have its own, and they are asked.)"""
    shapes = shapes_of(filled)
    if filled.get(*_WHERE) is not None and not shapes and not filled.on_card("workload", "populations"):
        wanted = "the key lengths, as in lengths: {input: 64, output: 64}"
        yield filled.problem((*_WHERE, "lengths"), "nothing", wanted)
    for extra in shapes[1:]:
        found = f"{shapes[0]} and {extra}"
        yield filled.problem((*_WHERE, extra), found, "one of them", "each says how long requests are", at_key=True)
    if filled.on_card(*_WHERE, "from") and filled.get("workload", "arrivals", "process") not in (None, "trace"):
        yield filled.problem((*_WHERE, "from"), "from: trace without a trace", "arrivals: {process: trace, …}")


#: keys of requests that change what another says, and beside which
_BESIDE = {"prefix": ("lengths", "pairs"), "conversations": ("lengths", "pairs"), "output": ("file",)}


def _keys_fit_the_shape(filled: Filled) -> Iterator[Problem]:
    shapes = shapes_of(filled)
    for key, beside in _BESIDE.items():
        if filled.on_card(*_WHERE, key) and shapes and shapes[0] not in beside:
            found, wanted = f"{key} beside {shapes[0]}", f"{key} beside {' or '.join(beside)} only"
            yield filled.problem((*_WHERE, key), found, wanted, at_key=True)


def _names(filled: Filled) -> list[str]:
    populations = filled.get("workload", "populations")
    return list(populations) if isinstance(populations, dict) else []


def _choice_needs_documents(filled: Filled) -> Iterator[Problem]:
    for where in (_WHERE, *(("workload", "populations", name) for name in _names(filled))):
        choice = filled.get(*where, "prefix", "choice") or {}
        if filled.get(*where, "prefix", "documents") == "unlimited" and choice.get("law") == "zipf":
            wanted = "a number of documents, or uniform"
            yield filled.problem((*where, "prefix", "choice"), "zipf among unlimited documents", wanted)


def _requests_fit_context(filled: Filled) -> Iterator[Problem]:
    """The median request, at least, must fit; longer ones that do not are refused when planned."""
    limits = [filled.get("system", "model", "context_limit"), filled.get("system", "flags", "max-model-len")]
    limits = [limit for limit in limits if isinstance(limit, int) and not isinstance(limit, bool)]
    for where in (_WHERE, *(("workload", "populations", name) for name in _names(filled))):
        parts = {part: where if filled.get(*where, part) else _WHERE for part in ("lengths", "prefix")}
        if not limits or (where not in parts.values()):
            continue
        medians = [filled.get(*parts["lengths"], "lengths", part, "median") for part in ("input", "output")]
        prefix = filled.get(*parts["prefix"], "prefix", "tokens") or 0
        if None not in medians and sum(medians) + prefix > min(limits):
            found = f"a median request of {sum(medians) + prefix:g} tokens"
            wanted, hint = f"at most {min(limits)}, the context limit", "prefix, input and output together"
            path = (*where, "lengths" if parts["lengths"] == where else "prefix")
            yield filled.problem(path, found, wanted, hint)


def _file_says_how_long(filled: Filled) -> Iterator[Problem]:
    """Answers need a length: a row's own, or the card's."""
    file = filled.get(*_WHERE, "file", "path")
    if isinstance(file, dict) and file.get("mean_output") is None and not filled.on_card(*_WHERE, "output"):
        found = f"rows of {file['name']} that name no output_tokens"
        yield filled.problem((*_WHERE, "file"), found, "the key output beside it, as in output: 128")


def _conversations_have_one_schedule(filled: Filled) -> Iterator[Problem]:
    path = (*_WHERE, "conversations")
    if not filled.on_card(*path):
        return
    process = filled.get("workload", "arrivals", "process")
    if process == "trace":
        hint = "its rows have their own times; with mooncake their hash_ids hold the history"
        yield filled.problem(path, "conversations with trace arrivals", "another process", hint, at_key=True)
    if process == "closed" and filled.on_card("workload", "arrivals", "think_time"):
        hint = "between turns conversations.think_time holds"
        yield filled.problem(
            ("workload", "arrivals", "think_time"), "think_time twice", "one of them", hint, at_key=True
        )
    turns = filled.get(*path, "turns")
    if isinstance(turns, list) and None not in turns and turns[0] > turns[1]:
        yield filled.problem((*path, "turns"), f"from {turns[0]} to {turns[1]}", "[least, most]")


def _shared_text_can_be_told_apart(filled: Filled) -> Iterator[Problem]:
    """Arms that share a server get prompts of equal length and other text; recorded text cannot be changed so."""
    urls = [filled.get("arms", arm, "server", "url") for arm in ("baseline", "candidate")]
    one = urls[0] is not None and urls[0] == urls[1]
    if one and filled.on_card(*_WHERE, "file") and filled.get("workload", "cache_state") != "reset":
        hint = "else the second arm hits what the first left in the cache"
        yield filled.problem(
            (*_WHERE, "file"), "recorded prompts for two arms on one server", "cache_state: reset", hint
        )


REQUEST_RULES = (
    _requests_have_lengths,
    _keys_fit_the_shape,
    _file_says_how_long,
    _choice_needs_documents,
    _requests_fit_context,
    _conversations_have_one_schedule,
    _shared_text_can_be_told_apart,
)

"""Rules about requests: their shape, populations, conversations, and what an engine makes of them."""

from __future__ import annotations

from collections.abc import Iterator

from .defaults import Filled
from .errors import Problem
from .phrase import KeyPath
from .quantity import format_quantity

_WHERE = ("workload", "requests")
#: what a request's lengths can come from: one of them
_SHAPES = ("lengths", "pairs", "file", "from")
#: how far shares may be from 100% together: what rounding of percentages leaves
_ROUNDING = 1e-6


def _shapes(filled: Filled) -> list[str]:
    return [key for key in _SHAPES if filled.on_card(*_WHERE, key)]


def _requests_have_lengths(filled: Filled) -> Iterator[Problem]:
    populations = filled.get("workload", "populations") or {}
    each = bool(populations) and all((own or {}).get("lengths") for own in populations.values())
    shapes = _shapes(filled)
    if filled.get(*_WHERE) is not None and not shapes and not each:
        wanted = "the key lengths, as in lengths: {input: 64, output: 64}"
        yield filled.problem((*_WHERE, "lengths"), "nothing", wanted)
    for extra in shapes[1:]:
        yield filled.problem((*_WHERE, extra), f"{shapes[0]} and {extra}", "one of them", at_key=True)
    if filled.on_card(*_WHERE, "from") and filled.get("workload", "arrivals", "process") not in (None, "trace"):
        yield filled.problem((*_WHERE, "from"), "from: trace without a trace", "arrivals: {process: trace, …}")
    for key, shape in (
        ("prefix", ("lengths", "pairs")),
        ("conversations", ("lengths", "pairs")),
        ("output", ("file",)),
    ):
        if filled.on_card(*_WHERE, key) and shapes and shapes[0] not in shape:
            found = f"{key} with requests from a {'file' if shapes[0] == 'file' else 'trace'}"
            yield filled.problem((*_WHERE, key), found, f"requests with {' or '.join(shape)}", at_key=True)
    if filled.on_card("workload", "arrivals", "hash_block") and filled.get("workload", "arrivals", "format") not in (
        None,
        "mooncake",
    ):
        path = ("workload", "arrivals", "hash_block")
        yield filled.problem(path, "hash_block without hash_ids", "format: mooncake", at_key=True)


def _choice_needs_documents(filled: Filled) -> Iterator[Problem]:
    prefix = ("workload", "requests", "prefix")
    choice = filled.get(*prefix, "choice") or {}
    if filled.get(*prefix, "documents") == "unlimited" and choice.get("law") == "zipf":
        yield filled.problem((*prefix, "choice"), "zipf among unlimited documents", "a number of documents, or uniform")


def _requests_fit_context(filled: Filled) -> Iterator[Problem]:
    """The median request, at least, must fit; longer ones that do not are refused when planned."""
    limits = [filled.get("system", "model", "context_limit"), filled.get("system", "flags", "max-model-len")]
    limits = [limit for limit in limits if isinstance(limit, int) and not isinstance(limit, bool)]
    lengths = ("workload", "requests", "lengths")
    parts = [filled.get(*lengths, "input", "median"), filled.get(*lengths, "output", "median")]
    if not limits or None in parts:
        return
    longest = sum(parts) + (filled.get("workload", "requests", "prefix", "tokens") or 0)
    if longest > min(limits):
        found = f"a median request of {longest:g} tokens"
        yield filled.problem(
            lengths, found, f"at most {min(limits)}, the context limit", "prefix, input and output together"
        )


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


def _shares_are_whole(filled: Filled) -> Iterator[Problem]:
    """The shares of the populations add up to 100%, in each level where the mix follows a profile."""
    where = ("workload", "populations")
    populations = filled.get(*where)
    if not populations or any(own is None for own in populations.values()):
        return
    by_level = [name for name in populations if filled.on_card(*where, name, "share_by_level")]
    if by_level and len(by_level) < len(populations):
        other = next(name for name in populations if name not in by_level)
        path: KeyPath = (*where, other)
        yield filled.problem(
            path, f"a share beside {by_level[0]}.share_by_level", "share_by_level for all", at_key=True
        )
        return
    levels = filled.get("workload", "arrivals", "levels")
    if by_level and filled.get("workload", "arrivals", "process") not in (None, "profile"):
        path = (*where, by_level[0], "share_by_level")
        yield filled.problem(
            path, "share_by_level without a profile", "share", "levels belong to process: profile", True
        )
        return
    shares = [own["share_by_level"] if by_level else [own["share"]] for own in populations.values()]
    if any(part is None or None in part for part in shares):
        return
    for name, part in zip(populations, shares, strict=True):
        if by_level and levels is not None and len(part) != len(levels):
            path = (*where, name, "share_by_level")
            yield filled.problem(path, f"{len(part)} shares", f"{len(levels)}, one for each level of the profile")
            return
    for level, parts in enumerate(zip(*shares, strict=True), 1):
        if abs(sum(parts) - 1) > _ROUNDING:
            of = f" in level {level}" if by_level else ""
            found = f"shares that add up to {format_quantity('fraction', round(sum(parts), 6))}{of}"
            yield filled.problem(where, found, "100%", at_key=True)


def _populations_have_lengths(filled: Filled) -> Iterator[Problem]:
    populations, shapes = filled.get("workload", "populations") or {}, _shapes(filled)
    if populations and shapes and shapes[0] in ("file", "from"):
        found = f"populations with requests from a {'file' if shapes[0] == 'file' else 'trace'}"
        yield filled.problem(("workload", "populations"), found, "requests with lengths or pairs", at_key=True)
    for name, own in populations.items():
        prefix = ("workload", "populations", name, "prefix")
        choice = filled.get(*prefix, "choice") or {}
        if filled.get(*prefix, "documents") == "unlimited" and choice.get("law") == "zipf":
            found = "zipf among unlimited documents"
            yield filled.problem((*prefix, "choice"), found, "a number of documents, or uniform")
        if own and not own.get("lengths") and not shapes:
            path: KeyPath = ("workload", "populations", name)
            yield filled.problem(path, "a population without lengths", "lengths, here or in requests", at_key=True)


def _structured_output_may_end(filled: Filled) -> Iterator[Problem]:
    """A reply that must fit a schema ends when it does."""
    places: list[KeyPath] = [("workload", "sampling")]
    places += [("workload", "populations", name, "sampling") for name in filled.get("workload", "populations") or {}]
    for place in places:
        path = (*place, "json_schema")
        if not filled.on_card(*path):
            continue
        if filled.engine == "simulated":
            yield filled.problem(
                path, "json_schema with the embedded engine", "engine vllm or openai", "it writes no JSON"
            )
        own = filled.get(*place, "ignore_eos")
        if filled.get("workload", "sampling", "ignore_eos") if own is None else own:
            yield filled.problem(path, "json_schema with ignore_eos", "ignore_eos: false", "a whole reply has an end")


def _priorities_are_kept(filled: Filled) -> Iterator[Problem]:
    """The embedded engine serves first come, first served: a priority would be sent and mean nothing."""
    places: list[KeyPath] = [("workload", "priority")]
    places += [("workload", "populations", name, "priority") for name in filled.get("workload", "populations") or {}]
    for path in places:
        if filled.engine == "simulated" and isinstance(filled.get(*path), int):
            yield filled.problem(path, "a priority with the embedded engine", "no priority", "it knows none", True)


def _warm_cache_has_documents(filled: Filled) -> Iterator[Problem]:
    path = ("workload", "cache_state")
    if not isinstance(filled.get(*path), dict):
        return
    prefixes = [filled.get(*_WHERE, "prefix")]
    prefixes += [(own or {}).get("prefix") for own in (filled.get("workload", "populations") or {}).values()]
    if not any(prefix and isinstance(prefix.get("documents"), int) for prefix in prefixes):
        yield filled.problem(path, "warm: documents without documents", "a prefix with a number of documents")


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
    _file_says_how_long,
    _choice_needs_documents,
    _requests_fit_context,
    _conversations_have_one_schedule,
    _shares_are_whole,
    _populations_have_lengths,
    _structured_output_may_end,
    _priorities_are_kept,
    _warm_cache_has_documents,
    _shared_text_can_be_told_apart,
)

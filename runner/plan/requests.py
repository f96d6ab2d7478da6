"""The requests of one load point in one block: offsets, lengths, kinds, documents and turns. Pure."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...schema.errors import InputError
from ...schema.inputs import NO_INPUTS, Inputs
from ...schema.recorded import Prompt
from ..tokens.words import Words
from .draws import Stream, zipf_cumulative
from .lengths import Key, Lengths, by_law, from_pairs, outputs_by_law
from .mix import kinds_of
from .recorded import recorded_rows
from .slots import Slot, slots


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """One request of the plan. Lengths in tokens; `input_tokens` includes the document that the prompt begins with
    (`prefix_tokens`) and what was said in earlier turns (`history_tokens`), and is None for recorded text, which nobody
    has counted.

    `offset_ns` counts from the cell's start; it is None in a closed loop, where request i belongs to `client`, and for
    later turns, which come `think_ns` after the answer before. `row` is that of the trace or of the recorded requests.
    """

    index: int
    phase: str
    offset_ns: int | None
    client: int | None
    prefix_group: int | None
    prefix_tokens: int
    input_tokens: int | None
    output_tokens: int
    population: str | None = None
    conversation: int | None = None
    turn: int | None = None
    turns: int | None = None
    history_tokens: int = 0
    think_ns: int = 0
    row: int | None = None

    @property
    def own_tokens(self) -> int:
        """What the request says itself, in tokens: without document and history."""
        assert self.input_tokens is not None
        return self.input_tokens - self.prefix_tokens - self.history_tokens


def plan_requests(
    card: dict[str, Any], seed: int, block: int, load_point: int, inputs: Inputs = NO_INPUTS
) -> list[PlannedRequest]:
    """Every request that the load point may send in this block, in order: warm-up, measured window, drain.

    Both arms of the block get the same list; another block, load point or seed gets a fresh one. Raises InputError
    where recorded requests do not suffice.
    """
    workload = card["workload"]
    key = (seed, block, load_point)
    planned = slots(workload, workload["loads"][load_point - 1], key, inputs)
    if workload["requests"].get("file") is not None:
        return _recorded(card, key, planned, inputs)
    return requests_of(card, key, planned, inputs)


def requests_of(
    card: dict[str, Any], key: Key, planned: list[Slot], inputs: Inputs = NO_INPUTS
) -> list[PlannedRequest]:
    """The request of each slot, made up by the workload's laws from the draws of `key`. (Recorded ones are not.)"""
    workload = card["workload"]
    kinds = kinds_of(workload, key, planned)
    lengths = _lengths(workload, key, planned, kinds, inputs)
    words = Words.from_card(card, inputs)
    least, least_turn = words.least_input, words.least_turn if any(slot.turn for slot in planned) else 0
    groups = _documents(workload, key, planned, kinds)
    thinks = _think_times(workload["requests"].get("conversations"), key, len(planned))
    requests: list[PlannedRequest] = []
    for index, slot in enumerate(planned):
        (group, prefix), (own, output) = groups[index], lengths[index]
        before = requests[-1] if slot.turn else None
        if before is not None:
            assert before.input_tokens is not None
            group, prefix = before.prefix_group, before.prefix_tokens
        # A chat template and one word: no prompt is shorter.
        own = max(own, least if before is None else least_turn)
        history = 0 if before is None else (before.input_tokens or 0) + before.output_tokens - prefix
        requests.append(
            PlannedRequest(
                index, slot.phase, slot.offset_ns, slot.client, group, prefix, prefix + history + own, output,
                kinds[index], None if slot.turn is None else slot.unit, slot.turn, slot.turns, history,
                thinks[index] if slot.turn else 0, slot.row,
            )
        )  # fmt: skip
    return requests


def _recorded(card: dict[str, Any], key: Key, planned: list[Slot], inputs: Inputs) -> list[PlannedRequest]:
    """Requests from a file: each slot gets a row of it."""
    workload = card["workload"]
    file = workload["requests"]["file"]
    recorded = inputs.recorded(file["path"], file["format"], workload["endpoint"]).requests
    rows = recorded_rows(card, key, len(planned), len(recorded))
    law = workload["requests"]["output"]
    drawn = [0] * len(planned) if law is None else outputs_by_law(law, len(planned), key)
    requests, words = [], Words.from_card(card, inputs)
    for index, (slot, row) in enumerate(zip(planned, rows, strict=True)):
        prompt, output = recorded[row].prompt, recorded[row].output_tokens or drawn[index]
        counted = _tokens_of(prompt, words)
        requests.append(
            PlannedRequest(index, slot.phase, slot.offset_ns, slot.client, None, 0, counted, output, row=row)
        )
    return requests


def _tokens_of(prompt: Prompt, words: Words) -> int | None:
    """The tokens of a recorded prompt; None where no tokenizer counts it."""
    if isinstance(prompt, str):
        return None if words.tokenizer is None else words.tokenizer.count(prompt, special=True)
    if isinstance(prompt[0], int):
        return len(prompt)
    return words.count(prompt)


def _lengths(
    workload: dict[str, Any], key: Key, planned: Sequence[Slot], kinds: Sequence[str | None], inputs: Inputs
) -> list[Lengths]:
    requests, populations = workload["requests"], workload.get("populations") or {}
    if requests.get("from") == "trace":
        facts = workload["arrivals"]
        trace = inputs.trace(facts["file"], facts["format"], facts.get("unit"))
        rows = [(slot.row or 0) % trace.rows for slot in planned]
        return [(trace.input_tokens[row], trace.output_tokens[row]) for row in rows]
    specs = [requests["lengths"] if kind is None else populations[kind]["lengths"] for kind in kinds]
    if requests.get("pairs") is None:
        return by_law(specs, key)
    pairs = from_pairs(inputs.pairs(requests["pairs"]["file"], requests["pairs"]["format"]), len(planned), key)
    if not any(specs):
        return pairs
    nobody = {"input": {"median": 1.0, "sigma": 0.0}, "output": {"median": 1.0, "sigma": 0.0}}
    by_own = by_law([spec or nobody for spec in specs], key)
    return [own if spec else pair for spec, own, pair in zip(specs, by_own, pairs, strict=True)]


def _documents(
    workload: dict[str, Any], key: Key, planned: Sequence[Slot], kinds: Sequence[str | None]
) -> list[tuple[int | None, int]]:
    """(document, its tokens) that each request starts with; (None, 0): none. A population's documents are its own."""
    populations = workload.get("populations") or {None: workload["requests"]}
    laws: dict[str | None, tuple[int, list[float], int] | None] = {}
    limited = 0
    for name, own in populations.items():
        spec = own.get("prefix")
        laws[name] = None
        if spec is not None:
            count = spec["documents"]
            exponent = spec["choice"]["exponent"] if spec["choice"]["law"] == "zipf" else 0.0
            laws[name] = (limited, [] if count is None else zipf_cumulative(count, exponent), int(spec["tokens"]))
            limited += count or 0
    if not any(laws.values()):
        return [(None, 0)] * len(planned)
    uniforms = Stream(key[0], "documents", *key[1:]).uniforms(len(planned))
    chosen: list[tuple[int | None, int]] = []
    for index, (kind, u) in enumerate(zip(kinds, uniforms, strict=True)):
        law = laws[kind]
        if law is None:
            chosen.append((None, 0))
            continue
        first, cumulative, tokens = law
        # A document of its own for each request where documents are unlimited: named by the request's index.
        chosen.append((first + bisect.bisect_left(cumulative, u) if cumulative else limited + index, tokens))
    return chosen


def _think_times(spec: dict[str, Any] | None, key: Key, n: int) -> list[int]:
    """The pause before each turn, ns."""
    if spec is None or not spec["think_time"]:
        return [0] * n
    if spec["think"] == "fixed":
        return [round(spec["think_time"] * 1e9)] * n
    return Stream(key[0], "think", *key[1:]).exponential_ns(n, 1 / spec["think_time"])


def require_context(card: dict[str, Any], requests: Sequence[PlannedRequest]) -> None:
    """Refuse what cannot fit the model's context, before a server does. Raises InputError."""
    limits = [card["system"]["model"].get("context_limit"), card["system"]["flags"].get("max-model-len")]
    known = [limit for limit in limits if isinstance(limit, int) and not isinstance(limit, bool)]
    if not known:
        return
    for request in requests:
        if request.input_tokens is not None and request.input_tokens + request.output_tokens > min(known):
            what = f"a request of {request.input_tokens} prompt and {request.output_tokens} output tokens"
            raise InputError(f"the plan holds {what}; wanted at most {min(known)} together, the context limit")

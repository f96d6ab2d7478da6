"""The requests of one load point in one block: offsets, lengths, prefixes and prompts. Pure."""

from __future__ import annotations

import bisect
import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ...schema.inputs import NO_INPUTS, Inputs
from ..tokens.words import Words
from . import arrivals
from .draws import Stream, zipf_cumulative
from .window import Phases

#: A closed loop bounded by time has no number of requests of its own. As many are planned as clients could take that
#: receive this many tokens a second; a faster system exhausts the plan, and the cell is invalid by that name.
FASTEST_TOKENS_PER_CLIENT_SECOND = 500
#: Uncounted requests planned for each client of a closed loop, to keep the load up while the last counted ones end.
CLOSED_LOOP_DRAIN_PER_CLIENT = 64
#: The first tokens of a prompt are replaced by the arm's own where two arms share a server, at equal length.
SALT_TOKENS = 4


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """One request of the plan. Lengths in tokens; `input_tokens` includes the prefix. `offset_ns` counts from the
    cell's start (open loop) and is None in a closed loop, where request i belongs to client i mod concurrency."""

    index: int
    phase: str
    offset_ns: int | None
    client: int | None
    prefix_group: int | None
    prefix_tokens: int
    input_tokens: int
    output_tokens: int


def plan_requests(
    card: dict[str, Any], seed: int, block: int, load_point: int, inputs: Inputs = NO_INPUTS
) -> list[PlannedRequest]:
    """Every request that the load point may send in this block, in order: warm-up, measured window, drain.

    Both arms of the block get the same list; another block, load point or seed gets a fresh one.
    """
    workload = card["workload"]
    load = workload["loads"][load_point - 1]
    key = (seed, block, load_point)
    slots = list(_open_loop(workload, load, key) if workload["load_kind"] == "rate" else _closed_loop(workload, load))
    least = Words.from_card(card, inputs).least_input
    lengths = _lengths(workload["requests"]["lengths"], key, len(slots), least)
    groups, prefix_tokens = _prefixes(workload["requests"]["prefix"], key, len(slots))
    return [
        PlannedRequest(index, phase, offset, client, group, prefix_tokens, prefix_tokens + input_tokens, output_tokens)
        for index, ((phase, offset, client), (input_tokens, output_tokens), group) in enumerate(
            zip(slots, lengths, groups, strict=True)
        )
    ]


def prompt_tokens(seed: int, block: int, load_point: int, request: PlannedRequest) -> npt.NDArray[np.int32]:
    """The token ids of a planned prompt, before any salt: the document's text, then the request's own."""
    own = _own_tokens(seed, block, load_point, request)
    if not request.prefix_tokens:
        return own
    # A document of its own for each request where documents are unlimited: its group is then its index.
    return np.concatenate([_document(seed, block, load_point, request.prefix_group, request.prefix_tokens), own])


def planned_digest(seed: int, block: int, load_point: int, request: PlannedRequest) -> str:
    """`prompt_digest(prompt_tokens(…))`, with a shared document read once for all its requests."""
    own = _own_tokens(seed, block, load_point, request)
    if not request.prefix_tokens:
        return prompt_digest(own)
    sha = _document_hash(seed, block, load_point, request.prefix_group, request.prefix_tokens).copy()
    sha.update(_little_endian(own))
    return sha.hexdigest()


def _own_tokens(seed: int, block: int, load_point: int, request: PlannedRequest) -> npt.NDArray[np.int32]:
    """What follows the document."""
    stream = Stream(seed, "prompt", block, load_point, request.index)
    return stream.token_ids(request.input_tokens - request.prefix_tokens)


@lru_cache(maxsize=4096)
def _document_hash(seed: int, block: int, load_point: int, group: int | None, tokens: int) -> hashlib._Hash:
    return hashlib.sha256(_little_endian(_document(seed, block, load_point, group, tokens)))


def _little_endian(tokens: npt.NDArray[np.int32]) -> bytes:
    return tokens.astype("<i4").tobytes()


@lru_cache(maxsize=4096)
def _document(seed: int, block: int, load_point: int, group: int | None, tokens: int) -> npt.NDArray[np.int32]:
    return Stream(seed, "document", block, load_point, group).token_ids(tokens)


def salted(tokens: npt.NDArray[np.int32], salt: str | None) -> npt.NDArray[np.int32]:
    """The prompt with its first tokens replaced by the arm's own (equal length), where two arms share one server."""
    if salt is None:
        return tokens
    out = tokens.copy()
    n = min(SALT_TOKENS, len(out))
    out[:n] = Stream(0, "salt", salt).token_ids(n)
    return out


def prompt_digest(tokens: npt.NDArray[np.int32]) -> str:
    """SHA-256 (hex) over the prompt's token ids as little-endian int32."""
    return hashlib.sha256(_little_endian(tokens)).hexdigest()


def _open_loop(
    workload: dict[str, Any], rate: float, key: tuple[int, int, int]
) -> Iterator[tuple[str, int | None, int | None]]:
    """(phase, offset_ns, client) of each arrival."""
    window = workload["window"]
    drain_ns = round(window["drain"] * 1e9)
    phases = Phases(window)
    end_of_measure: int | None = None
    for index, now in enumerate(arrivals.offsets(workload["arrivals"], rate, window, key)):
        phase = phases.of(index, now)
        if phase == "drain":
            end_of_measure = now if end_of_measure is None else end_of_measure
            if now - end_of_measure > drain_ns:
                return
        yield phase, now, None


def _closed_loop(workload: dict[str, Any], concurrency: float) -> Iterator[tuple[str, int | None, int | None]]:
    """(phase, None, client). Where the window is bounded by time the phase follows from each request's start; the plan
    then says 'measure' for every request after a warm-up by count."""
    window = workload["window"]
    clients = int(concurrency)
    n_warmup = window["warmup"].get("requests", 0)
    n_measure = window["measure"].get("requests")
    seconds = window["warmup"].get("seconds", 0.0) + window["measure"].get("seconds", 0.0)
    median_output = workload["requests"]["lengths"]["output"]["median"]
    by_time = math.ceil(seconds * clients * max(1.0, FASTEST_TOKENS_PER_CLIENT_SECOND / median_output))
    # While the last counted requests end, each client goes on with uncounted ones.
    n_drain = max(CLOSED_LOOP_DRAIN_PER_CLIENT * clients, 4 * (n_measure or 0))
    n_counted = by_time if n_measure is None else by_time + n_measure
    for index in range(n_warmup + n_counted + n_drain):
        phase = "warmup" if index < n_warmup else "measure" if index < n_warmup + n_counted else "drain"
        yield phase, None, index % clients


def _lengths(spec: dict[str, Any], key: tuple[int, int, int], n: int, least: int = 1) -> list[tuple[int, int]]:
    """n pairs of input and output lengths in tokens: lognormal (median, sigma of the log), correlated through a
    Gaussian copula; outputs are at least 1, inputs at least `least`: a chat template and one word."""
    first = Stream(key[0], "lengths", *key[1:]).normals(n)
    second = Stream(key[0], "output lengths", *key[1:]).normals(n)
    rho = spec.get("correlation") or 0.0
    mixed = [rho * a + math.sqrt(1 - rho * rho) * b for a, b in zip(first, second, strict=True)]
    return [
        (max(least, _lognormal(spec["input"], a)), _lognormal(spec["output"], b))
        for a, b in zip(first, mixed, strict=True)
    ]


def _lognormal(spec: dict[str, float], z: float) -> int:
    return max(1, round(spec["median"] * math.exp(spec["sigma"] * z)))


def _prefixes(spec: dict[str, Any] | None, key: tuple[int, int, int], n: int) -> tuple[list[int | None], int]:
    """Which document each request starts with (None: none), and the documents' length in tokens."""
    if spec is None:
        return [None] * n, 0
    if spec["documents"] is None:
        return list(range(n)), int(spec["tokens"])
    law = spec["choice"]
    cumulative = zipf_cumulative(spec["documents"], law["exponent"] if law["law"] == "zipf" else 0.0)
    uniforms = Stream(key[0], "documents", *key[1:]).uniforms(n)
    return [bisect.bisect_left(cumulative, u) for u in uniforms], int(spec["tokens"])

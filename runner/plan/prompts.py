"""The text of planned prompts, and its digests. Pure; digests are made on several cores where there are many."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ...schema.inputs import NO_INPUTS, Inputs
from ...schema.recorded import RecordedRequest
from ..tokens.words import Words
from .draws import Stream
from .requests import PlannedRequest, plan_requests

Key = tuple[int, int]
Tokens = npt.NDArray[np.int32]
#: so many prompts are worth the start of another process
_WORTH_A_PROCESS = 50_000
#: of one load point so many are a part: to begin one, its requests are planned again
_PART = 200_000
#: The first tokens of a prompt are replaced by the arm's own where two arms share a server, at equal length.
SALT_TOKENS = 4


class Prompts:
    """The prompts of a card's plan: what each request says itself. (What a later turn's prompt begins with, history and
    answers, is known when it is sent.)"""

    def __init__(self, card: dict[str, Any], seed: int, inputs: Inputs = NO_INPUTS) -> None:
        workload = card["workload"]
        facts, file = workload["arrivals"], workload["requests"].get("file")
        self._seed = seed
        self._recorded = None
        if file is not None:
            self._recorded = inputs.recorded(file["path"], file["format"], workload["endpoint"]).requests
        replayed = workload["requests"].get("from") == "trace"
        self._trace = inputs.trace(facts["file"], facts["format"], facts.get("unit")) if replayed else None
        self._hash_block = int(facts.get("hash_block") or 1)
        self._card, self._inputs = card, inputs

    @property
    def words(self) -> Words:
        """What chat prompts are made of."""
        return Words.from_card(self._card, self._inputs)

    def recorded(self, request: PlannedRequest) -> RecordedRequest | None:
        """The recorded request that this one repeats; None where prompts are made up."""
        return None if self._recorded is None or request.row is None else self._recorded[request.row]

    def tokens(self, key: Key, request: PlannedRequest) -> Tokens:
        """The token ids that are made up for a request, before any salt: document (in a first turn), then its own."""
        own = self._own(key, request)
        if not request.prefix_tokens or request.turn:
            return own
        return np.concatenate([document(self._seed, *key, request.prefix_group, request.prefix_tokens), own])

    def digest(self, key: Key, request: PlannedRequest) -> str:
        """SHA-256 (hex) over `tokens` as little-endian int32, or over the canonical JSON of a recorded prompt."""
        recorded = self.recorded(request)
        if recorded is not None:
            return hashlib.sha256(recorded.as_bytes()).hexdigest()
        own = self._own(key, request)
        if not request.prefix_tokens or request.turn:
            return prompt_digest(own)
        # A shared document is read once for all its requests.
        sha = _document_hash(self._seed, *key, request.prefix_group, request.prefix_tokens).copy()
        sha.update(_little_endian(own))
        return sha.hexdigest()

    def blocks(self, request: PlannedRequest) -> tuple[tuple[int, int], ...]:
        """The blocks of shared text that a replayed prompt consists of, each (pass through the trace, id): equal ones
        are equal text. Empty where the trace has none."""
        if self._trace is None or self._trace.hash_ids is None or request.row is None:
            return ()
        pass_, row = divmod(request.row, self._trace.rows)
        return tuple((pass_, id_) for id_ in self._trace.hash_ids[row])

    @property
    def hash_block(self) -> int:
        """Tokens in a block of shared text."""
        return self._hash_block

    def _own(self, key: Key, request: PlannedRequest) -> Tokens:
        blocks = self.blocks(request)
        own = request.own_tokens
        if not blocks:
            return Stream(self._seed, "prompt", *key, request.index).token_ids(own)
        parts = [_shared_block(self._seed, *key, *block, self._hash_block) for block in blocks]
        left = own - self._hash_block * len(blocks)
        if left > 0:
            parts.append(Stream(self._seed, "prompt", *key, request.index).token_ids(left))
        return np.concatenate(parts)[:own]


def prompt_digests(
    card: dict[str, Any], seed: int, requests: dict[Key, list[PlannedRequest]], inputs: Inputs = NO_INPUTS
) -> dict[Key, list[str]]:
    """For each (block, load point) the digests (hex) of its prompts, in the order of its requests."""
    cores = min(len(os.sched_getaffinity(0)), sum(map(len, requests.values())) // _WORTH_A_PROCESS)
    if cores < 2:
        prompts = Prompts(card, seed, inputs)
        return {key: [prompts.digest(key, request) for request in rows] for key, rows in requests.items()}
    parts = [
        (key, first, min(first + _PART, len(rows)))
        for key, rows in requests.items()
        for first in range(0, len(rows), _PART)
    ]
    found: dict[Key, list[str]] = {key: [] for key in requests}
    # Spawned, not forked: a fork of a process with threads may wait for ever on a lock that nobody holds.
    with ProcessPoolExecutor(cores, multiprocessing.get_context("spawn")) as pool:
        work = pool.map(_part, *zip(*((card, seed, *part, inputs) for part in parts), strict=True))
        for (key, *_), digests in zip(parts, work, strict=True):
            found[key] += digests
    return found


def _part(card: dict[str, Any], seed: int, key: Key, first: int, end: int, inputs: Inputs = NO_INPUTS) -> list[str]:
    """In a process of its own: the prompts of a load point from `first` to `end`. It plans the requests again, which is
    cheaper than being sent them."""
    prompts = Prompts(card, seed, inputs)
    rows = plan_requests(card, seed, *key, inputs)[first:end]
    return [prompts.digest(key, request) for request in rows]


@lru_cache(maxsize=4096)
def _document_hash(seed: int, block: int, load_point: int, group: int | None, tokens: int) -> hashlib._Hash:
    return hashlib.sha256(_little_endian(document(seed, block, load_point, group, tokens)))


@lru_cache(maxsize=4096)
def document(seed: int, block: int, load_point: int, group: int | None, tokens: int) -> Tokens:
    """The token ids of a document."""
    return Stream(seed, "document", block, load_point, group).token_ids(tokens)


@lru_cache(maxsize=16384)
def _shared_block(seed: int, block: int, load_point: int, pass_: int, id_: int, tokens: int) -> Tokens:
    return Stream(seed, "shared", block, load_point, pass_, id_).token_ids(tokens)


def _little_endian(tokens: Tokens) -> bytes:
    return tokens.astype("<i4").tobytes()


def salted(tokens: Tokens, salt: str | None) -> Tokens:
    """The prompt with its first tokens replaced by the arm's own (equal length), where two arms share one server."""
    if salt is None:
        return tokens
    out = tokens.copy()
    n = min(SALT_TOKENS, len(out))
    out[:n] = Stream(0, "salt", salt).token_ids(n)
    return out


def prompt_digest(tokens: Tokens) -> str:
    """SHA-256 (hex) over the prompt's token ids as little-endian int32."""
    return hashlib.sha256(_little_endian(tokens)).hexdigest()

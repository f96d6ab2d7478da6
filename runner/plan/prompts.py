"""The digests of every planned prompt. Pure; on several cores where there are many, with the same result."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from ...schema.inputs import NO_INPUTS, Inputs
from .requests import PlannedRequest, plan_requests, planned_digest

Key = tuple[int, int]
#: so many prompts are worth the start of another process
_WORTH_A_PROCESS = 50_000


def prompt_digests(
    card: dict[str, Any], seed: int, requests: dict[Key, list[PlannedRequest]], inputs: Inputs = NO_INPUTS
) -> dict[Key, list[str]]:
    """For each (block, load point) the digests (hex) of its prompts, in the order of its requests."""
    cores = min(len(os.sched_getaffinity(0)), sum(map(len, requests.values())) // _WORTH_A_PROCESS)
    if cores < 2:
        return {key: _digests(seed, key, rows) for key, rows in requests.items()}
    parts = [(key, first) for key, rows in requests.items() for first in range(0, len(rows), _WORTH_A_PROCESS)]
    found: dict[Key, list[str]] = {key: [] for key in requests}
    # Spawned, not forked: a fork of a process with threads may wait for ever on a lock that nobody holds.
    with ProcessPoolExecutor(cores, multiprocessing.get_context("spawn")) as pool:
        work = pool.map(_part, *zip(*((card, seed, key, first, inputs) for key, first in parts), strict=True))
        for (key, _), digests in zip(parts, work, strict=True):
            found[key] += digests
    return found


def _part(card: dict[str, Any], seed: int, key: Key, first: int, inputs: Inputs = NO_INPUTS) -> list[str]:
    """In a process of its own: a part of a load point's prompts. It plans the requests again, which is cheaper than
    being sent them."""
    return _digests(seed, key, plan_requests(card, seed, *key, inputs)[first : first + _WORTH_A_PROCESS])


def _digests(seed: int, key: Key, rows: list[PlannedRequest]) -> list[str]:
    return [planned_digest(seed, *key, request) for request in rows]

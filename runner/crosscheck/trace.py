"""The requests of a cell as another client can send them: the plan's own, as a trace. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..plan.plan import Plan
from ..plan.requests import PlannedRequest

#: tokens that the trace tells apart: two prompts share as many of their first tokens as they share whole chunks
CHUNK = 16


@dataclass(frozen=True)
class Work:
    """What vllm bench is asked to send: arguments for its load, the number of requests, and the trace's lines (none
    where it makes prompts of the mean lengths itself)."""

    arguments: list[str]
    requests: int
    trace: list[str]

    @property
    def same(self) -> bool:
        """Whether request i is the plan's request i: its lengths, and what it shares with the others."""
        return bool(self.trace)


def work_of(plan: Plan, key: tuple[int, int], taken: int | None) -> Work:
    """The work of a load point in a block: warm-up and measured requests, `taken` of them where clients of a closed
    loop decided how many."""
    requests = [request for request in plan.requests[key] if request.phase != "drain"]
    requests = requests if taken is None else plan.requests[key][:taken]
    arguments = [*_load(plan.card, float(plan.card["workload"]["loads"][key[1] - 1])), *_sampling(plan.card)]
    if plan.card["workload"]["endpoint"] == "chat":
        return Work([*arguments, *_random(plan, requests)], len(requests), [])
    closed = plan.card["workload"]["load_kind"] == "concurrency"
    timing = ["--no-self-timed"] if closed else ["--self-timed"]
    replay = ["--dataset-name", "timed_trace", "--timed-trace-chunk-hash-size", str(CHUNK), *_LABELS, *timing]
    return Work([*arguments, *replay], len(requests), _lines(plan, key, requests))


_LABELS = (
    "--timed-trace-label-timestamp", "timestamp", "--timed-trace-label-input-length", "input_length",
    "--timed-trace-label-output-length", "output_length", "--timed-trace-label-hash-ids", "hash_ids",
    "--timed-trace-sec-multiplier", "1",
)  # fmt: skip


def _lines(plan: Plan, key: tuple[int, int], requests: Sequence[PlannedRequest]) -> list[str]:
    """A line a request: when (s), how long, and a number for each chunk of its prompt, the same for the same chunk."""
    known: dict[bytes, int] = {}
    lines = []
    for request in requests:
        tokens = plan.prompts.tokens(key, request)
        chunks = [tokens[at : at + CHUNK].tobytes() for at in range(0, len(tokens), CHUNK)]
        row = {
            "timestamp": (request.offset_ns or 0) / 1e9,
            "input_length": len(tokens),
            "output_length": request.output_tokens,
            "hash_ids": [known.setdefault(chunk, len(known)) for chunk in chunks],
        }
        lines.append(json.dumps(row))
    return lines


def _load(card: dict[str, Any], load: float) -> list[str]:
    """A rate is in the trace's times already; where there is no trace it is told, as is a concurrency."""
    workload = card["workload"]
    if workload["load_kind"] == "concurrency":
        return ["--max-concurrency", str(round(load))]
    if workload["endpoint"] != "chat":
        return []
    arrivals = workload["arrivals"]
    burstiness = "inf" if arrivals["process"] == "constant" else str(arrivals.get("burstiness", 1.0))
    return ["--request-rate", repr(load), "--burstiness", burstiness.replace("infinite", "inf")]


def _sampling(card: dict[str, Any]) -> list[str]:
    sampling = card["workload"]["sampling"]
    return [
        "--temperature",
        repr(float(sampling["temperature"])),
        *(["--ignore-eos"] if sampling["ignore_eos"] else []),
    ]


def _random(plan: Plan, requests: Sequence[PlannedRequest]) -> list[str]:
    """Prompts of random words, all of the mean lengths: on chat a trace cannot be replayed."""

    def mean(values: list[int]) -> int:
        """The mean number of tokens, rounded, at least 1."""
        return max(1, round(sum(values) / len(values)))

    lengths = [mean([request.input_tokens or 1 for request in requests]), mean([r.output_tokens for r in requests])]
    return [
        "--dataset-name", "random", "--random-input-len", str(lengths[0]), "--random-output-len", str(lengths[1]),
        "--seed", str(plan.seed % 2**32),
    ]  # fmt: skip

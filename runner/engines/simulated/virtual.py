"""One planned cell in virtual time: the truth that a live cell is compared with, and that `plan` asks beforehand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .config import EngineConfig, config_from_flags
from .model import simulate
from .sequence import Request, Timing
from .tokens import WIDTH, encode

#: (index, offset in ns, prompt token ids as a list or a numpy array, output tokens)
Planned = tuple[int, int, "list[int] | Any", int]


def virtual_timings(
    planned: Iterable[Planned],
    flags: Mapping[str, object],
    *,
    costs: str = "atlas",
    speedup: float = 1.0,
    uptime_ns: int = 0,
) -> dict[int, Timing]:
    """Play one cell on an idle, empty engine with these flags that was started `uptime_ns` before offset zero (where it
    drifts, it has drifted since); timings by index, time zero at offset zero.

    Requests arrive at their offsets (a client, a network and a server add their own time to that). As the server does,
    it refuses what is longer than the context (outcome `refused`), gives each `error_every`-th request an error and
    ends each `stall_every`-th reply after its first token.
    """
    return play(planned, config_from_flags(flags, costs=costs, speedup=speedup, epoch_ns=-uptime_ns))


def play(planned: Iterable[Planned], config: EngineConfig) -> dict[int, Timing]:
    """`virtual_timings` for a configuration at hand."""
    timings: dict[int, Timing] = {}
    admitted: list[Request] = []
    stalled: set[str] = set()
    number = 0
    for index, offset, ids, output_tokens in sorted(planned, key=lambda row: (row[1], row[0])):
        prompt = encode(ids)
        timings[index] = Timing(str(index), offset, len(prompt) // WIDTH)
        if not prompt or not 0 < output_tokens <= config.max_model_len - len(prompt) // WIDTH:
            timings[index].outcome = "refused"
            continue
        number += 1
        if config.misbehave.is_error(number):
            timings[index].outcome = "error"
            continue
        if config.misbehave.is_stall(number):
            stalled.add(str(index))
        admitted.append(Request(str(index), prompt, output_tokens, offset))
    for timing in simulate(config, admitted):
        if timing.request_id in stalled:
            timing.outcome, timing.token_ns, timing.finish_ns = "stalled", timing.token_ns[:1], None
        timings[int(timing.request_id)] = timing
    return timings

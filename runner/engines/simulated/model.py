"""The engine in virtual time: requests in, the timing of each out. Pure, and a matter of milliseconds.

The HTTP server plays the same scheduler on the clock, so given the arrivals it saw, `simulate` tells to the nanosecond
when it meant to send each token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .config import EngineConfig
from .scheduler import Scheduler
from .sequence import Request, Step, Timing

__all__ = ["Request", "Scheduler", "Step", "Timing", "simulate", "simulate_closed"]

#: called with the timing of a request that finished; returns the requests that follow, arriving no earlier than that
FollowUp = Callable[[Timing], Iterable[Request]]


def simulate(config: EngineConfig, requests: Iterable[Request]) -> list[Timing]:
    """Open loop: every request arrives at its `arrival_ns`, whatever becomes of the others.

    Returns timings in the order of the requests; arrivals at the same nanosecond are served in that order, too.
    """
    scheduler = Scheduler(config)
    timings = [scheduler.add(request) for request in requests]
    while scheduler.next_step() is not None:
        pass
    return timings


def simulate_closed(config: EngineConfig, first: Iterable[Request], follow_up: FollowUp) -> list[Timing]:
    """Closed loop: `first` arrive, and each request that finishes brings those that `follow_up` returns for it.

    Returns timings in the order in which requests were added.
    """
    scheduler = Scheduler(config)
    timings = [scheduler.add(request) for request in first]
    by_id = {timing.request_id: timing for timing in timings}
    while (step := scheduler.next_step()) is not None:
        for request_id in step.finished:
            for request in follow_up(by_id.pop(request_id)):
                timing = scheduler.add(request)
                by_id[request.id] = timing
                timings.append(timing)
    return timings

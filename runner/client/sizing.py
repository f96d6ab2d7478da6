"""How many worker processes a card's heaviest load takes. Pure."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

from ..plan.lengths import mean_output

#: what one worker is given where the card leaves it to us: about half of what one is measured to do with errors below
#: 1 ms (README, "The instrument")
TOKENS_PER_S, REQUESTS_PER_S, STREAMS = 50_000, 1_000, 512


@dataclass(frozen=True)
class Demand:
    """What the heaviest load point asks of the client. A closed loop's rates depend on the server: None. An open loop
    has at most as many streams as start within timeout_total. `peak` is its highest rate over its mean rate, `clumping`
    the variance of its counts over their mean (1: Poisson)."""

    tokens_per_s: float | None
    requests_per_s: float | None
    streams: int
    peak: float = 1.0
    clumping: float = 1.0

    def busiest_second(self) -> float:
        """Requests in the busiest second of an open loop: five standard deviations above its mean at the peak."""
        at_peak = (self.requests_per_s or 0.0) * self.peak
        return at_peak + 5 * math.sqrt(at_peak * self.clumping)


def demand(card: dict[str, Any]) -> Demand:
    """The demand of a resolved card's heaviest load point, by its own numbers."""
    workload = card["workload"]
    heaviest = max(workload["loads"])
    if workload["load_kind"] == "concurrency":
        return Demand(None, None, round(heaviest))
    streams = math.ceil(heaviest * workload["client"]["timeout_total"])
    return Demand(heaviest * mean_output(workload), heaviest, streams, *_irregularity(workload["arrivals"]))


def _irregularity(arrivals: dict[str, Any]) -> tuple[float, float]:
    """(peak, clumping) of an arrival process."""
    if arrivals["process"] == "trace":
        return max(1.0, arrivals["file"]["busiest_second"] / arrivals["file"]["rate"]), 1.0
    peak = max(arrivals.get("levels") or [1.0])
    burstiness = arrivals.get("burstiness", 1.0)
    clumping = 0.0 if burstiness == "infinite" else max(arrivals.get("size", 1.0), 1 / burstiness)
    return peak, clumping


def workers_of(card: dict[str, Any], cores: int | None = None) -> int:
    """The number of workers: the card's, or for `auto` what its heaviest load takes, on at most half of the cores (the
    other half is the server's, which may be on the same machine)."""
    client = card["workload"]["client"]
    # A card resolved before there were workers has one.
    wanted, cap = client.get("workers", 1), client["in_flight"]
    if wanted != "auto":
        return int(wanted)
    if cap is not None:
        return 1
    asked = demand(card)
    shares = (
        (asked.tokens_per_s or 0.0) / TOKENS_PER_S,
        (asked.requests_per_s or 0.0) / REQUESTS_PER_S,
        # An open loop's streams are a bound that only a stalled server reaches.
        asked.streams / STREAMS if asked.requests_per_s is None else 0.0,
    )
    half = (cores or len(os.sched_getaffinity(0))) // 2
    return max(1, min(math.ceil(max(shares)), half))

"""Which population each request belongs to. Pure."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from typing import Any

from .draws import Stream
from .lengths import Key
from .slots import Slot


def kinds_of(workload: dict[str, Any], key: Key, planned: Sequence[Slot]) -> list[str | None]:
    """The population of each request, drawn by itself (a conversation's turns are one draw); None where there are no
    populations. Where the mix follows the profile, the level at the request's offset decides."""
    populations = workload.get("populations")
    if not populations:
        return [None] * len(planned)
    names = list(populations)
    by_level = populations[names[0]]["share_by_level"] is not None
    shares = [populations[name]["share_by_level" if by_level else "share"] for name in names]
    mixes = [list(itertools.accumulate(mix)) for mix in (zip(*shares, strict=True) if by_level else [shares])]
    units = planned[-1].unit + 1 if planned else 0
    uniforms = Stream(key[0], "populations", *key[1:]).uniforms(units)
    kinds: list[str | None] = []
    for slot in planned:
        if slot.turn:
            kinds.append(kinds[-1])
            continue
        mix = mixes[_level(workload["arrivals"], slot.offset_ns or 0)] if by_level else mixes[0]
        kinds.append(names[min(bisect.bisect_left(mix, uniforms[slot.unit]), len(names) - 1)])
    return kinds


def _level(arrivals: dict[str, Any], offset_ns: int) -> int:
    """The level of the profile at an offset."""
    period_ns = round(arrivals["period"] * 1e9)
    levels: list[float] = arrivals["levels"]
    return int(offset_ns % period_ns * len(levels) // period_ns)

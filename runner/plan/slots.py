"""The slots of a load point: when each request comes, whose it is, and which turn of which conversation. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from ...schema.inputs import Inputs
from . import arrivals
from .draws import Stream
from .lengths import Key, typical_output
from .window import Phases

#: A closed loop bounded by time has no number of requests of its own. As many are planned as clients could take that
#: receive this many tokens a second; a faster system exhausts the plan, and the cell is invalid by that name.
FASTEST_TOKENS_PER_CLIENT_SECOND = 500
#: Uncounted requests planned for each client of a closed loop, to keep the load up while the last counted ones end.
CLOSED_LOOP_DRAIN_PER_CLIENT = 64


class Slot(NamedTuple):
    """One request to be planned. `offset_ns` is None where its client or the turn before decides; `unit` is its number
    among the conversations, or among the requests where there are none; `row` is that of a trace."""

    phase: str
    offset_ns: int | None
    client: int | None
    unit: int
    turn: int | None = None
    turns: int | None = None
    row: int | None = None


def slots(workload: dict[str, Any], load: float, key: Key, inputs: Inputs) -> list[Slot]:
    """Every request that the load point may send, in the order of the plan."""
    turns = _Turns(workload["requests"].get("conversations"), key)
    if workload["load_kind"] == "rate":
        found = list(_open_loop(workload, load, key, inputs, turns))
    elif turns.known:
        found = list(_closed_conversations(workload, load, turns))
    else:
        found = list(_closed_loop(workload, load))
    return found


class _Turns:
    """How many turns each conversation has: drawn by its number."""

    def __init__(self, spec: dict[str, Any] | None, key: Key) -> None:
        self.known = spec is not None
        turns = spec["turns"] if spec is not None else 1
        self._least, self._most = (int(turn) for turn in (turns if isinstance(turns, list) else (turns, turns)))
        self._stream = Stream(key[0], "turns", *key[1:])

    @property
    def mean(self) -> float:
        """The mean number of turns."""
        return (self._least + self._most) / 2

    def next(self) -> int:
        """Of the next conversation."""
        return self._least + int(self._stream.uniforms(1)[0] * (self._most - self._least + 1))


def _open_loop(workload: dict[str, Any], rate: float, key: Key, inputs: Inputs, turns: _Turns) -> Iterator[Slot]:
    window = workload["window"]
    drain_ns = round(window["drain"] * 1e9)
    phases = Phases(window)
    end_of_measure: int | None = None
    rows = 0
    if workload["arrivals"]["process"] == "trace":
        offsets, rows = _replayed(workload, rate, inputs)
    else:
        offsets = arrivals.offsets(workload["arrivals"], rate / turns.mean, window, key)
    for index, now in enumerate(offsets):
        phase = phases.of(index, now)
        if phase == "drain":
            end_of_measure = now if end_of_measure is None else end_of_measure
            if now - end_of_measure > drain_ns:
                return
        if not turns.known:
            yield Slot(phase, now, None, index, row=index if rows else None)
            continue
        count = turns.next()
        for turn in range(count):
            yield Slot(phase, now if turn == 0 else None, None, index, turn, count)


def _replayed(workload: dict[str, Any], rate: float, inputs: Inputs) -> tuple[Iterator[int], int]:
    """Offsets of a trace whose clock runs so that its mean rate is `rate`, and its rows. Every gap is stretched alike,
    order and ties stay. After its end (the window has ended by then) it begins anew, a mean gap later."""
    facts = workload["arrivals"]
    trace = inputs.trace(facts["file"], facts["format"], facts.get("unit"))
    stretch = trace.rate / rate
    period = trace.span_ns + round(trace.span_ns / (trace.rows - 1))
    passes = (pass_ * period + offset for pass_ in itertools.count() for offset in trace.offsets)
    return (round(offset * stretch) for offset in passes), trace.rows


def _counts(workload: dict[str, Any], concurrency: float) -> tuple[int, int, int]:
    """How many requests of a closed loop are planned for warm-up, measurement and drain."""
    window = workload["window"]
    clients = int(concurrency)
    n_warmup = window["warmup"].get("requests", 0)
    n_measure = window["measure"].get("requests")
    seconds = window["warmup"].get("seconds", 0.0) + window["measure"].get("seconds", 0.0)
    fastest = max(1.0, FASTEST_TOKENS_PER_CLIENT_SECOND / typical_output(workload))
    by_time = math.ceil(seconds * clients * fastest)
    # While the last counted requests end, each client goes on with uncounted ones.
    n_drain = max(CLOSED_LOOP_DRAIN_PER_CLIENT * clients, 4 * (n_measure or 0))
    return n_warmup, by_time if n_measure is None else by_time + n_measure, n_drain


def _closed_loop(workload: dict[str, Any], concurrency: float) -> Iterator[Slot]:
    """Where the window is bounded by time the phase follows from each request's start; the plan then says 'measure' for
    every request after a warm-up by count."""
    n_warmup, n_counted, n_drain = _counts(workload, concurrency)
    clients = int(concurrency)
    for index in range(n_warmup + n_counted + n_drain):
        yield Slot(_phase(index, n_warmup, n_counted), None, index % clients, index)


def _closed_conversations(workload: dict[str, Any], concurrency: float, turns: _Turns) -> Iterator[Slot]:
    """Conversation c belongs to client c mod N, which goes through its conversations turn by turn."""
    n_warmup, n_counted, n_drain = _counts(workload, concurrency)
    clients = int(concurrency)
    index = conversation = 0
    # Every client gets whole conversations, and as many as the others.
    while index < n_warmup + n_counted + n_drain or conversation % clients:
        count = turns.next()
        for turn in range(count):
            yield Slot(
                _phase(index, n_warmup, n_counted), None, conversation % clients, conversation, turn=turn, turns=count
            )
            index += 1
        conversation += 1


def _phase(index: int, n_warmup: int, n_counted: int) -> str:
    return "warmup" if index < n_warmup else "measure" if index < n_warmup + n_counted else "drain"

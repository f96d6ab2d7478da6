"""Rules about the workload: arrivals and loads, window, requests, cache."""

from __future__ import annotations

from collections.abc import Iterator

from .defaults import Filled
from .errors import Problem
from .quantity import format_quantity

#: how far the mean of a profile's levels may be from 100%, and a window from its trace's end: what rounding leaves
_ROUNDING = 1e-6


def _loads_fit_arrivals(filled: Filled) -> Iterator[Problem]:
    """An open loop has rates; a closed one has a number of clients."""
    process = filled.get("workload", "arrivals", "process")
    wrong, right = ("loads", "concurrency") if process == "closed" else ("concurrency", "loads")
    if process is None:
        return
    if filled.on_card("workload", wrong) and not filled.on_card("workload", right):
        found = f"{wrong} with {process} arrivals"
        example = "concurrency: [1, 4, 16]" if process == "closed" else "loads: [2 req/s, 4 req/s]"
        yield filled.problem(("workload", wrong), found, example, at_key=True)
    if filled.on_card("workload", "slowdown") and process != "trace":
        hint = "slowdown belongs to process: trace"
        yield filled.problem(("workload", "slowdown"), f"slowdown with {process} arrivals", "loads", hint, at_key=True)


#: the keys of arrivals that belong to one process, and whether it can do without
_ARRIVAL_KEYS = {
    "think_time": ("closed", False), "burstiness": ("gamma", True), "size": ("bursts", True), "from": ("ramp", True),
    "levels": ("profile", True), "period": ("profile", True), "file": ("trace", True), "format": ("trace", True),
    "unit": ("trace", False), "hash_block": ("trace", False),
}  # fmt: skip
_EXAMPLES = {
    "burstiness": "0.5", "size": "16", "from": "20%", "levels": "[50%, 150%]", "period": "60 s",
    "file": "traces/chat.jsonl", "format": "mooncake",
}  # fmt: skip


def _arrivals_have_their_keys(filled: Filled) -> Iterator[Problem]:
    """Each process has keys of its own."""
    process = filled.get("workload", "arrivals", "process")
    if process is None:
        return
    for key, (belongs_to, needed) in _ARRIVAL_KEYS.items():
        path = ("workload", "arrivals", key)
        there = filled.on_card(*path)
        if there and process != belongs_to:
            hint = f"it belongs to process: {belongs_to}"
            yield filled.problem(path, f"{key} with {process} arrivals", "no such key", hint, at_key=True)
        elif needed and not there and process == belongs_to:
            found = f"{process} without {key}"
            yield filled.problem(("workload", "arrivals"), found, f"the key {key}, as in {key}: {_EXAMPLES[key]}")
    if process == "trace":
        yield from _trace_has_a_unit(filled)


def _trace_has_a_unit(filled: Filled) -> Iterator[Problem]:
    """A trace's format says the unit of its timestamps, or the card does."""
    arrivals = ("workload", "arrivals")
    format_ = filled.get(*arrivals, "format")
    if format_ == "csv" and not filled.on_card(*arrivals, "unit"):
        yield filled.problem((*arrivals, "format"), "csv without unit", "the key unit beside it, as in unit: ms")
    if format_ == "azure" and filled.on_card(*arrivals, "unit"):
        found = "unit with azure, whose timestamps are wall clocks"
        yield filled.problem((*arrivals, "unit"), found, "no such key", at_key=True)
    if format_ not in (None, "mooncake") and filled.on_card(*arrivals, "hash_block"):
        found, hint = f"hash_block with {format_}", "only mooncake has hash_ids"
        yield filled.problem((*arrivals, "hash_block"), found, "no such key", hint, at_key=True)


def _profile_has_the_load_as_its_mean(filled: Filled) -> Iterator[Problem]:
    path = ("workload", "arrivals", "levels")
    levels = filled.get(*path)
    if not filled.on_card(*path) or not levels or None in levels:
        return
    mean = sum(levels) / len(levels)
    if abs(mean - 1) > _ROUNDING:
        found = f"levels with a mean of {format_quantity('fraction', round(mean, 6))}"
        yield filled.problem(path, found, "a mean of 100%", "the load is the mean rate")


#: processes for which the window must be a time, and why
_BY_TIME = {"ramp": "the ramp ends with the window", "bursts": "a count would cut a burst in two"}
_TURNS_BY_TIME = "when a later turn comes, its conversation decides"


def _window_fits_arrivals(filled: Filled) -> Iterator[Problem]:
    process = filled.get("workload", "arrivals", "process")
    turns = process != "closed" and filled.get("workload", "requests", "conversations") is not None
    for part in ("warmup", "measure") if turns or process in _BY_TIME else ():
        path = ("workload", "window", part)
        if "requests" in (filled.get(*path) or {}):
            found = f"a number of requests with {'conversations' if turns else process + ' arrivals'}"
            yield filled.problem(path, found, "a duration", _TURNS_BY_TIME if turns else _BY_TIME[process])


def _window_within_trace(filled: Filled) -> Iterator[Problem]:
    """A trace replayed past its end is no longer that trace. (Uncounted requests of the drain begin it anew.)"""
    file, loads = filled.get("workload", "arrivals", "file"), filled.get("workload", "loads")
    parts = [filled.get("workload", "window", part) for part in ("warmup", "measure")]
    trace = filled.get("workload", "arrivals", "process") == "trace"
    if not trace or not isinstance(file, dict) or not loads or None in (*loads, *parts):
        return
    path = ("workload", "window", "measure")
    counts = [part["requests"] for part in parts if "requests" in part]
    if len(counts) == len(parts):
        if sum(counts) > file["rows"]:
            yield filled.problem(
                path, f"warm-up and window of {sum(counts)} requests", f"at most {file['rows']}, the trace's rows"
            )
        return
    for load in loads:
        seconds = sum(part["seconds"] if "seconds" in part else part["requests"] / load for part in parts)
        lasts = file["span"] * file["rate"] / load
        if seconds > lasts * (1 + _ROUNDING):
            found = f"warm-up and window of {format_quantity('duration', round(seconds, 3))}"
            hint = f"its {file['rows']} rows at {load:.4g} req/s"
            wanted = f"at most {format_quantity('duration', round(lasts, 3))}, which the trace lasts"
            yield filled.problem(path, found, wanted, hint)
            return


#: processes whose rate changes over the window, so that latency changes with it
_MOVING = ("ramp", "profile", "trace")


def _steady_state_fits_arrivals(filled: Filled) -> Iterator[Problem]:
    """Where the load itself moves over the window, latency has no steady state to be in."""
    path, process = ("validity", "steady_state"), filled.get("workload", "arrivals", "process")
    if process in _MOVING and filled.on_card(*path):
        where = (*path, "at") if filled.on_card(*path, "at") else path
        hint = f"the rate of {process} arrivals changes over the window, and latency with it"
        yield filled.problem(where, f"steady state with {process} arrivals", "no steady_state", hint)


def _drain_outlasts_timeout(filled: Filled) -> Iterator[Problem]:
    drain, timeout = filled.get("workload", "window", "drain"), filled.get("workload", "client", "timeout_total")
    if drain is not None and timeout is not None and drain < timeout:
        wanted = f"at least client.timeout_total, {format_quantity('duration', timeout)}"
        hint = "else slow attempts are cut off before they fail"
        yield filled.problem(("workload", "window", "drain"), format_quantity("duration", drain), wanted, hint)


def _timeouts_are_ordered(filled: Filled) -> Iterator[Problem]:
    """A timeout longer than the total one never fires."""
    total = filled.get("workload", "client", "timeout_total")
    for key in ("timeout_connect", "timeout_idle"):
        path = ("workload", "client", key)
        value = filled.get(*path)
        if filled.on_card(*path) and value is not None and total is not None and value > total:
            wanted = f"at most timeout_total, {format_quantity('duration', total)}"
            yield filled.problem(path, format_quantity("duration", value), wanted, "else it never fires")


def _cap_is_of_one_process(filled: Filled) -> Iterator[Problem]:
    """A cap on the attempts in flight belongs to an open loop, and one process keeps it."""
    path = ("workload", "client", "in_flight")
    cap, workers = filled.get(*path), filled.get("workload", "client", "workers")
    if not isinstance(cap, int):
        return
    if filled.get("workload", "arrivals", "process") == "closed":
        hint = "a closed loop's concurrency is its cap"
        yield filled.problem(path, f"{cap} with closed arrivals", "unlimited", hint)
    elif isinstance(workers, int) and workers > 1:
        yield filled.problem(path, f"{cap} with {workers} workers", "workers: 1", "one process keeps the cap")


def _cache_can_be_cold(filled: Filled) -> Iterator[Problem]:
    """Only a server that was just started has a cold cache."""
    if filled.get("workload", "cache_state") != "cold":
        return
    restart = filled.get("system", "launch", "restart")
    if filled.engine == "openai" or restart == "never":
        why = "servers that somebody else runs" if filled.engine == "openai" else "restart: never"
        yield filled.problem(
            ("workload", "cache_state"),
            f"cold with {why}",
            "reset or fresh_prompts",
            "nothing empties the cache",
        )


WORKLOAD_RULES = (
    _loads_fit_arrivals,
    _arrivals_have_their_keys,
    _profile_has_the_load_as_its_mean,
    _window_fits_arrivals,
    _window_within_trace,
    _steady_state_fits_arrivals,
    _drain_outlasts_timeout,
    _timeouts_are_ordered,
    _cap_is_of_one_process,
    _cache_can_be_cold,
)

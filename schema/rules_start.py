"""Rules about cold starts: what such a card needs, and which metrics no other card has."""

from __future__ import annotations

from collections.abc import Iterator

from .defaults import Filled
from .errors import Problem
from .metrics import COLD_START, SLOWDOWN_NEEDS
from .phrase import KeyPath
from .quantity import format_quantity
from .rules_claim import attempts_a_cell, statements

_TEST: KeyPath = ("workload", "test")
_ONLY_COLD = {metric.name for metric in COLD_START}


def _cold_start_starts_servers(filled: Filled) -> Iterator[Problem]:
    """Only a server that benchcard starts, and starts for each cell, has a start that can be measured."""
    if not filled.cold_start:
        return
    if filled.engine == "openai":
        wanted = "an engine that benchcard starts (vllm or simulated), or test: serving"
        yield filled.problem(_TEST, "cold_start of servers that somebody else runs", wanted)
        return
    path: KeyPath = ("system", "launch", "restart")
    restart = filled.get(*path)
    if restart is not None and restart != "each_cell":
        hint = "a cell without a start has nothing cold to measure"
        if filled.on_card(*path):
            yield filled.problem(path, f"{restart} with test: cold_start", "each_cell", hint)
        else:
            yield filled.problem(_TEST, "cold_start without restarts", "system.launch.restart: each_cell", hint)


def _cold_start_warms_nothing(filled: Filled) -> Iterator[Problem]:
    path: KeyPath = ("workload", "window", "warmup")
    warmup = filled.get(*path)
    if filled.cold_start and isinstance(warmup, dict) and any(warmup.values()):
        found = f"a warm-up of {format_quantity('span', warmup)} with test: cold_start"
        yield filled.problem(path, found, "0 s, or no warmup", "it would take away what is to be measured")


def _cold_start_has_a_cold_cache(filled: Filled) -> Iterator[Problem]:
    path: KeyPath = ("workload", "cache_state")
    state = filled.get(*path)
    if filled.cold_start and filled.on_card(*path) and state is not None and state != "cold":
        yield filled.problem(path, f"{state} with test: cold_start", "cold", "the server was just started")


def _start_metrics_need_a_cold_start(filled: Filled) -> Iterator[Problem]:
    """Where servers are warm, or started for several cells, nothing is there to compute them from."""
    if filled.get(*_TEST) != "serving":
        return
    for path, statement in statements(filled):
        name = statement.get("metric")
        if name in _ONLY_COLD:
            found = f"{name} on a card of test: serving"
            wanted, hint = "workload.test: cold_start", "only a cold start has this metric"
            yield filled.problem((*path, "metric"), found, wanted, hint)


def _slowdown_has_a_second_half(filled: Filled) -> Iterator[Problem]:
    """A first request is slow against those that follow once the server is warm; some must follow."""
    for path, statement in statements(filled):
        values = attempts_a_cell(filled, statement)
        if statement.get("metric") == "first.slowdown" and values is not None and values < SLOWDOWN_NEEDS:
            found = f"first.slowdown of about {values} attempts a cell"
            yield filled.problem((*path, "metric"), found, f"a window that holds {SLOWDOWN_NEEDS} attempts")


def _a_start_is_nobodys(filled: Filled) -> Iterator[Problem]:
    """A server's start and its first request are of the server: which population came first is chance."""
    for path, statement in statements(filled):
        if statement.get("metric") in _ONLY_COLD and statement.get("population") is not None:
            found = f"{statement['metric']} of one population"
            yield filled.problem((*path, "population"), found, "no population", "it is of the server's start", True)


START_RULES = (
    _cold_start_starts_servers,
    _cold_start_warms_nothing,
    _cold_start_has_a_cold_cache,
    _start_metrics_need_a_cold_start,
    _slowdown_has_a_second_half,
    _a_start_is_nobodys,
)

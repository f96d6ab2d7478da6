"""Declared misbehaviour: what `--misbehave SPEC` makes the engine do wrong, on request and in the open.

SPEC is a comma-separated list (or a JSON object) of the faults below. What is asked for stands in `/server_info`. The
faults of timing (`cold`, `drift`) are part of the pure model; the others concern the HTTP server alone (virtual time
has no replies that could be cut or altered).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeVar

from benchcard.schema.errors import InputError

Number = TypeVar("Number", int, float)

#: name -> (example, meaning); the order is the order of the help text
FAULTS: dict[str, tuple[str, str]] = {
    "die_after": ("die_after=3", "the process exits hard once 3 requests have started streaming"),
    "never_ready": ("never_ready", "/health answers 503 for good"),
    "slow_start": ("slow_start=1.5", "/health answers 503 until 1.5 s after the engine's start, at any speedup"),
    "error_every": ("error_every=5", "every 5th request gets HTTP 500"),
    "stall_every": ("stall_every=5", "every 5th request's reply stops after its first token"),
    "cold": ("cold=10:4", "the first 10 steps cost 4 times as much"),
    "cut": ("cut=0.5", "every reply ends (finish_reason stop) at half of the length that was asked for"),
    "alter": ("alter=0.1", "the replies to 10% of all prompts, drawn by their text, hold other tokens"),
    "drift": ("drift=0.01", "steps cost 0.01 (1%) more for each second since the engine's start, linearly"),
}


@dataclass(frozen=True)
class Misbehaviour:
    """The faults asked for. Counts are of requests, from 1; 0, 1.0 and False mean none."""

    die_after: int = 0
    never_ready: bool = False
    slow_start_s: float = 0.0
    error_every: int = 0
    stall_every: int = 0
    cold_steps: int = 0
    cold_factor: float = 1.0
    drift_per_s: float = 0.0
    cut: float = 1.0
    alter: float = 0.0

    def is_ready(self, uptime_ns: int) -> bool:
        """Whether /health answers 200 so long after the engine's start."""
        return not self.never_ready and uptime_ns >= self.slow_start_s * 1e9

    def is_error(self, number: int) -> bool:
        """Whether the request with that number (the first is 1) gets HTTP 500."""
        return self.error_every > 0 and number % self.error_every == 0

    def is_stall(self, number: int) -> bool:
        """Whether the reply to the request with that number (the first is 1) stops after its first token."""
        return self.stall_every > 0 and number % self.stall_every == 0

    def length(self, asked: int) -> int:
        """How many of the tokens that were asked for are written; at least 1."""
        return max(1, int(asked * self.cut))

    def is_altered(self, seed: int) -> bool:
        """Whether the reply to the prompt with that seed (64 bits) holds other tokens than it should."""
        return seed < self.alter * 2.0**64

    def factor(self, step: int, uptime_ns: int) -> float:
        """What the step's cost is multiplied by; `step` counts from 0, `uptime_ns` is its start since the engine's."""
        factor = self.cold_factor if step < self.cold_steps else 1.0
        return factor * (1.0 + self.drift_per_s * (uptime_ns / 1e9))


def parse_misbehaviour(spec: str) -> Misbehaviour:
    """SPEC as faults; `InputError` names the fault that is unknown or malformed. Empty text is good behaviour."""
    fields: dict[str, Any] = {}
    for name, value in _faults(spec):
        if name not in FAULTS:
            raise InputError(f"misbehave: found {name!r}; wanted one of {', '.join(FAULTS)}")
        try:
            fields |= _fields(name, value)
        except (ValueError, OverflowError):
            example, meaning = FAULTS[name]
            raise InputError(f"misbehave: found {name}={value!r}; wanted e.g. {example} ({meaning})") from None
    return Misbehaviour(**fields)


def _faults(spec: str) -> list[tuple[str, str]]:
    """(name, value) of each fault, from `name=value,…` or a JSON object."""
    if spec.lstrip().startswith("{"):
        try:
            faults = json.loads(spec)
        except ValueError as error:
            raise InputError(f"misbehave: found {spec!r}; wanted a JSON object ({error})") from None
        return [(name, "" if value is True else str(value)) for name, value in faults.items()]
    parts = [part.strip() for part in spec.split(",") if part.strip()]
    return [(name.strip(), value.strip()) for name, _, value in (part.partition("=") for part in parts)]


def _fields(name: str, value: str) -> dict[str, Any]:
    """The fields of `Misbehaviour` that one fault sets; `ValueError` for a value that is not one."""
    if name == "never_ready":
        if value:
            raise ValueError(value)
        return {"never_ready": True}
    if name == "slow_start":
        return {"slow_start_s": _at_least(float(value), 0.0)}
    if name in ("cut", "alter"):
        share = _at_least(float(value), 0.0)
        if share > 1 or (name == "cut" and not share):
            raise ValueError(value)
        return {name: share}
    if name == "drift":
        return {"drift_per_s": _at_least(float(value), 0.0)}
    if name == "cold":
        steps, _, factor = value.partition(":")
        return {"cold_steps": _at_least(int(steps), 1), "cold_factor": _at_least(float(factor), 0.0)}
    return {name: _at_least(int(value), 1)}


def _at_least(value: Number, least: Number) -> Number:
    if not least <= value < float("inf"):
        raise ValueError(value)
    return value

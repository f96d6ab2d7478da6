"""What a card declares, in words: the model, the engine, what the treatment changes, the window, the objectives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .card import ARMS
from .records import Record
from .traffic import plain


def model(card: Record) -> str:
    """The model's name, precision and context limit."""
    facts = card["system"].get("model") or {}
    name = facts.get("name") or facts.get("path") or "a model without a name"
    precision = facts.get("precision")
    limit = facts.get("context_limit")
    details = [plain(precision)] if precision else []
    details += [f"context {plain(limit)}"] if limit else []
    return f"{name} ({', '.join(details)})" if details else str(name)


def model_name(card: Record) -> str:
    """The model's name alone."""
    facts = card["system"].get("model") or {}
    return str(facts.get("name") or facts.get("path") or "a model without a name")


def engine(card: Record) -> str:
    """The engine and, where one is pinned, its version."""
    facts = card["system"].get("engine") or {}
    if facts.get("kind") == "simulated":
        speed = facts.get("speedup") or 1
        fast = "" if speed == 1 else f", times divided by {plain(float(speed))}"
        return f"the embedded simulated engine ({plain(facts.get('costs'))} costs{fast})"
    names = {"vllm": "vLLM", "openai": "an OpenAI-compatible server"}
    kind, version = str(facts.get("kind")), facts.get("version")
    return names.get(kind, kind) + (f" {version}" if version not in (None, "any") else "")


def flags(values: dict[str, Any]) -> str:
    """`max-num-seqs=32, enforce-eager=true`."""
    return ", ".join(f"{name}={plain(value)}" for name, value in sorted(values.items()))


def treatment(card: Record) -> str:
    """What the candidate has that the baseline does not: flags, environment, server."""
    arms = [card["arms"].get(arm) or {} for arm in ARMS]
    parts = []
    for kind in ("flags", "env"):
        before, after = (arm.get(kind) or {} for arm in arms)
        for name in sorted({*before, *after}):
            if before.get(name) != after.get(name) or (name in before) != (name in after):
                old = plain(before[name]) if name in before else "the default"
                new = f"{name}={plain(after[name])}" if name in after else f"{name} left at its default"
                parts.append(f"{new} (instead of {old})")
    servers = [(arm.get("server") or {}).get("url") for arm in arms]
    if servers[0] != servers[1]:
        parts.append(f"the server {servers[1]} (instead of {servers[0]})")
    return "; ".join(parts) or "no declared difference"


def window(card: Record) -> str:
    """Warm-up, measured window and drain."""

    def part(spec: Any) -> str:
        """A length of the window, as the card has it: seconds, or a count of something."""
        if isinstance(spec, dict):
            return " ".join(f"{plain(value)} {'s' if key == 'seconds' else key}" for key, value in spec.items())
        return "none" if spec is None else f"{plain(spec)} s"

    facts = card["workload"]["window"]
    return (
        f"warm-up {part(facts.get('warmup'))}, measured {part(facts.get('measure'))}, drain {part(facts.get('drain'))}"
    )


def objectives(card: Record) -> str:
    """The conjunction that makes an attempt good."""
    facts = card.get("objectives")
    if not facts:
        return "none"
    parts = ["success"]
    for name, spec in facts.items():
        if name == "output" and spec:
            finish = " or ".join(spec.get("finish") or ["any"])
            parts.append(f"finish {finish}; output tokens ≥ {spec.get('min_tokens', 0)}")
        elif isinstance(spec, dict):
            limit = next(iter(spec.values()))
            parts.append(f"{'every ' if 'every' in spec else ''}{name} ≤ {1000 * limit:g} ms")
    return "; ".join(parts)


def unknowns(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """(key path, why) of every fact that the card says cannot be known."""
    if isinstance(value, dict):
        if set(value) == {"unknown"}:
            yield path, str(value["unknown"])
            return
        for key, item in value.items():
            yield from unknowns(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from unknowns(item, f"{path}[{i}]")

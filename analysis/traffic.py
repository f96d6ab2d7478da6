"""The workload in words: what a request looks like, and how requests arrive."""

from __future__ import annotations

import json
from typing import Any

from .records import Record


def plain(value: Any) -> str:
    """A value of the card in one line."""
    if isinstance(value, dict) and set(value) == {"unknown"}:
        return f"unknown ({value['unknown']})"
    if isinstance(value, bool) or value is None or isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return f"{value:g}" if isinstance(value, float) else str(value)


def cache_state(value: Any) -> str:
    """What the prefix cache held when a cell began."""
    if isinstance(value, dict):
        return f"warm: {value['warm']}, each sent once before the cell"
    return "not declared" if value is None else str(value)


def workload(card: Record) -> str:
    """Endpoint, where requests come from, lengths, shared prefixes, turns, populations."""
    work = card["workload"]
    requests = work.get("requests") or {}
    parts = [*_source(work, requests), *shape(requests)]
    for name, own in (work.get("populations") or {}).items():
        share = own["share"]
        text = f"{share:.4g}" if share is not None else "/".join(f"{part:.4g}" for part in own["share_by_level"])
        parts.append(f"{name} ({text} of the requests)")
    if requests.get("conversations"):
        turns, think = requests["conversations"]["turns"], requests["conversations"]["think_time"]
        count = f"{turns[0]} to {turns[1]}" if isinstance(turns, list) else plain(turns)
        parts.append(
            f"in conversations of {count} turns, {plain(think)} s apart ({requests['conversations']['think']})"
        )
    endpoint = work.get("endpoint", "requests")
    return f"{endpoint}: {', '.join(parts)}" if parts else str(endpoint)


def _source(work: Record, requests: Record) -> list[str]:
    """Files that requests or lengths come from."""
    if requests.get("file"):
        file = requests["file"]
        again = "" if file["reuse"] == "never" else ", rows again in each block"
        return [f"recorded requests of {_file(file['path'])}{again}"]
    if requests.get("pairs"):
        return [f"lengths drawn in pairs from {_file(requests['pairs']['file'])}"]
    if requests.get("from") == "trace":
        shared = " and shared text" if work["arrivals"].get("format") == "mooncake" else ""
        return [f"lengths{shared} of the trace"]
    return []


def _file(facts: Record) -> str:
    left_out = f", {facts['left_out']} left out" if facts.get("left_out") else ""
    return f"{facts['name']} ({facts['rows']} rows{left_out}; {facts['sha256'][:19]}…)"


def shape(own: Record) -> list[str]:
    """Lengths and shared prefixes, of the workload's requests or of a population's."""
    parts = []
    lengths = own.get("lengths") or {}
    if lengths:
        text = f"{_length(lengths.get('input'))} tokens in, {_length(lengths.get('output'))} out"
        correlation = lengths.get("correlation")
        parts.append(text + (f", correlation {plain(correlation)}" if correlation else ""))
    prefix = own.get("prefix")
    if prefix:
        choice = prefix.get("choice") or {}
        law = " ".join(plain(choice[key]) for key in ("law", "exponent") if choice.get(key) is not None)
        count = prefix.get("documents")
        documents = "a document of its own" if count is None else f"{plain(count)} shared documents"
        parts.append(f"behind {documents} of {plain(prefix.get('tokens'))} tokens" + (f" ({law})" if law else ""))
    return parts


def _length(spec: Any) -> str:
    if not isinstance(spec, dict):
        return plain(spec)
    median, sigma = spec.get("median"), spec.get("sigma")
    return plain(median) if not sigma else f"{plain(median)} (median; sigma {plain(sigma)})"


def arrivals(card: Record) -> str:
    """The arrival process, and whether the loop is open or closed."""
    facts = card["workload"]["arrivals"]
    process = str(facts.get("process"))
    if process == "closed":
        return f"closed loop, think time {plain(facts.get('think_time', 0.0))} s"
    details = {
        "gamma": lambda: f" with burstiness {plain(facts['burstiness'])}",
        "bursts": lambda: f" of {plain(facts['size'])} requests",
        "ramp": lambda: f" from {facts['from']:.6g} of the load at the start to the load at the window's end",
        "profile": lambda: (
            f" of {', '.join(f'{level:.4g}' for level in facts['levels'])} times the load, every "
            f"{plain(facts['period'])} s"
        ),
        "trace": lambda: _trace(card["workload"]),
    }
    return f"open loop, {process}" + (details[process]() if process in details else "")


def _trace(work: Record) -> str:
    """Which trace, and how much its clock is slowed down at each load. Every block replays the same rows."""
    file = work["arrivals"]["file"]
    factors = ", ".join(f"{file['rate'] / load:.4g}" for load in work["loads"])
    rate = f"{file['rate']:.4g} req/s"
    return f" {_file(file)}, mean {rate}, slowed down by {factors}; every block replays it from its first row"

"""How many servers answer at one address? Looked at several times, each on a connection of its own, one process is
always the same, and its counters never go back. Pure but for `look`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from ...schema.digest import canonical_json
from ..engines.probe import Endpoint
from .buffering import OF_A_REPLICA
from .line import FAULTS, Answer, Line, page_path

#: how often an address is looked at: of two replicas that take turns by chance both are seen 127 times in 128
LOOKS = 8
STARTED = "process_start_time_seconds"
_CPU = "process_cpu_seconds_total"
_MADE = "generation_tokens_total"
#: kinds of metric, and of their samples, that only grow in one process
_GROWING = ("counter", "histogram", "summary")
_COUNTERS = ("_total", "_count", "_bucket")


@dataclass(frozen=True)
class Look:
    """What one look at an address showed: headers that tell replicas apart, when the process started (Unix time, s),
    its cache settings, its counters by name and labels, and the fingerprint of a reply."""

    headers: Mapping[str, str] = field(default_factory=dict)
    started: float | None = None
    config: str | None = None
    counters: Mapping[str, float] = field(default_factory=dict)
    fingerprint: str | None = None

    @property
    def cpu(self) -> float | None:
        """CPU time of the process so far, s."""
        return next((value for name, value in self.counters.items() if name.startswith(_CPU)), None)

    @property
    def made(self) -> float | None:
        """Tokens that the server has made so far; None where it does not tell."""
        told = [value for name, value in self.counters.items() if name.partition("{")[0].endswith(_MADE)]
        return sum(told) if told else None


@dataclass(frozen=True)
class Seen:
    """How many servers the looks can only be explained by, at least, and by what; `count` is None where nothing in
    them would tell two apart."""

    count: int | None
    signs: tuple[str, ...] = ()


def look(endpoint: Endpoint, url: str) -> Look | None:
    """Look at a page once, on a connection of its own; None where it does not answer with 200."""
    try:
        with Line(url, endpoint.headers) as line:
            answer = line.get(page_path(url))
    except FAULTS:
        return None
    return look_of(answer) if answer.status == 200 else None


def look_of(answer: Answer) -> Look:
    """What an answer shows; one that is no page of metrics, its headers alone."""
    from prometheus_client.parser import text_string_to_metric_families

    headers = replica_headers(answer.headers)
    if "json" in answer.headers.get("content-type", ""):
        return Look(headers)
    try:
        families = list(text_string_to_metric_families(answer.body.decode()))
    except ValueError:
        return Look(headers)
    samples = [sample for family in families for sample in family.samples]
    started = next((float(s.value) for s in samples if s.name == STARTED), None)
    config = next((canonical_json(s.labels).decode() for s in samples if s.name == "vllm:cache_config_info"), None)
    counters = {
        f"{s.name}{canonical_json(s.labels).decode()}": float(s.value)
        for family in families
        if family.type in _GROWING
        for s in family.samples
        if s.name.endswith(_COUNTERS)
    }
    return Look(headers, started, config, counters)


def replica_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Those reply headers that tell which of several servers answered."""
    return {name: headers[name] for name in OF_A_REPLICA if name in headers}


def replicas_seen(looks: Sequence[Look]) -> Seen:
    """How many servers answered these looks, at least. (A restart between them would look the same, and is as bad.)"""
    kinds = [*_kinds(looks)]
    counts = [len(values) for _, values in kinds if values]
    signs = [f"{what}: {', '.join(values)}" for what, values in kinds if len(values) > 1]
    back = _went_back(looks)
    if back is not None:
        counts.append(2)
        signs.append(back)
    known = counts or any(look.counters for look in looks)
    return Seen(max(counts, default=1) if known else None, tuple(signs))


def _kinds(looks: Sequence[Look]) -> Iterator[tuple[str, list[str]]]:
    """What each kind of fact was, in the order in which its values were first seen."""
    yield "process start times", _distinct(None if x.started is None else _clock(x.started) for x in looks)
    for name in OF_A_REPLICA:
        yield name, _distinct(look.headers.get(name) for look in looks)
    yield "system fingerprints", _distinct(look.fingerprint for look in looks)
    configs = _distinct(look.config for look in looks)
    yield "cache settings", _differences(configs) if len(configs) > 1 else configs


def _distinct(values: Iterator[str | None] | Any) -> list[str]:
    return list(dict.fromkeys(value for value in values if value is not None))


def _differences(configs: Sequence[str]) -> list[str]:
    """The settings in which they differ, each as `name=value`."""
    read = [json.loads(config) for config in configs]
    names = [name for name in read[0] if len({str(config.get(name)) for config in read}) > 1]
    return [" ".join(f"{name}={config.get(name)}" for name in names) for config in read]


def _went_back(looks: Sequence[Look]) -> str | None:
    """A counter that went down between two looks, with its values; or one that went and came again."""
    pages = [look.counters for look in looks if look.counters]
    for name in dict.fromkeys(name for page in pages for name in page):
        values = [page.get(name) for page in pages]
        known = [value for value in values if value is not None]
        if any(later < earlier for earlier, later in pairwise(known)):
            return f"{_short(name)} went back: {', '.join(f'{value:g}' for value in known)}"
        there = [value is not None for value in values]
        if False in there[there.index(True) : len(there) - there[::-1].index(True)]:
            return f"{_short(name)} was there, then not, and then again"
    return None


def _short(name: str) -> str:
    return name.partition("{")[0]


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-4] + "Z"


def one_process(first: Look, second: Look, again: Look) -> bool:
    """Whether two addresses led to one process: `first` and `again` are looks at one of them, `second` at the other, in
    between. It started at the same hundredth of a second, and its CPU time ran on from one look to the next. Two that
    were started together may look so, too: a request tells them apart (`did_not_serve`)."""
    if first.started is None or not (first.started == second.started == again.started):
        return False
    times = [first.cpu, second.cpu, again.cpu]
    known = [time for time in times if time is not None]
    return len(known) < len(times) or known == sorted(known)


def did_not_serve(before: Look | None, after: Look | None) -> bool:
    """Whether a server made no token between two looks, in which another address answered a request: it is not that
    address's server. False where it does not tell."""
    made = [None if one is None else one.made for one in (before, after)]
    return made[0] is not None and made[0] == made[1]

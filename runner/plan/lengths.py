"""Prompt and output lengths of planned requests: by a law, or drawn as pairs from a file. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...schema.trace import Trace
from .draws import Stream

Key = tuple[int, int, int]
#: input and output tokens
Lengths = tuple[int, int]


def by_law(specs: Sequence[dict[str, Any]], key: Key) -> list[Lengths]:
    """A pair for each spec: lognormal (median, sigma of the log), correlated through a Gaussian copula; at least 1."""
    n = len(specs)
    first = Stream(key[0], "lengths", *key[1:]).normals(n)
    second = Stream(key[0], "output lengths", *key[1:]).normals(n)
    pairs = []
    for spec, a, b in zip(specs, first, second, strict=True):
        rho = spec.get("correlation") or 0.0
        mixed = rho * a + math.sqrt(1 - rho * rho) * b
        pairs.append((_lognormal(spec["input"], a), _lognormal(spec["output"], mixed)))
    return pairs


def _lognormal(spec: dict[str, float], z: float) -> int:
    return max(1, round(spec["median"] * math.exp(spec["sigma"] * z)))


def from_pairs(pairs: Trace, n: int, key: Key) -> list[Lengths]:
    """n pairs, drawn with replacement: both lengths of one row, so that what they have in common stays."""
    rows = [int(u * pairs.rows) for u in Stream(key[0], "pairs", *key[1:]).uniforms(n)]
    return [(pairs.input_tokens[row], pairs.output_tokens[row]) for row in rows]


def outputs_by_law(spec: dict[str, float], n: int, key: Key) -> list[int]:
    """n output lengths."""
    return [_lognormal(spec, z) for z in Stream(key[0], "output lengths", *key[1:]).normals(n)]


def typical_output(workload: dict[str, Any]) -> float:
    """Output tokens of a usual request: the median of a law, the mean of a file."""
    return _output(workload, _median)


def mean_output(workload: dict[str, Any]) -> float:
    """Mean output tokens of a request."""
    return _output(workload, lambda law: law["median"] * math.exp(law["sigma"] ** 2 / 2))  # of a lognormal


def _median(law: dict[str, float]) -> float:
    return law["median"]


def _output(workload: dict[str, Any], of: Any) -> float:
    populations = workload.get("populations")
    if not populations:
        return _output_of(workload, workload["requests"].get("lengths"), of)
    shares = {name: own["share"] or _mean(own["share_by_level"]) for name, own in populations.items()}
    return sum(share * _output_of(workload, populations[name]["lengths"], of) for name, share in shares.items())


def _output_of(workload: dict[str, Any], lengths: dict[str, Any] | None, of: Any) -> float:
    requests = workload["requests"]
    if lengths is not None:
        return float(of(lengths["output"]))
    if requests.get("pairs") is not None:
        return float(requests["pairs"]["file"]["mean_output"])
    if requests.get("file") is not None:
        named = requests["file"]["path"]["mean_output"]
        return float(of(requests["output"]) if named is None else named)
    return float(workload["arrivals"]["file"]["mean_output"])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)

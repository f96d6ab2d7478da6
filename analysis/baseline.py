"""A bundle of a baseline card -> inference_baseline.json: one system, swept over its loads, with its noise floor.

Each number is the mean ± stdev over the repeats (blocks) of a per-cell metric; the repeat is the unit, never the
request.
"""

from __future__ import annotations

from typing import Any

from . import output
from .cells import CellResult, Reading
from .conditions import conditions
from .identity import forbidden, gate
from .identity_words import forbidden_texts
from .knee import knee_rows
from .latency import latency_rows, objective_rows
from .metrics import METRICS
from .population_rows import population_rows
from .records import Record
from .server_rows import server_rows
from .steady_loads import drift_text, drifting, steady_rows
from .tables import all_metric_rows, attribution_rows, block_rows, mean_and_stdev, summary_rows, validity
from .telemetry import condition_rows, telemetry_rows

#: 1: first.
BASELINE_VERSION = 1

#: what the sweep shows
SWEEP = (
    "output_throughput",
    "request_throughput",
    "ttft.p50",
    "ttft.p95",
    "tpot.p50",
    "tpot.p95",
    "itl.p50",
    "e2e.p50",
    "e2e.p95",
    "error_rate",
)
#: the fewest requests that carry a p95 (one violation allowed, at the 1% level)
P95_REQUESTS = 130


def baseline(reading: Reading) -> Record:
    """Everything inference_baseline.json says."""
    bundle = reading.bundle
    card = bundle.card
    steady, machine, same = steady_rows(reading), telemetry_rows(reading), gate(bundle)
    document: dict[str, Any] = {
        "baseline_version": BASELINE_VERSION,
        **output.header(card, bundle.plan, bundle.run),
        "valid": reading.complete and not drifting(steady) and not forbidden(same),
        "because": _because(reading, steady, forbidden_texts(forbidden(same))),
        "sweep": sweep(reading),
        "identity": same,
        "validity": validity(reading),
        "steady_state": steady,
        "blocks": block_rows(reading.blocks),
        "conditions": [*conditions(reading), *condition_rows(reading, machine)],
        "attribution": attribution_rows(reading),
        **server_rows(reading),
        "summary": summary_rows(reading),
        "metrics": all_metric_rows(reading),
        "latency": latency_rows(reading),
        "objective_percentiles": objective_rows(reading),
        "knee": knee_rows(reading, drifting(steady)),
        **({"telemetry": machine} if machine else {}),
        **population_rows(reading),
    }
    return document


def _because(reading: Reading, steady: list[Record], other: list[str]) -> list[Record]:
    text = f"{reading.valid_blocks} of {reading.wanted} repeats are valid"
    found = [{"code": "complete" if reading.complete else "incomplete", "text": text}]
    drifts = [row for rows in drifting(steady).values() for row in rows]
    found = [{"code": "not_steady", "text": drift_text(row, reading)} for row in drifts] + found
    return [{"code": "identity", "text": text} for text in other] + found


def sweep(reading: Reading) -> list[Record]:
    """One row a load, each with mean ± stdev of every metric of `SWEEP`."""
    card = reading.bundle.card
    unit = "concurrent" if card["workload"]["load_kind"] == "concurrency" else "req/s"
    return [
        {
            "load_point": point,
            "load": float(load),
            "load_unit": unit,
            "metrics": {name: _over_repeats(name, reading.used("baseline", point)) for name in SWEEP},
        }
        for point, load in enumerate(card["workload"]["loads"], start=1)
    ]


def _over_repeats(name: str, cells: list[CellResult]) -> Record:
    values = [cell.values[name].value for cell in cells]
    requests = [cell.values[name].n for cell in cells]
    mean, stdev, reason = mean_and_stdev(values)
    few = name.endswith(".p95") and any(n < P95_REQUESTS for n in requests)
    return {
        "unit": METRICS[name].unit,
        "mean": mean,
        "stdev": stdev,
        "values": values,
        "requests": requests,
        "label": f"p95 from fewer than {P95_REQUESTS} requests" if few else None,
        "reason": reason,
    }

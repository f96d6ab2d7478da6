"""A bundle of an ab card -> verdict.json: the whole document, from named parts."""

from __future__ import annotations

import math
from collections.abc import Container
from typing import Any

from . import aa, identity_words, output
from .cells import Reading
from .claim import effect_rows, load_effects, pairs
from .conditions import conditions, place_conditions, reversal_conditions
from .decide import decide
from .evidence import judge_evidence
from .gates import gate_rows
from .guards import GuardResult, adjust, guard, undefined
from .identity import confounded, forbidden, gate
from .knee import knee_rows
from .latency import latency_rows, objective_rows
from .metrics import ALL_METRICS
from .next_steps import next_step
from .planned_power import flags, planned_power
from .population_effects import changes, reversal_rows, reversals
from .population_effects import effect_rows as population_effect_rows
from .population_rows import population_rows
from .populations import declared
from .records import Record
from .sentence import sentence
from .server_rows import server_rows
from .steady_loads import INVALID_LOAD, drifting, steady_rows
from .tables import all_metric_rows, attribution_rows, block_rows, summary_rows, validity
from .telemetry import condition_rows, telemetry_rows

#: 1: first.
VERDICT_VERSION = 1


def verdict(reading: Reading) -> Record:
    """Everything verdict.json says."""
    bundle = reading.bundle
    card, claim = bundle.card, bundle.card["claim"]
    confidence = float(card["analysis"]["confidence"])
    steady = steady_rows(reading)
    invalid_loads = drifting(steady)
    effects = load_effects(reading, invalid_loads)
    guards = guard_rows(reading, invalid_loads)
    cells = [result.cell for result in reading.used()]
    evidence = judge_evidence(bundle, card.get("evidence") or [], cells, (float(at) for at in claim["at"]))
    itself = aa.aa_rows(reading)
    if aa.biased(itself):
        effects, guards = aa.effects_without_words(effects), aa.guards_without_words(guards)
    same = gate(bundle)
    if forbidden(same):
        effects = identity_words.effects_without_words(effects)
        guards = identity_words.guards_without_words(guards)
    gates = gate_rows(bundle)
    found = decide(reading, effects, guards, evidence, confounded(bundle), invalid_loads, gates, itself, same)
    apart = _populations(reading)
    machine = telemetry_rows(reading)
    turned = [row["text"] for row in apart.get("population_reversals", [])]
    metric, power = ALL_METRICS[claim["metric"]], planned_power(card)
    named = {key: claim[key] for key in ("metric", "direction", "threshold", "scope", "at")}
    named |= {} if claim.get("population") is None else {"population": claim["population"]}
    document: dict[str, Any] = {
        "verdict_version": VERDICT_VERSION,
        **output.header(card, bundle.plan, bundle.run),
        "verdict": found.word,
        "because": [{"code": finding.code, "text": finding.text} for finding in found.findings],
        "sentence": sentence(reading, found, effects, guards, evidence, turned),
        "next": next_step(reading, found, effects, guards),
        "claim": {**named, "unit": metric.unit, "better": metric.better, "confidence": confidence},
        "power": power,
        "flags": flags(power),
        "effects": effect_rows(effects, claim, confidence),
        "guards": guards,
        **({"gates": gates} if gates else {}),
        "evidence": evidence,
        "identity": same,
        "validity": validity(reading),
        "steady_state": steady,
        "blocks": block_rows(reading.blocks),
        **({"aa": itself, "aa_blocks": aa.aa_block_rows(reading)} if card["method"].get("aa") else {}),
        "conditions": [
            *conditions(reading),
            *place_conditions(reading, effects),
            *reversal_conditions(turned),
            *condition_rows(reading, machine),
        ],
        "attribution": attribution_rows(reading),
        **server_rows(reading),
        "summary": summary_rows(reading),
        "metrics": all_metric_rows(reading),
        "latency": latency_rows(reading),
        "objective_percentiles": objective_rows(reading),
        "knee": knee_rows(reading, invalid_loads),
        **({"telemetry": machine} if machine else {}),
        **apart,
    }
    return document


def _populations(reading: Reading) -> dict[str, list[Record]]:
    """What is said of each population; nothing, where the card has none."""
    card = reading.bundle.card
    if not declared(card):
        return {}
    found = changes(reading)
    turned = reversals(reading, found)
    kind, confidence = str(card["workload"]["load_kind"]), float(card["analysis"]["confidence"])
    return {
        **population_rows(reading),
        "population_effects": population_effect_rows(found),
        "population_reversals": reversal_rows(turned, kind, confidence),
    }


def guard_rows(reading: Reading, invalid_loads: Container[int] = ()) -> list[Record]:
    """Each guard at each of its loads. Where the run or the load (by its load point) is invalid there are no guard
    words: they are indeterminate, with the reason."""
    card = reading.bundle.card
    confidence = float(card["analysis"]["confidence"])
    loads = [float(load) for load in card["workload"]["loads"]]
    places = [(row, float(at)) for row in card.get("guards") or [] for at in row.get("at") or card["claim"]["at"]]
    results = [_guard(reading, row, loads.index(at) + 1, confidence, invalid_loads) for row, at in places]
    return [
        _guard_row(row, at, loads.index(at) + 1, result)
        for (row, at), result in zip(places, adjust(results, confidence), strict=True)
    ]


def _guard(
    reading: Reading, row: Record, load_point: int, confidence: float, invalid_loads: Container[int]
) -> GuardResult:
    both = pairs(reading, row["metric"], load_point, row.get("population"))
    if both.reason is not None:
        return undefined(len(both.blocks), both.reason)
    if not reading.complete:
        return undefined(len(both.blocks), "the run is invalid")
    if load_point in invalid_loads:
        return undefined(len(both.blocks), INVALID_LOAD)
    baseline, candidate = both.numbers()
    margin = row["margin"]
    return guard(
        baseline, candidate, margin=float(margin["value"]), relative=margin["scale"] == "relative",
        direction=row["direction"], confidence=confidence,
    )  # fmt: skip


def _guard_row(row: Record, at: float, load_point: int, result: GuardResult) -> Record:
    def change(value: float | None) -> float | None:
        if value is None or result.scale == "scaled":
            return None
        return math.expm1(value) if result.scale == "log" else value

    return {
        "metric": row["metric"],
        **({} if row.get("population") is None else {"population": row["population"]}),
        "unit": ALL_METRICS[row["metric"]].unit,
        "load_point": load_point,
        "load": at,
        "direction": row["direction"],
        "margin": row["margin"],
        "scale": result.scale,
        "blocks": result.blocks,
        "mean": result.mean,
        "bound": result.bound,
        "limit": result.limit,
        "p": result.p,
        "word": result.word,
        "change": change(result.mean),
        "change_bound": change(result.bound),
        "reason": result.reason,
    }

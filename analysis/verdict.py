"""A bundle of an ab card -> verdict.json: the whole document, from named parts."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from . import aa, identity_words, output
from .cells import Reading
from .claim import LoadEffect, effect_rows, load_effects
from .conditions import conditions, place_conditions, reversal_conditions
from .decide import Verdict, decide
from .evidence import judge_evidence
from .gates import gate_rows
from .guard_rows import guard_rows
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
from .steady_loads import drifting, steady_rows
from .tables import all_metric_rows, attribution_rows, block_rows, summary_rows, validity
from .telemetry import condition_rows, telemetry_rows

#: 1: first.
VERDICT_VERSION = 1


@dataclass(frozen=True)
class _Judged:
    """What the verdict rests on, and the verdict."""

    effects: list[LoadEffect]
    guards: list[Record]
    gates: list[Record]
    evidence: list[Record]
    against_itself: list[Record]
    identity: Record
    steady: list[Record]
    invalid_loads: Container[int]
    found: Verdict


def verdict(reading: Reading) -> Record:
    """Everything verdict.json says."""
    card, claim = reading.bundle.card, reading.bundle.card["claim"]
    judged, apart, machine = _judge(reading), _populations(reading), telemetry_rows(reading)
    turned = [row["text"] for row in apart.get("population_reversals", [])]
    power = planned_power(card)
    return {
        "verdict_version": VERDICT_VERSION,
        **output.header(card, reading.bundle.plan, reading.bundle.run),
        **_answer(reading, judged, turned),
        "claim": _claim(card),
        "power": power,
        "flags": flags(power),
        "effects": effect_rows(judged.effects, claim, float(card["analysis"]["confidence"])),
        "guards": judged.guards,
        **({"gates": judged.gates} if judged.gates else {}),
        "evidence": judged.evidence,
        "identity": judged.identity,
        "validity": validity(reading),
        "steady_state": judged.steady,
        "blocks": block_rows(reading.blocks),
        **({"aa": judged.against_itself, "aa_blocks": aa.aa_block_rows(reading)} if card["method"].get("aa") else {}),
        "conditions": [
            *conditions(reading),
            *place_conditions(reading, judged.effects),
            *reversal_conditions(turned),
            *condition_rows(reading, machine),
        ],
        "attribution": attribution_rows(reading),
        **server_rows(reading),
        "summary": summary_rows(reading),
        "metrics": all_metric_rows(reading),
        "latency": latency_rows(reading),
        "objective_percentiles": objective_rows(reading),
        "knee": knee_rows(reading, judged.invalid_loads),
        **({"telemetry": machine} if machine else {}),
        **apart,
    }


def _judge(reading: Reading) -> _Judged:
    """Effects, guards, gates and evidence, and what they come to. Where the procedure sees a difference between the
    baseline and itself, or the systems are not the declared ones, effects and guards have no words."""
    bundle = reading.bundle
    steady = steady_rows(reading)
    invalid_loads = drifting(steady)
    effects, guards = load_effects(reading, invalid_loads), guard_rows(reading, invalid_loads)
    itself, same, gates = aa.aa_rows(reading), gate(bundle), gate_rows(bundle)
    if aa.biased(itself):
        effects, guards = aa.effects_without_words(effects), aa.guards_without_words(guards)
    if forbidden(same):
        effects = identity_words.effects_without_words(effects)
        guards = identity_words.guards_without_words(guards)
    cells = [result.cell for result in reading.used()]
    loads = (float(at) for at in bundle.card["claim"]["at"])
    evidence = judge_evidence(bundle, bundle.card.get("evidence") or [], cells, loads)
    found = decide(reading, effects, guards, evidence, confounded(bundle), invalid_loads, gates, itself, same)
    return _Judged(
        effects=effects, guards=guards, gates=gates, evidence=evidence, against_itself=itself, identity=same,
        steady=steady, invalid_loads=invalid_loads, found=found,
    )  # fmt: skip


def _answer(reading: Reading, judged: _Judged, turned: list[str]) -> Record:
    """The verdict in words; `turned` says where a population moves against the whole."""
    found, effects, guards = judged.found, judged.effects, judged.guards
    return {
        "verdict": found.word,
        "because": [{"code": finding.code, "text": finding.text} for finding in found.findings],
        "sentence": sentence(reading, found, effects, guards, judged.evidence, turned),
        "next": next_step(reading, found, effects, guards),
    }


def _claim(card: Record) -> Record:
    """The claim as the card has it, with its metric's unit and the confidence of its intervals."""
    claim, metric = card["claim"], ALL_METRICS[card["claim"]["metric"]]
    keys = ["metric", "direction", "threshold", "scope", "at"] + ["population"] * (claim.get("population") is not None)
    named = {key: claim[key] for key in keys}
    confidence = float(card["analysis"]["confidence"])
    return {**named, "unit": metric.unit, "better": metric.better, "confidence": confidence}


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

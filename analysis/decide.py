"""The verdict's one word, from the claim, the guards, the quality gates and the evidence, and why.

invalid > (evidence fails: inconclusive) > mixed > falsified > inconclusive > supported. `invalid` comes only from
checks that the card fixed and that are blind to the arm. Every finding is kept as a clause; the decisive ones stand
first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from . import aa, places, wording
from .cells import Reading
from .claim import LoadEffect, reversal
from .gates import gate_finding
from .identity_words import findings as identity_findings
from .records import Record
from .steady_loads import drift_text
from .work import unequal_work

#: what a finding makes of the verdict, in the order of precedence
_RANKS = {"invalid": 0, "no treatment": 1, "mixed": 2, "falsified": 3, "inconclusive": 4, "supported": 5}

#: an incomplete run names this many of its lost blocks
_NAMED = 3


@dataclass(frozen=True)
class Finding:
    """One reason: the word it asks for, a code for programs and a plain clause for people."""

    word: str
    code: str
    text: str


@dataclass(frozen=True)
class Verdict:
    """The word, and every finding, decisive ones first."""

    word: str
    findings: tuple[Finding, ...]


def decide(
    reading: Reading,
    effects: Sequence[LoadEffect],
    guards: Sequence[Record],
    evidence: Sequence[Record],
    confounded: Sequence[str],
    invalid_loads: Mapping[int, Sequence[Record]],
    gates: Sequence[Record] = (),
    itself: Sequence[Record] = (),
    identity: Record | None = None,
) -> Verdict:
    """Apply the rules of precedence. `itself`: the rows of the A/A blocks; `identity`: what its gate found."""
    same = [Finding(*found) for found in identity_findings(identity)] if identity is not None else []
    if not reading.complete:
        return Verdict("invalid", (*(found for found in same if found.word == "invalid"), _incomplete(reading)))
    kind = str(reading.bundle.card["workload"]["load_kind"])
    claim = reading.bundle.card["claim"]
    named = wording.of(claim["metric"], claim.get("population"))
    findings = same + [Finding("invalid", "biased", aa.bias_text(row, reading)) for row in aa.biased(itself)]
    findings += [*_drift(reading, effects, guards, invalid_loads), *_reversal(effects, named, kind)]
    findings += _claim(effects, claim, kind)
    findings += [*(_guard(row, kind) for row in guards), *(Finding(*gate_finding(row)) for row in gates)]
    findings += _evidence(evidence)
    findings += [Finding("inconclusive", code, text) for code, text in unequal_work(reading)]
    left, accounted = places.accounted(reading, confounded, itself)
    findings += [Finding("supported", "places", accounted)] if accounted else []
    findings.sort(key=lambda finding: _RANKS[finding.word])
    if findings[0].word == "supported" and left:
        names = wording.listed(left)
        text = f"the arms also differ in {names}, beside the treatment; the effect may come from there"
        findings.insert(0, Finding("inconclusive", "confounded", text))
    word = findings[0].word
    return Verdict("inconclusive" if word == "no treatment" else word, tuple(findings))


def _incomplete(reading: Reading) -> Finding:
    """Each lost block by its first cause, at most three; a spare that was never run is not a lost block."""
    of = wording.count(reading.wanted, "block")
    text = f"incomplete: {reading.valid_blocks} of {of} {'is' if reading.wanted == 1 else 'are'} valid"
    lost = [b for b in reading.blocks if not b.used and b.cause not in (None, "spare, not run")]
    reasons = [f"block {b.block.block}: {b.cause}" for b in lost[:_NAMED]]
    reasons += [f"and {len(lost) - _NAMED} more"] if len(lost) > _NAMED else []
    return Finding("invalid", "incomplete", f"{text} ({'; '.join(reasons)})" if reasons else text)


def _drift(
    reading: Reading, effects: Sequence[LoadEffect], guards: Sequence[Record], invalid: Mapping[int, Sequence[Record]]
) -> list[Finding]:
    """An arm that drifts at a load on which the verdict stands: one of the claim's, of a guard's, or of a reversal. (A
    reversal that such a load takes part in is not looked away from: it may be the drift's.)"""
    standing = {effect.load_point for effect in effects if effect.claimed} | {row["load_point"] for row in guards}
    standing |= {effect.load_point for side in reversal(effects) or () for effect in side}
    return [
        Finding("invalid", "not_steady", drift_text(row, reading))
        for point in sorted(standing & set(invalid))
        for row in invalid[point]
    ]


def _evidence(rows: Sequence[Record]) -> list[Finding]:
    findings = []
    for row in rows:
        metric, limit = row["metric"], wording.server_value(row["metric"], row["limit"])
        wanted = f"{row['direction'].replace('_', ' ')} {limit} was expected"
        if row["word"] == "fails":
            seen = row["reason"] if row["observed"] is None else wording.server_value(metric, row["observed"])
            text = f"the treatment did not take effect as declared: {metric} of the {row['arm']}: {seen}; {wanted}"
            findings.append(Finding("no treatment", "evidence_fails", text))
        elif row["word"] == "unknown":
            text = f"whether the treatment took effect is unknown: {metric} of the {row['arm']}: {row['reason']}"
            findings.append(Finding("inconclusive", "evidence_unknown", text))
        else:
            seen = row["reason"] if row["observed"] is None else wording.server_value(metric, row["observed"])
            text = f"{metric} of the {row['arm']}: {seen}; {wanted}"
            findings.append(Finding("supported", "evidence_holds", text))
    return findings


def _reversal(effects: Sequence[LoadEffect], metric: str, kind: str) -> list[Finding]:
    turned = reversal(effects)
    if turned is None:
        return []
    up, down = (wording.loads([effect.load for effect in side], kind) for side in turned)
    return [
        Finding("mixed", "reversal", f"the effect turns around between loads: {metric} rose at {up} and fell at {down}")
    ]


def claim_word(effects: Sequence[LoadEffect], scope: str) -> str:
    """The claim's word over its loads: all must be supported and any falsifies; for `some_load` the other way round."""
    words = [effect.word for effect in effects if effect.claimed]
    first, last = ("supported", "falsified") if scope == "some_load" else ("falsified", "supported")
    if first in words:
        return first
    return last if words and all(word == last for word in words) else "inconclusive"


def _claim(effects: Sequence[LoadEffect], claim: Record, kind: str) -> list[Finding]:
    overall = claim_word(effects, claim["scope"])
    findings = []
    for effect in (e for e in effects if e.claimed and e.word is not None):
        word = str(effect.word)
        asks = word if claim["scope"] != "some_load" else max(overall, word, key=lambda w: _RANKS[w])
        findings.append(Finding(asks, f"claim_{word}", _effect_text(effect, claim, kind)))
        if effect.ceiling is not None:
            findings.append(Finding(asks, "ceiling", f"at {wording.load(effect.load, kind)} {effect.ceiling['text']}"))
    return findings


def _effect_text(at: LoadEffect, claim: Record, kind: str) -> str:
    where = f"{wording.of(claim['metric'], claim.get('population'))} at {wording.load(at.load, kind)}"
    limit = wording.threshold(claim["threshold"]["value"], claim["threshold"]["scale"], claim["direction"])
    effect = at.effect
    if effect is None or effect.lower is None or effect.upper is None or "few_blocks" in effect.flags:
        return f"{where}: {at.reason}"
    side = (
        "spans" if effect.word == "inconclusive" else "lies above" if effect.lower > effect.threshold else "lies below"
    )
    if effect.scale == "scaled" and effect.lower == effect.upper == 0:
        return (
            f"{where}: candidate − the threshold's multiple of the baseline is zero in every block (threshold {limit})"
        )
    if effect.scale == "scaled":
        what = "candidate − the threshold's multiple of the baseline"
        return f"{where}: the interval of {what} {side} zero (threshold {limit}; zero in some block, so no log ratio)"
    if effect.lower == effect.upper:
        return (
            f"{where}: the effect, the same in every block, {side.replace('spans', 'equals')} the threshold of {limit}"
        )
    text = f"{where}: the interval of the effect {side} the threshold of {limit}"
    if at.word == "inconclusive" and effect.word == "supported":
        return f"{text}, but not after correction for several loads (Holm)"
    if at.word == "falsified" and (effect.lower > 0) == (effect.threshold > 0) and effect.lower * effect.upper > 0:
        return f"{text}, although the effect has the claimed direction"
    return text


def _guard(row: Record, kind: str) -> Finding:
    margin = row["margin"]
    rule = wording.rule(row["metric"], row["direction"], margin["value"], margin["scale"], row.get("population"))
    where = f"the guard {rule} at {wording.load(row['load'], kind)}"
    if row["word"] == "regressed":
        return Finding("falsified", "guard_regressed", f"{where} regressed")
    if row["word"] == "indeterminate":
        return Finding(
            "inconclusive",
            "guard_indeterminate",
            f"{where} is indeterminate: {row['reason'] or 'its bound spans the margin'}",
        )
    return Finding("supported", "guard_passed", f"{where} passed")

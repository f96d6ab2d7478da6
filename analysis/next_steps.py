"""What the reader does next, from the verdict alone: ship, keep, extend, investigate or repair.

An inconclusive result names the blocks that would decide it if the true effect were the one seen and the spread stayed
as it is. They are those of a new card, fixed beforehand: the number of blocks of this run was fixed before its data
existed, nobody looks in between, and days are never pooled, so adding blocks to it would be another test than the one
declared. The numbers are those of `power.blocks_needed` (the noncentral t distribution): each undecided part is then
found 8 times in 10.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from . import wording
from .block_time import block_seconds
from .cells import Reading
from .claim import LoadEffect, reversal
from .decide import Verdict
from .effect import MIN_BLOCKS, rises, t_quantile
from .power import blocks_needed
from .records import Record

#: findings that more blocks of the same kind cannot settle
_NO_TREATMENT = ("evidence_fails", "treatment_not_arrived", "evidence_unknown")
_BY_BLOCKS = ("claim_inconclusive", "guard_indeterminate")
#: a text names this many parts
_NAMED = 3

_NEW_CARD = (
    "Do not add blocks to this run: their number was fixed before its data existed. The blocks stand on a new card, "
    "fixed beforehand."
)


@dataclass(frozen=True)
class Part:
    """An undecided part of the hypothesis: the blocks it takes towards its likely answer, or why none are known."""

    text: str
    load_point: int
    blocks: int | None
    towards: str | None
    reason: str | None


def next_step(reading: Reading, found: Verdict, effects: Sequence[LoadEffect], guards: Sequence[Record]) -> Record:
    """verdict.json's `next`: the action, its text, and what it would take.

    `blocks_needed` (of a new card), `extra_blocks` (more than this card's), `block_seconds` (median wall time of a used
    block), `extra_seconds` (of the whole new card); `reason` says why any of them is null; `parts`: what is undecided.
    """
    parts = _undecided(reading, effects, guards) if found.word == "inconclusive" else []
    seconds, unknown = block_seconds(reading)
    needed, reason = _needed(found, parts)
    action, text = _advice(reading, found, effects, parts, needed, seconds)
    return {
        "action": action,
        "text": text,
        "blocks_needed": needed,
        "extra_blocks": None if needed is None else max(0, needed - reading.wanted),
        "block_seconds": seconds,
        "extra_seconds": None if needed is None or seconds is None else needed * seconds,
        "reason": reason or unknown,
        "parts": [
            {"text": p.text, "load_point": p.load_point, "blocks_needed": p.blocks, "towards": p.towards,
             "reason": p.reason}
            for p in parts
        ],
    }  # fmt: skip


def _advice(
    reading: Reading, found: Verdict, effects: Sequence[LoadEffect], parts: Sequence[Part], needed: int | None,
    seconds: float | None,
) -> tuple[str, str]:  # fmt: skip
    if found.word == "supported":
        return "ship", _ship(reading)
    if found.word == "falsified":
        return "keep", _keep(found)
    if found.word == "mixed":
        return "investigate", _by_load(reading, found, effects)
    if found.word == "invalid":
        return "repair", _repair(reading, found)
    return _open(reading, found, parts, needed, seconds)


def _ship(reading: Reading) -> str:
    scope = reading.bundle.card["claim"]["scope"]
    where = " at the loads where the claim held" if scope == "some_load" else ""
    guards = "every guard held" if reading.bundle.card.get("guards") else "no guard was declared, so no cost was judged"
    guards = f"{guards}, and every quality gate passed" if reading.bundle.card.get("quality") else guards
    text = f"The claim held and {guards}: the candidate can ship{where} under the conditions listed, and no others."
    return f"{text} {_DAY}"


_DAY = "This run is one day: if the decision is large, let a second day agree first (benchcard reproduce)."


def _keep(found: Verdict) -> str:
    parts = [f.text for f in found.findings if f.word == "falsified" and f.code != "ceiling"]
    text = f"Keep the baseline: {_first(parts)}."
    if any(f.code == "ceiling" for f in found.findings):
        ends = [f.text for f in found.findings if f.code == "ceiling"]
        text += f" {_capital(_first(ends))}; a claim at a load where the baseline misses more takes a new card."
    return text


def _by_load(reading: Reading, found: Verdict, effects: Sequence[LoadEffect]) -> str:
    """Each load that was run, with its side; nothing between or beyond them."""
    claim, kind = reading.bundle.card["claim"], str(reading.bundle.card["workload"]["load_kind"])
    up, down = reversal(effects) or ([], [])
    metric = wording.of(str(claim["metric"]), claim.get("population"))
    good, bad = (up, down) if rises(claim["direction"]) else (down, up)
    parts = []
    for effect in effects:
        verb = "rose" if effect in up else "fell" if effect in down else "was not shown to change"
        does = "keep the baseline there" if effect in bad else ""
        if effect in good:
            does = "the claim held there" if effect.word == "supported" else "the claim is not shown to hold there"
        parts.append(f"at {wording.load(effect.load, kind)} {metric} {verb}" + (f" ({does})" if does else ""))
    regressed = [f.text for f in found.findings if f.code == "guard_regressed"]
    text = f"No one answer covers the loads that were run: {'; '.join(parts)}."
    text += f" {_capital(_first(regressed))}." if regressed else ""
    return f"{text} Decide load by load; between and beyond these loads nothing is known."


def _repair(reading: Reading, found: Verdict) -> str:
    text = f"Nothing in this run answers the question: {found.findings[0].text}."
    if found.findings[0].code == "not_steady":
        return (
            f"{text} Declare a longer warm-up or a lower load in a new card; past saturation, do not declare the load "
            "steady."
        )
    if found.findings[0].code == "biased":
        return (
            f"{text} Find what makes the baseline differ from itself (what comes before its cells, a neighbour, a "
            "cache that one run warms for the other), mend it, and run a new card."
        )
    if found.findings[0].code == "identity":
        return (
            f"{text} Start the arms alike in all but the treatment; or declare what differs: as a flag or a variable "
            "of the arms, under identity.treatment where it follows from the treatment, under identity.confounded "
            "where it is accepted (the verdict then carries it). Then run a new card."
        )
    failed: dict[str, str] = {}
    for _, checks in reading.checked():
        failed |= {result.check.name: result.check.advice for result in checks if not result.passed}
    mend = [f"{name} ({advice.rstrip('.')})" for name, advice in failed.items()]
    return f"{text} Mend {_first(mend)}." if mend else f"{text} Resume it, or run the card again once that is mended."


def _open(
    reading: Reading, found: Verdict, parts: Sequence[Part], needed: int | None, seconds: float | None
) -> tuple[str, str]:
    """The action and the text of an inconclusive verdict."""
    undecided = [f for f in found.findings if f.word in ("no treatment", "inconclusive")]
    evidence = [f.text for f in undecided if f.code in _NO_TREATMENT]
    if evidence:
        text = f"{_capital(_first(evidence))}. Mend the treatment or what observes it, then run a new card"
        return "repair", f"{text}: until then the effect says nothing about the hypothesis."
    other = [f.text for f in undecided if f.code not in (*_BY_BLOCKS, "ceiling")]
    if other:
        more = " Beyond that, some parts need more blocks." if parts else ""
        return "investigate", f"More blocks of the same kind do not settle this: {_first(other)}.{more}"
    ends = [f for f in found.findings if f.code == "ceiling"]
    if ends:
        return (
            "investigate",
            f"{_capital(_first([f.text for f in ends]))}: no number of blocks supports the claim there.",
        )
    if reading.valid_blocks < MIN_BLOCKS:
        has = wording.count(reading.valid_blocks, "block")
        text = f"The question stays open: {has} carried no word. A new card takes at least {MIN_BLOCKS}. {_NEW_CARD}"
        return "extend", text
    if needed is None:
        return _without_blocks(parts)
    return "extend", _extend(reading, parts, needed, seconds)


def _without_blocks(parts: Sequence[Part]) -> tuple[str, str]:
    why = _first([f"{part.text}: {part.reason}" for part in parts if part.blocks is None])
    return "investigate", f"The question stays open, and no number of blocks can be named: {why}."


def _extend(reading: Reading, parts: Sequence[Part], needed: int, seconds: float | None) -> str:
    each = [f"{p.text}: {p.blocks} to {p.towards}" for p in parts if p.blocks is not None]
    time = "" if seconds is None else f", about {wording.duration(needed * seconds)}"
    more = needed - reading.wanted
    return (
        f"The question stays open. A new card with {needed} blocks ({more} more than here{time}) would find each "
        f"undecided part 8 times in 10, if the true effect is the one seen and the spread stays ({_first(each)}). "
        f"{_NEW_CARD}"
    )


def _needed(found: Verdict, parts: Sequence[Part]) -> tuple[int | None, str | None]:
    """Blocks of the new card: enough for every undecided part; or why no number can be named."""
    if found.word != "inconclusive":
        return None, f"the verdict is {found.word}"
    other = [f.code for f in found.findings if f.word in ("no treatment", "inconclusive") and f.code not in _BY_BLOCKS]
    if other:
        return None, f"more blocks do not settle it ({', '.join(dict.fromkeys(other))})"
    missing = [part for part in parts if part.blocks is None]
    if missing or not parts:
        return None, missing[0].reason if missing else "nothing that more blocks would decide"
    return max(part.blocks or 0 for part in parts), None


def _undecided(reading: Reading, effects: Sequence[LoadEffect], guards: Sequence[Record]) -> list[Part]:
    card = reading.bundle.card
    confidence, kind = float(card["analysis"]["confidence"]), str(card["workload"]["load_kind"])
    claimed = [_claim_part(e, effects, card["claim"], confidence, kind) for e in effects if e.word == "inconclusive"]
    if card["claim"]["scope"] == "some_load":
        claimed = _cheapest(claimed, effects)
    return claimed + [_guard_part(row, confidence, kind) for row in guards if row["word"] == "indeterminate"]


def _cheapest(parts: list[Part], effects: Sequence[LoadEffect]) -> list[Part]:
    """At some load: one supported load is enough, so the one that takes the fewest blocks; to falsify, all are
    needed. A claim that a load supports already is not undecided."""
    if any(effect.word == "supported" for effect in effects):
        return []
    support = [part for part in parts if part.towards == "support" and part.blocks is not None]
    return [min(support, key=lambda part: part.blocks or 0)] if support else parts


def _claim_part(
    at: LoadEffect, effects: Sequence[LoadEffect], claim: Record, confidence: float, kind: str
) -> Part:  # fmt: skip
    text = f"{wording.of(str(claim['metric']), claim.get('population'))} at {wording.load(at.load, kind)}"
    effect = at.effect
    if effect is None:
        return Part(text, at.load_point, None, None, at.reason)
    up = rises(claim["direction"])
    distance = effect.mean - effect.threshold if up else effect.threshold - effect.mean
    if not effect.stdev:
        reason = f"{at.reason}" if at.reason else "every block gave the threshold itself"
        return Part(text, at.load_point, None, None, reason)
    claimed = sum(e.claimed for e in effects)
    picked = claim["scope"] == "some_load" and distance > 0
    level = 1 - (1 - confidence) / claimed if picked else confidence
    needed = blocks_needed(abs(distance), effect.stdev, level)
    towards = "support" if distance > 0 else "falsify"
    return _part(text, at.load_point, needed, towards)


def _guard_part(row: Record, confidence: float, kind: str) -> Part:
    """A guard is one-sided at the card's confidence; its spread follows from its bound, mean ± t·s/√B."""
    margin = row["margin"]
    rule = wording.rule(row["metric"], row["direction"], margin["value"], margin["scale"], row.get("population"))
    text = f"the guard {rule} at {wording.load(row['load'], kind)}"
    blocks, mean, bound, limit = (row[key] for key in ("blocks", "mean", "bound", "limit"))
    if mean is None or bound is None or limit is None or bound == mean:
        return Part(text, row["load_point"], None, None, row["reason"] or "its change is the margin itself")
    spread = abs(bound - mean) * math.sqrt(blocks) / t_quantile(confidence, blocks - 1)
    distance = limit - mean if rises(row["direction"]) else mean - limit
    needed = blocks_needed(abs(distance), spread, 2 * confidence - 1)
    return _part(text, row["load_point"], needed, "pass" if distance > 0 else "fail")


def _part(text: str, load_point: int, needed: int | None, towards: str) -> Part:
    if needed is None:
        return Part(text, load_point, None, None, "the change seen lies on its limit: more than 1,000 blocks")
    return Part(text, load_point, max(needed, MIN_BLOCKS), towards, None)


def _first(texts: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    rest = len(texts) - _NAMED
    return "; ".join(texts[:_NAMED]) + (f"; and {rest} more" if rest > 0 else "")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]

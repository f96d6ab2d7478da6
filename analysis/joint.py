"""The joint chance of an experiment: that its claim is supported and every guard passes, from the spread of each.

The claim's test at a load is the one-sided t test of `power`; a guard's is the same at its own level (1 − confidence a
side), and its true change is taken as 0: no cost. A claim at some load needs the first step of Holm's correction at one
load at least: α / (claimed loads) (Bonferroni).

The chances are multiplied, as if independent; they share the blocks, so they are not. Whatever the correlation, the
joint chance lies between max(0, 1 − Σ(1 − p)) and the smallest p (Boole's and Fréchet's inequalities).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .effect import log_threshold, rises
from .power import fewest_blocks, power, smallest_detectable, upper_spread
from .records import BundleError, Record, need


@dataclass(frozen=True)
class Part:
    """One statement at one load. `distance`: how far the true change lies on the good side of the limit, on the d
    scale; None where no effect is expected. `spread`: what is planned with; None where unknown, with the reason."""

    row: Record
    distance: float | None
    spread: float | None
    confidence: float
    reason: str | None

    def chance(self, blocks: int) -> float | None:
        """That its test succeeds with so many blocks."""
        if self.distance is None or self.spread is None:
            return None
        return power(self.distance, self.spread, blocks, self.confidence)


def together(chances: Sequence[float]) -> tuple[float, float, float]:
    """(product, lower bound, upper bound) of the chance that all succeed."""
    upper = min(chances)
    # a difference from 1 is rounded, and may come out beyond the chance that it is made of
    lower = min(max(0.0, 1.0 - sum(1.0 - p for p in chances)), upper)
    return min(max(math.prod(chances), lower), upper), lower, upper


def at_least_one(chances: Sequence[float]) -> tuple[float, float, float]:
    """(as if independent, lower bound, upper bound) of the chance that one at least succeeds."""
    product = 1.0 - math.prod(1.0 - p for p in chances)
    upper = min(1.0, sum(chances))
    return min(max(product, max(chances)), upper), max(chances), upper


def joint(question: Record) -> Record:
    """The `power` command for a whole card.

    Question: `blocks`, `confidence`, `chance` (wanted), `seconds_a_block` (or null), `seconds_beside` (of blocks whose
    number stays: A/A; 0 by default), `claim` {metric, scope, direction, threshold {value, scale}, expect (or null), at:
    [{load, spread, spread_df, reason}]} and `guards` [{metric, load, direction, margin, spread, spread_df, reason}]. A
    spread with `spread_df` is an estimate, planned with at its upper 80% bound; a null one is unknown, for `reason`.

    Answer: `parts`, each with its `spread` as planned with, `smallest_detectable` (beyond the threshold, on the d
    scale), `smallest_effect` (with the threshold, in its own scale; claims only) and `power`; `joint` {power, lower,
    upper}, which is of all parts if `complete`, else of the known ones (then nothing more than `upper` is certain);
    `blocks_needed`, `power_needed` (with them) and `seconds_needed` for the chance wanted; null, with a `reason`, where
    unknown.
    """
    where = "power question"
    blocks, confidence = int(need(question, "blocks", int, where)), float(question.get("confidence", 0.95))
    wanted = float(question.get("chance", 0.8))
    if blocks < 2 or not 0 < confidence < 1 or not 0 < wanted < 1:
        raise BundleError(f"{where}: wanted blocks ≥ 2, and confidence and chance between 0 and 1")
    claim = need(question, "claim", dict, where)
    claims = _claims(claim, confidence)
    guards = [_guard(row, confidence) for row in question.get("guards") or []]
    found = _joint(claim, claims, guards, blocks)
    out: dict[str, Any] = {
        "blocks": blocks, "confidence": confidence, "wanted_power": wanted,
        "parts": [_row(part, blocks, wanted) for part in (*claims, *guards)],
        "joint": None if found is None else dict(zip(("power", "lower", "upper"), found, strict=True)),
        "complete": all(part.chance(blocks) is not None for part in (*claims, *guards)),
        "blocks_needed": None, "power_needed": None, "seconds_needed": None, "reason": _reason(claim, claims, guards),
    }  # fmt: skip
    if found is None:
        return out
    needed = fewest_blocks(lambda n: (_joint(claim, claims, guards, n) or found)[0] >= wanted)
    if needed is None:
        return out | {"reason": "no number of blocks up to 1,000 gives the chance wanted"}
    beside = float(question.get("seconds_beside") or 0.0)
    seconds, then = question.get("seconds_a_block"), _joint(claim, claims, guards, needed)
    out |= {"blocks_needed": needed, "power_needed": None if then is None else then[0]}
    return out | {"seconds_needed": None if seconds is None else needed * float(seconds) + beside}


def _joint(
    claim: Record, claims: Sequence[Part], guards: Sequence[Part], blocks: int
) -> tuple[float, float, float] | None:
    """(as if independent, lower, upper) of the known parts; None where nothing is known of the claim."""
    at = [p for p in (part.chance(blocks) for part in claims) if p is not None]
    if not at or (claim["scope"] == "some_load" and len(at) < len(claims)):
        return None
    others = [p for p in (part.chance(blocks) for part in guards) if p is not None]
    if claim["scope"] != "some_load":
        return together([*at, *others])
    one = at_least_one(at)
    product, lower, upper = (together([value, *others]) for value in one)
    return product[0], lower[1], upper[2]


def _reason(claim: Record, claims: Sequence[Part], guards: Sequence[Part]) -> str | None:
    if all(part.spread is None for part in claims):
        return claims[0].reason if claims else "no load is claimed"
    if claim.get("expect") is None:
        return "the card expects no effect (power.expect)"
    unknown = [part for part in (*claims, *guards) if part.spread is None]
    if not unknown:
        return None
    names = ", ".join(f"{part.row['metric']} at {part.row['load']:g}" for part in unknown)
    return f"not known, and not in the joint chance: the spread of {names}"


def _claims(claim: Record, confidence: float) -> list[Part]:
    at = need(claim, "at", list, "power question: claim")
    level = 1 - (1 - confidence) / len(at) if claim["scope"] == "some_load" and at else confidence
    threshold = _on_scale(claim["threshold"], float(claim["threshold"]["value"]), claim["direction"])
    expect, sign = claim.get("expect"), 1.0 if rises(claim["direction"]) else -1.0
    distance = None
    if expect is not None:
        distance = sign * (_on_scale(claim["threshold"], float(expect), claim["direction"]) - threshold)
    own = {key: claim[key] for key in ("metric", "direction", "threshold")}
    return [Part({"kind": "claim", **own, **row}, distance, _spread(row), level, row.get("reason")) for row in at]


def _guard(row: Record, confidence: float) -> Part:
    """One-sided at 1 − confidence: `power` takes a two-sided level, so 2·confidence − 1."""
    limit = _on_scale(row["margin"], float(row["margin"]["value"]), row["direction"])
    level = max(2 * confidence - 1, 1e-9)
    return Part({"kind": "guard", **row}, abs(limit), _spread(row), level, row.get("reason"))


def _on_scale(threshold: Record, value: float, direction: str) -> float:
    """A change as written on a card, on the d scale."""
    if threshold["scale"] == "relative":
        return log_threshold(value, direction)
    return value if rises(direction) else -value


def _spread(row: Record) -> float | None:
    spread, df = row.get("spread"), row.get("spread_df")
    return None if spread is None else upper_spread(float(spread), int(df)) if df else float(spread)


def _row(part: Part, blocks: int, wanted: float) -> Record:
    smallest = None
    if part.spread is not None:
        smallest = smallest_detectable(part.spread, blocks, part.confidence, wanted)
    row = {key: part.row.get(key) for key in ("kind", "metric", "population", "load", "spread_df")}
    row |= {"estimate": part.row.get("spread"), "spread": part.spread, "smallest_detectable": smallest}
    effect = None
    if smallest is not None and part.row["kind"] == "claim":
        direction, bound = part.row["direction"], part.row["threshold"]
        beyond = _on_scale(bound, float(bound["value"]), direction) + (smallest if rises(direction) else -smallest)
        effect = abs(math.expm1(beyond)) if bound["scale"] == "relative" else abs(beyond)
    return row | {"smallest_effect": effect, "power": part.chance(blocks), "reason": part.reason}

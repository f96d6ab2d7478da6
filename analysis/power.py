"""What an experiment can detect: smallest detectable effect, power, blocks needed.

A paired one-sided t test at α = (1 − confidence)/2 with B blocks whose differences have spread s: for a true mean Δ
beyond the threshold, t has the noncentral t distribution with B − 1 degrees of freedom and noncentrality Δ·√B/s. The
smallest detectable effect is the Δ with power .8. A spread from a pilot is taken at its upper 80% bound, s·√(df/χ²(.2,
df)). All effects are on the d scale (log ratios, or differences in points).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from .effect import MIN_BLOCKS, log_threshold, t_quantile
from .records import BundleError, need

POWER = 0.8
MAX_BLOCKS = 1000


def power(distance: float, spread: float, blocks: int, confidence: float = 0.95) -> float:
    """Chance that the one-sided test detects a mean that lies `distance` beyond the threshold."""
    from scipy import stats

    if spread == 0:
        return 1.0 if distance > 0 else 0.0
    critical = t_quantile(0.5 + confidence / 2, blocks - 1)
    return float(stats.nct.sf(critical, blocks - 1, distance * math.sqrt(blocks) / spread))


@lru_cache(maxsize=256)
def _detectable_in_spreads(blocks: int, confidence: float, wanted: float) -> float:
    from scipy import optimize

    if wanted <= (1 - confidence) / 2:
        return 0.0  # a chance that the test has on the threshold itself

    return float(optimize.brentq(lambda x: power(x, 1.0, blocks, confidence) - wanted, 1e-6, 1e4, xtol=1e-12))


def smallest_detectable(spread: float, blocks: int, confidence: float = 0.95, wanted: float = POWER) -> float | None:
    """The distance beyond the threshold that is detected with power `wanted`; None with fewer than two blocks."""
    return spread * _detectable_in_spreads(blocks, confidence, wanted) if blocks >= 2 else None


def upper_spread(spread: float, df: int) -> float:
    """The upper 80% bound of a spread that was estimated with `df` degrees of freedom."""
    from scipy import special

    return spread * math.sqrt(df / float(special.chdtri(df, 0.8)))


def blocks_needed(distance: float, spread: float, confidence: float = 0.95, wanted: float = POWER) -> int | None:
    """The fewest blocks (≥ 6) with power `wanted` at a true distance beyond the threshold; None above 1,000."""
    if distance <= 0:
        return None
    return fewest_blocks(lambda blocks: power(distance, spread, blocks, confidence) >= wanted)


def fewest_blocks(reaches: Callable[[int], bool]) -> int | None:
    """The fewest blocks (≥ 6) for which something that grows with them is reached; None above 1,000."""
    low, high = MIN_BLOCKS, MAX_BLOCKS
    if not reaches(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle + 1, high)
    return low


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """The `power` command: what a plan asks before anything has run.

    Question: `blocks`; `spread` (of the d's; null or absent: unknown) with `spread_df` if it is an estimate (then its
    upper bound is planned with); optionally `direction` and `threshold` {value, scale}, `expect` (the true effect
    expected, in the threshold's scale) and `confidence`, `power`. Answer: `spread` used, `smallest_detectable`
    (distance beyond the threshold on the d scale), `smallest_effect` (that effect with the threshold, in the
    threshold's own scale), `power` at `expect`, `blocks_needed` for it; null beside a `reason` where unknown.

    A question that holds a `claim` is about a whole card: `joint.joint` answers it.
    """
    if "claim" in question:
        from .joint import joint

        return joint(question)
    where = "power question"
    blocks = int(need(question, "blocks", int, where))
    confidence, wanted = float(question.get("confidence", 0.95)), float(question.get("power", POWER))
    if blocks < 2 or not 0 < confidence < 1 or not 0 < wanted < 1:
        raise BundleError(f"{where}: wanted blocks ≥ 2, and confidence and power between 0 and 1")
    out: dict[str, Any] = {"blocks": blocks, "confidence": confidence, "wanted_power": wanted, "spread": None}
    out |= dict.fromkeys(("smallest_detectable", "smallest_effect", "power", "blocks_needed"))
    if question.get("spread") is None:
        return out | {"reason": "the spread of the A/B differences is not known"}
    spread = float(need(question, "spread", (int, float), where))
    if question.get("spread_df"):
        spread = upper_spread(spread, int(question["spread_df"]))
    smallest = smallest_detectable(spread, blocks, confidence, wanted)
    out |= {"spread": spread, "smallest_detectable": smallest, "reason": None}
    if question.get("threshold") is None or smallest is None:
        return out
    direction = str(question.get("direction", "must_rise_by"))
    sign = 1 if "rise" in direction else -1
    relative = need(question, "threshold.scale", str, where) == "relative"
    value = float(need(question, "threshold.value", (int, float), where))
    threshold = log_threshold(value, direction) if relative else sign * value
    beyond = threshold + sign * smallest
    out["smallest_effect"] = abs(math.expm1(beyond)) if relative else abs(beyond)
    if question.get("expect") is not None:
        expect = float(question["expect"])
        distance = sign * ((log_threshold(expect, direction) if relative else sign * expect) - threshold)
        out |= {
            "power": power(distance, spread, blocks, confidence),
            "blocks_needed": blocks_needed(distance, spread, confidence, wanted),
        }
        if out["blocks_needed"] is None:
            out["reason"] = "the expected effect is not beyond the threshold, or needs more than 1,000 blocks"
    return out

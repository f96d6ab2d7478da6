"""The claim's metric at every load that was run: its effect and, at the claimed loads, its word.

At unclaimed loads the effect is exploratory: shown, without a word. For `some_load` the words come from Holm's
adjustment over the claimed loads.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from . import wording
from .ceiling import ceiling
from .cells import Reading
from .effect import MIN_BLOCKS, Effect, bonferroni_interval, holm, paired, rises, t_interval
from .metrics import ALL_METRICS, metrics_of
from .power import blocks_needed, smallest_detectable
from .records import BundleError, Record
from .steady_loads import INVALID_LOAD
from .tables import mean_and_stdev

#: a reason names this many of the values that are missing
_NAMED = 4


@dataclass(frozen=True)
class Pairs:
    """A metric's values in both arms, block by block in plan order; None where undefined."""

    blocks: tuple[int, ...]
    baseline: tuple[float | None, ...]
    candidate: tuple[float | None, ...]

    @property
    def reason(self) -> str | None:
        """Why no effect can be computed, or None. A block without a value is never dropped: it leaves the effect
        undefined."""
        if not self.blocks:
            return "no valid block"
        missing = [
            f"block {block} ({arm})"
            for arm, values in (("baseline", self.baseline), ("candidate", self.candidate))
            for block, value in zip(self.blocks, values, strict=True)
            if value is None
        ]
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        return f"undefined in {', '.join(missing[:_NAMED])}{more}" if missing else None

    def numbers(self) -> tuple[list[float], list[float]]:
        """Both arms' values; only where `reason` is None."""
        return [float(v) for v in self.baseline if v is not None], [float(v) for v in self.candidate if v is not None]


def pairs(reading: Reading, metric: str, load_point: int, population: str | None = None) -> Pairs:
    """The paired values of a metric (of one population, or of all requests) at a load, from the used blocks."""
    if metric not in metrics_of(reading.bundle.card):
        raise BundleError(f"card.resolved.json: no formula for metric {metric!r}")
    by_arm = {
        arm: {cell.cell.block: cell.of(population).values[metric].value for cell in reading.used(arm, load_point)}
        for arm in ("baseline", "candidate")
    }
    blocks = tuple(block.block.block for block in reading.blocks if block.used)
    return Pairs(
        blocks,
        tuple(by_arm["baseline"].get(block) for block in blocks),
        tuple(by_arm["candidate"].get(block) for block in blocks),
    )


@dataclass(frozen=True)
class LoadEffect:
    """The claim's metric at one load. `word` is None where the load is not claimed or the run or the load is invalid;
    `zero_interval` is the Bonferroni interval of the change itself (log ratio, else difference), by which a reversal is
    told; `ceiling` says where a claimed rise was out of reach whatever the candidate does."""

    load_point: int
    load: float
    claimed: bool
    pairs: Pairs
    effect: Effect | None
    word: str | None
    zero_interval: tuple[float, float] | None
    p_adjusted: float | None
    reason: str | None
    ceiling: Record | None = None


def load_effects(reading: Reading, invalid_loads: Container[int] = ()) -> list[LoadEffect]:
    """The claim's effect at each load that was run; `invalid_loads` are the load points that may have no word."""
    card = reading.bundle.card
    claim, confidence = card["claim"], float(card["analysis"]["confidence"])
    loads = [float(load) for load in card["workload"]["loads"]]
    relative = claim["threshold"]["scale"] == "relative"
    effects = []
    for point, load in enumerate(loads, start=1):
        both, effect, zero = pairs(reading, claim["metric"], point, claim.get("population")), None, None
        if both.reason is None:
            baseline, candidate = both.numbers()
            effect = paired(
                baseline, candidate, value=float(claim["threshold"]["value"]), relative=relative,
                direction=claim["direction"], confidence=confidence,
            )  # fmt: skip
            zero = _zero_interval(effect, baseline, candidate, len(loads), confidence)
        claimed = load in [float(at) for at in claim["at"]]
        word, reason = None, _reason(both, effect)
        if claimed and not reading.complete:
            reason = "the run is invalid"
        elif claimed and point in invalid_loads:
            reason = INVALID_LOAD
        elif claimed:
            word = effect.word if effect else "inconclusive"
        end = ceiling(reading, point) if claimed else None
        effects.append(LoadEffect(point, load, claimed, both, effect, word, zero, None, reason, end))
    return _some_load(effects, confidence) if claim["scope"] == "some_load" and reading.complete else effects


def _reason(both: Pairs, effect: Effect | None) -> str | None:
    if effect is None:
        return both.reason
    if "few_blocks" in effect.flags:
        return f"{wording.count(len(effect.d), 'block')}; a word needs {MIN_BLOCKS}"
    if effect.scale == "scaled":
        return "zero in some block, so no log ratio: d = candidate − the threshold's multiple of the baseline"
    return "all blocks are the same: the sign of mean − threshold decides" if "degenerate" in effect.flags else None


def _zero_interval(
    effect: Effect, baseline: Sequence[float], candidate: Sequence[float], loads: int, confidence: float
) -> tuple[float, float] | None:
    if len(effect.d) < MIN_BLOCKS:
        return None
    d = np.asarray(effect.d) if effect.scale != "scaled" else np.asarray(candidate) - np.asarray(baseline)
    return bonferroni_interval(d, loads, confidence)


def _some_load(effects: list[LoadEffect], confidence: float) -> list[LoadEffect]:
    """Supported at a load only if its one-sided p survives Holm over the claimed loads; falsified needs no correction
    there, since the claim is falsified only if all loads are."""
    known = [i for i, e in enumerate(effects) if e.claimed and e.effect is not None and e.effect.p is not None]
    adjusted = holm([_p(effects[i]) for i in known])
    out = list(effects)
    for i, p in zip(known, adjusted, strict=True):
        word = effects[i].word
        if word == "supported" and p > (1 - confidence) / 2:
            word = "inconclusive"
        out[i] = replace(effects[i], word=word, p_adjusted=p)
    return out


def _p(effect: LoadEffect) -> float:
    return 1.0 if effect.effect is None or effect.effect.p is None else effect.effect.p


def reversal(effects: Sequence[LoadEffect]) -> tuple[list[LoadEffect], list[LoadEffect]] | None:
    """(loads where the metric rose, loads where it fell) if the change turns around among the loads run, else None."""
    up = [e for e in effects if e.zero_interval is not None and e.zero_interval[0] > 0]
    down = [e for e in effects if e.zero_interval is not None and e.zero_interval[1] < 0]
    return (up, down) if up and down else None


def picking_level(claim: Record, effects: Sequence[LoadEffect], confidence: float) -> float:
    """The level at which one load must show the claim: at some load, Holm's first step (1 − α / claimed loads)."""
    if claim["scope"] != "some_load":
        return confidence
    return 1 - (1 - confidence) / max(1, sum(effect.claimed for effect in effects))


def effect_rows(effects: Sequence[LoadEffect], claim: Record, confidence: float) -> list[Record]:
    """verdict.json's effects."""
    picking = picking_level(claim, effects, confidence)
    return [_effect_row(effect, claim, confidence, picking) for effect in effects]


_EFFECT_NUMBERS = (
    "mean",
    "stdev",
    "interval",
    "threshold",
    "ratio",
    "ratio_interval",
    "t",
    "p",
    "p_adjusted",
    "sign_flip_p",
    "sign_flip_interval",
    "bonferroni_interval",
    "smallest_detectable",
    "blocks_needed",
)


def _effect_row(at: LoadEffect, claim: Record, confidence: float, picking: float) -> Record:
    metric = str(claim["metric"])
    baseline, _, _ = mean_and_stdev(at.pairs.baseline)
    candidate, _, _ = mean_and_stdev(at.pairs.candidate)
    row: dict[str, Any] = {
        "load_point": at.load_point,
        "load": at.load,
        "claimed": at.claimed,
        "metric": metric,
        "scale": at.effect.scale if at.effect else "log",
        "blocks": len(at.pairs.blocks),
        "baseline": baseline,
        "candidate": candidate,
        "absolute": absolute(at.pairs, ALL_METRICS[metric].unit, confidence),
        "ceiling": at.ceiling,
    }
    effect = at.effect
    if effect is None:
        row |= {"d": [None] * len(at.pairs.blocks), **dict.fromkeys(_EFFECT_NUMBERS)}
        return row | {"word": at.word, "flags": [], "reason": at.reason}
    interval = None if effect.lower is None or effect.upper is None else [effect.lower, effect.upper]
    log = effect.scale == "log"
    return row | {
        "d": list(effect.d),
        "mean": effect.mean,
        "stdev": effect.stdev,
        "interval": interval,
        "threshold": effect.threshold,
        "ratio": float(np.exp(effect.mean)) if log else None,
        "ratio_interval": [float(np.exp(bound)) for bound in interval] if log and interval else None,
        "t": effect.t,
        "p": effect.p,
        "p_adjusted": at.p_adjusted,
        "sign_flip_p": effect.sign_flip_p,
        "sign_flip_interval": effect.sign_flip_interval,
        "bonferroni_interval": at.zero_interval,
        **_detectable(effect, claim, confidence, picking if at.claimed else confidence),
        "word": at.word,
        "flags": list(effect.flags),
        "reason": at.reason,
    }


def absolute(both: Pairs, unit: str, confidence: float) -> Record:
    """The effect in the metric's own unit: the mean of candidate − baseline over the blocks and its paired t interval.

    It describes; the d scale decides. Nulls where a block has no value; no interval of one block.
    """
    row: Record = {"unit": unit, **dict.fromkeys(("baseline", "candidate", "difference", "interval"))}
    if both.reason is not None:
        return row
    baseline, candidate = (np.asarray(values, dtype=np.float64) for values in both.numbers())
    differences = candidate - baseline
    row |= {"baseline": float(baseline.mean()), "candidate": float(candidate.mean())}
    row["difference"] = float(differences.mean())
    if len(differences) > 1:
        _, _, lower, upper = t_interval(differences, confidence)
        row["interval"] = [lower, upper]
    return row


def _detectable(effect: Effect, claim: Record, confidence: float, picking: float) -> Record:
    """The smallest distance beyond the threshold that these blocks detect with power .8 at the level `picking`, and how
    many blocks the distance that was seen would take."""
    if not effect.stdev:
        return {"smallest_detectable": None, "blocks_needed": None}
    return {
        "smallest_detectable": smallest_detectable(effect.stdev, len(effect.d), picking),
        "blocks_needed": needed(effect, claim, confidence, picking) if effect.word == "inconclusive" else None,
    }


def needed(effect: Effect, claim: Record, confidence: float, picking: float) -> int | None:
    """The blocks that the distance seen would take: towards support at the level `picking`, else at `confidence`."""
    beyond = effect.mean - effect.threshold if rises(claim["direction"]) else effect.threshold - effect.mean
    return blocks_needed(abs(beyond), effect.stdev or 0.0, picking if beyond > 0 else confidence)

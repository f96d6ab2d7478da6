"""Arms that exchanged places, or A/A blocks across both servers: what is known of a difference between the places.

A place that is faster is credited to the arm that has it. Where each arm had both places for about half of the blocks,
the places' difference enters both sides of the swap with opposite signs, and cancels in the mean over the blocks as far
as the sides are alike (a cross-over; Senn, Cross-over Trials in Clinical Research, 2nd edition, chapter 3). What moves
with an arm (its version, its flags) does not cancel, and stays confounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import wording
from .cells import Reading
from .claim import LoadEffect
from .effect import t_interval
from .identity_places import of_a_place
from .read import Bundle
from .records import Record

#: words of A/A blocks that say something, and what
_AA_WORDS = {
    "clean": "clean: a bias beyond the card's margin is ruled out",
    "no bias shown": "no bias shown, and one beyond the card's margin not ruled out",
}
BEFORE, AFTER = "before", "after"


def sides(bundle: Bundle) -> dict[int, str]:
    """On which side of the swap each block of the arms was run; a spare is on the side of the block that it replaced.
    Empty where the arms did not exchange places."""
    swap = bundle.card["method"].get("swap")
    if not swap or not any(line.get("kind") == "swapped" for line in bundle.log):
        return {}
    found: dict[int, str] = {}
    for number, block in enumerate((b for b in bundle.blocks if not b.aa and not b.spare), start=1):
        found[block.block] = BEFORE if number <= swap["after_block"] else AFTER
    for line in bundle.log:
        if line.get("kind") == "block_replaced" and line.get("block") in found:
            found[line["by"]] = found[line["block"]]
    return found


def both_sides(reading: Reading) -> bool:
    """Whether blocks on both sides of a swap are used."""
    found = sides(reading.bundle)
    return {found.get(block.block.block) for block in reading.blocks if block.used} >= {BEFORE, AFTER}


def _across(reading: Reading, itself: Sequence[Record]) -> str | None:
    """What A/A blocks across the servers say, by their least certain word; None where they say nothing."""
    declared = reading.bundle.card["method"].get("aa") or {}
    words = [row["word"] for row in itself if row["decides"]]
    if not declared.get("across") or not words or any(word not in _AA_WORDS for word in words):
        return None
    return _AA_WORDS["clean" if set(words) == {"clean"} else "no bias shown"]


def accounted(reading: Reading, names: Sequence[str], itself: Sequence[Record]) -> tuple[list[str], str | None]:
    """(the confounded differences that the design does not account for, a clause on those that it does or None)."""
    there = [name for name in names if of_a_place(name)]
    aa = _across(reading, itself)
    if not there or not (both_sides(reading) or aa):
        return list(names), None
    left = [name for name in names if name not in there]
    if both_sides(reading):
        after, blocks = reading.bundle.card["method"]["swap"]["after_block"], reading.wanted
        how = f"the arms exchanged them after block {after} of {blocks}"
    else:
        how = f"A/A blocks across both were not biased ({aa})"
    return left, f"the places of the arms differ in {wording.listed(there)}, and {how}"


def condition(reading: Reading, effects: Sequence[LoadEffect]) -> tuple[str, str] | None:
    """(value, source) of the condition on places; None where neither arms nor A/A blocks moved."""
    method = reading.bundle.card["method"]
    parts = []
    if (method.get("aa") or {}).get("across"):
        parts.append("the baseline ran against itself across both servers before all else")
    swap = method.get("swap")
    if swap and not sides(reading.bundle):
        parts.append("the arms did not come to exchange places")
    elif swap:
        parts.append(f"the arms exchanged places after block {swap['after_block']} of {reading.wanted}")
        parts += [text for effect in effects if effect.claimed and (text := _either_side(reading, effect))]
    return ("; ".join(parts), "observed") if parts else None


def _either_side(reading: Reading, at: LoadEffect) -> str | None:
    """The claim's effect on either side of the swap, exploratory; None where it has no scale for both."""
    effect, card = at.effect, reading.bundle.card
    if effect is None or effect.scale == "scaled":
        return None
    found = sides(reading.bundle)
    texts = []
    for side in (BEFORE, AFTER):
        d = [value for block, value in zip(at.pairs.blocks, effect.d, strict=True) if found.get(block) == side]
        texts.append(f"{_estimate(d, effect.scale, card)} {side}")
    claim = card["claim"]
    named = wording.of(claim["metric"], claim.get("population"))
    where = wording.load(at.load, str(card["workload"]["load_kind"]))
    return f"change of {named} at {where}: {' and '.join(texts)} (exploratory)"


def _estimate(d: Sequence[float], scale: str, card: dict[str, Any]) -> str:
    metric = str(card["claim"]["metric"])

    def show(value: float) -> str:
        """A d as people read it, with its sign."""
        return wording.signed(wording.on_scale(value, scale, metric, 1))

    if not d:
        return "no block"
    blocks = wording.count(len(d), "block")
    if len(d) == 1:
        return f"{show(d[0])} ({blocks})"
    confidence = float(card["analysis"]["confidence"])
    mean, _, lower, upper = t_interval(np.asarray(d, dtype=np.float64), confidence)
    return f"{show(mean)} ({100 * confidence:g}% interval {show(lower)} to {show(upper)}, {blocks})"

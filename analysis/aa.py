"""The procedure against itself: in A/A blocks the baseline runs twice, as two systems, by the claim's own procedure.

d of a block is the second run's value against the first's: ln(m₂ / m₁), or m₂ − m₁ where the claim is in points. Over
the A/A blocks of a load: a t interval, and the spread s, the noise floor: what the procedure sees where there is
nothing. The interval is held against ±margin, the card's `within` (on the log scale ln(1 + within) to either side).
Wholly outside: biased, and the run is invalid. Reaching across: no bias shown, and none ruled out. Wholly inside:
clean, equivalence is established; p is that of the two one-sided t tests (Schuirmann, Journal of Pharmacokinetics and
Biopharmaceutics 15, 1987). Undefined, or from too few blocks: not established, which decides nothing.

A guard's metrics are shown beside it, exploratory and without a word. No A/A block enters an effect of the treatment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from . import wording
from .card import AA_ARMS
from .cells import BlockResult, Reading
from .claim import LoadEffect
from .effect import compare_to, is_rounding, one_sided_p, t_interval
from .guards import MIN_BLOCKS
from .metrics import ALL_METRICS
from .records import Record
from .tables import block_rows

CLEAN, UNSHOWN, BIASED, OPEN = "clean", "no bias shown", "biased", "not established"
#: why nothing has a word where the procedure is biased
_NO_WORD = "the run is invalid, since its A/A blocks are biased"
#: so many lost blocks are named
_NAMED = 3


@dataclass(frozen=True)
class Bias:
    """What A/A differences say against ±margin. `p` is that of equivalence, None where all blocks are the same;
    `equivalent`: the whole interval lies inside."""

    mean: float
    stdev: float
    lower: float
    upper: float
    p: float | None
    word: str
    equivalent: bool


def bias(d: Sequence[float], margin: float, confidence: float = 0.95) -> Bias:
    """Judge at least two A/A differences against ±margin, on their scale."""
    values = np.asarray(d, dtype=np.float64)
    mean, stdev, lower, upper = t_interval(values, confidence)
    if is_rounding(stdev, [*values.tolist(), margin]):
        size = float(np.abs(values).max())
        outside = compare_to(mean, margin, size) > 0 or compare_to(mean, -margin, size) < 0
        inside = compare_to(mean, margin, size) < 0 < compare_to(mean, -margin, size)
        return Bias(mean, 0.0, mean, mean, None, BIASED if outside else CLEAN if inside else UNSHOWN, inside)
    below = one_sided_p(mean, stdev, len(values), margin, up=False)[1]
    above = one_sided_p(mean, stdev, len(values), -margin, up=True)[1]
    inside = -margin < lower and upper < margin
    word = BIASED if lower > margin or upper < -margin else CLEAN if inside else UNSHOWN
    return Bias(mean, stdev, lower, upper, max(below, above), word, inside)


def aa_rows(reading: Reading) -> list[Record]:
    """verdict.json's aa: at each load of the A/A blocks the claim's metric, then the guards' metrics; none where the
    card has no A/A blocks."""
    card = reading.bundle.card
    declared = card["method"].get("aa")
    if not declared:
        return []
    claim, loads = card["claim"], [float(load) for load in card["workload"]["loads"]]
    own = (claim["metric"], claim.get("population"), claim["threshold"]["scale"])
    others = [(row["metric"], row.get("population"), row["margin"]["scale"]) for row in card.get("guards") or []]
    watched = dict.fromkeys(other for other in others if other != own)
    rows = []
    for at in sorted({float(load) for load in declared["at"]}, key=loads.index):
        point = loads.index(at) + 1
        rows += [_row(reading, point, at, *what, decides=what == own) for what in (own, *watched)]
    return rows


def aa_block_rows(reading: Reading) -> list[Record]:
    """verdict.json's aa_blocks: every planned A/A block, used or not, and why not."""
    return block_rows(reading.aa)


def _row(
    reading: Reading, point: int, load: float, metric: str, population: str | None, scale: str, *, decides: bool
) -> Record:
    card = reading.bundle.card
    within, used = card["method"]["aa"]["within"]["value"], [block for block in reading.aa if block.used]
    margin = (math.log1p(within) if scale == "relative" else float(within)) if decides else None
    d, reason = _differences(used, point, metric, population, relative=scale == "relative")
    row: Record = {"load_point": point, "load": load, "metric": metric}
    row |= {} if population is None else {"population": population}
    row |= {"unit": ALL_METRICS[metric].unit, "scale": "log" if scale == "relative" else "difference"}
    row |= {"decides": decides, "blocks": len(used), "d": d, "margin": margin}
    row |= dict.fromkeys(("mean", "stdev", "interval", "p_equivalent", "equivalent", "word"))
    numbers = [value for value in d if value is not None]
    if reason is None and len(numbers) > 1:
        found = bias(numbers, margin or 0.0, float(card["analysis"]["confidence"]))
        row |= {"mean": found.mean, "stdev": found.stdev, "interval": [found.lower, found.upper]}
        if decides:
            row |= {"p_equivalent": found.p, "equivalent": found.equivalent, "word": found.word}
    if reason is None and len(used) < MIN_BLOCKS:
        reason = f"{wording.count(len(used), 'A/A block')}; a word needs {MIN_BLOCKS}"
    elif reason is None and decides and not reading.complete:
        reason = "the run is invalid"
    if decides and reason is not None:
        row |= {"word": OPEN, "equivalent": None, "p_equivalent": None}
    return row | {"reason": "; ".join(filter(None, (reason, _lost(reading)))) or None}


def _differences(
    used: Sequence[BlockResult], point: int, metric: str, population: str | None, *, relative: bool
) -> tuple[list[float | None], str | None]:
    """d of each used block, None where undefined, and why no interval can be made. No block is ever dropped."""
    d: list[float | None] = []
    undefined, zero = [], False
    for block in used:
        first, second = (
            next(
                cell.of(population).values[metric].value
                for cell in block.cells
                if cell is not None and cell.cell.arm == arm and cell.cell.load_point == point
            )
            for arm in AA_ARMS
        )
        undefined += [
            f"block {block.block.block} ({arm})"
            for arm, value in zip(AA_ARMS, (first, second), strict=True)
            if value is None
        ]
        if first is None or second is None or (relative and not (first > 0 and second > 0)):
            zero |= first is not None and second is not None
            d.append(None)
        else:
            d.append(math.log(second / first) if relative else second - first)
    if not used:
        return d, "no valid A/A block"
    if undefined:
        return d, f"undefined in {', '.join(undefined)}"
    return d, "zero in some block, so no log ratio" if zero else None


def _lost(reading: Reading) -> str | None:
    """How many A/A blocks are fewer than planned, and the first of them by their causes; None where none is."""
    wanted, used = int(reading.bundle.card["method"]["aa"]["blocks"]), sum(block.used for block in reading.aa)
    if used >= wanted:
        return None
    lost = [block for block in reading.aa if not block.used and block.cause != "spare, not run"]
    reasons = [f"block {block.block.block}: {block.cause}" for block in lost[:_NAMED]]
    reasons += [f"and {len(lost) - _NAMED} more"] if len(lost) > _NAMED else []
    return f"{used} of {wording.count(wanted, 'A/A block')} valid ({'; '.join(reasons)})"


def biased(rows: Sequence[Record]) -> list[Record]:
    """The rows by which the run is invalid."""
    return [row for row in rows if row["word"] == BIASED]


def effects_without_words(effects: Sequence[LoadEffect]) -> list[LoadEffect]:
    """The claim's effects in a run whose A/A blocks are biased: shown, without a word."""
    return [replace(e, word=None, reason=_NO_WORD) if e.claimed else e for e in effects]


def guards_without_words(rows: Sequence[Record]) -> list[Record]:
    """The guards of such a run: indeterminate, with the reason."""
    return [{**row, "word": "indeterminate", "reason": _NO_WORD} for row in rows]


def bias_text(row: Record, reading: Reading) -> str:
    """The clause by which the run is invalid: load, metric, bias, interval, margin."""
    return f"the procedure is biased: {_seen(row, reading)}, wholly outside the ±{_within(reading)} of the card"


def condition(reading: Reading) -> tuple[str, str] | None:
    """(value, source) of the condition on the noise floor; None where the card has no A/A blocks."""
    rows = [row for row in aa_rows(reading) if row["decides"]]
    if not rows:
        return None
    text = "; ".join(f"{_seen(row, reading)}: {_judged(row, reading)}" for row in rows)
    return text, "unknown" if any(row["word"] == OPEN for row in rows) else "observed"


def _seen(row: Record, reading: Reading) -> str:
    """`at 5 req/s goodput of the baseline against itself differs by +0.04% (95% interval −0.52% to +0.6%, 8 A/A
    blocks)`; as many decimals as it takes that no bound looks like a margin that it is not."""
    card = reading.bundle.card
    where = f"at {wording.load(row['load'], str(card['workload']['load_kind']))}"
    where += f" {wording.of(row['metric'], row.get('population'))} of the baseline against itself"
    if row["interval"] is None:
        return where
    margins = (row["margin"], -row["margin"])
    more = max(1, *(wording.enough_decimals(row["interval"], m, row["scale"], row["metric"]) for m in margins))
    mean, lower, upper = (
        wording.signed(wording.on_scale(value, row["scale"], row["metric"], more))
        for value in (row["mean"], *row["interval"])
    )
    level = f"{100 * float(card['analysis']['confidence']):g}%"
    blocks = wording.count(row["blocks"], "A/A block")
    return f"{where} differs by {mean} ({level} interval {lower} to {upper}, {blocks})"


def _judged(row: Record, reading: Reading) -> str:
    """The word, what it does not rule out, and the noise floor."""
    parts = [str(row["word"])]
    within = f"±{_within(reading)}"
    if row["word"] == OPEN:
        parts.append(str(row["reason"]))
    elif row["word"] == BIASED:
        parts.append(f"the whole interval lies outside {within}")
    else:
        parts.append(f"a bias beyond {within} is {'' if row['equivalent'] else 'not '}ruled out")
        parts += [] if row["interval"][0] <= 0 <= row["interval"][1] else ["zero lies outside the interval"]
    if row["stdev"] is not None:
        parts.append(f"spread of a block {wording.on_scale(row['stdev'], row['scale'], row['metric'], 1)}")
    return ", ".join(parts)


def _within(reading: Reading) -> str:
    within = reading.bundle.card["method"]["aa"]["within"]
    return wording.threshold(within["value"], within["scale"], "may_rise_by")[1:]

"""The effect against its threshold: false words, coverage, level and power, by `paired`."""

from __future__ import annotations

import math

import numpy as np
from benchcard.analysis.effect import Effect, paired
from benchcard.analysis.power import power
from benchcard.analysis.signflip import sign_flip_p

from .draws import SPREAD, Claim, Floats, log_pairs, noise, point_pairs, stream, zero_pairs
from .table import Row, at_most, within

ASSUMED = "What it rests on: block noise that is not normal"
CLAIMS = {
    "ratio": (Claim(0.05, True, "must_rise_by"), Claim(0.05, True, "must_fall_by")),
    "points": (Claim(0.02, False, "must_rise_by"), Claim(0.02, False, "must_fall_by")),
    "zero blocks": (Claim(0.05, True, "must_rise_by"), Claim(0.05, True, "must_fall_by")),
}
#: a true change, the threshold, the spread and the blocks; the first three are the worked example of the plan
POWERS = (
    (0.08, 0.05, 0.03, 8), (0.08, 0.05, 0.03, 10), (0.08, 0.05, 0.03, 11), (0.10, 0.05, 0.03, 6),
    (0.10, 0.05, 0.06, 8), (0.20, 0.05, 0.10, 8), (0.06, 0.05, 0.03, 16),
)  # fmt: skip


def effects(baseline: Floats, candidate: Floats, claim: Claim) -> list[Effect]:
    """Every experiment judged by the analysis."""
    return [
        paired(b, c, value=claim.value, relative=claim.relative, direction=claim.direction)
        for b, c in zip(baseline.tolist(), candidate.tolist(), strict=True)
    ]


def covered(found: list[Effect], true: float) -> int:
    """In how many the interval holds the true effect."""
    return sum(e.lower is not None and e.upper is not None and e.lower <= true <= e.upper for e in found)


def at_threshold(scale: str, claim: Claim, blocks: int, n: int) -> list[Row]:
    """The true effect is exactly the threshold: neither word is true."""
    rng = stream("threshold", scale, claim.direction, blocks)
    if scale == "ratio":
        true, pairs = claim.log, log_pairs(rng, n, blocks, claim.log)
    elif scale == "points":
        true = claim.sign * claim.value
        pairs = point_pairs(rng, n, blocks, true)
    else:
        true, pairs = 0.0, zero_pairs(rng, n, blocks, claim.factor)
    found = effects(*pairs, claim)
    what = f"{claim.direction}, {scale}, B = {blocks}"
    rows = [
        at_most(f'False "{word}", the true effect exactly at the threshold', what,
                sum(e.word == word for e in found), n, 0.025)
        for word in ("supported", "falsified")
    ]  # fmt: skip
    if scale != "zero blocks":
        rows.append(within("Coverage of the 95% interval", f"{what}, normal", covered(found, true), n, 0.93, 0.97))
    return rows


def skewed(blocks: int, n: int) -> list[Row]:
    """Coverage where the noise of blocks is exponential: the assumption that the report states."""
    claim = CLAIMS["ratio"][0]
    found = effects(*log_pairs(stream("skew", blocks), n, blocks, 0.02, kind="exponential"), claim)
    what = f"coverage, exponential (skewed) block noise, B = {blocks}"
    return [within(ASSUMED, what, covered(found, 0.02), n, 0.87, 0.93)]


def same_system(blocks: int, n: int) -> list[Row]:
    """A/A: the interval leaves out zero; and a claim of +5% on it is supported."""
    found = effects(*log_pairs(stream("aa", blocks), n, blocks, 0.0), CLAIMS["ratio"][0])
    excluded, claimed = n - covered(found, 0.0), sum(e.word == "supported" for e in found)
    what = f"3% block spread, B = {blocks}"
    return [
        at_most("A/A: two equal arms", f"{what}: the interval leaves out zero", excluded, n, 0.05),
        at_most("A/A: two equal arms", f"{what}: a rise of 5% supported", claimed, n, 0.025),
    ]


def one_block(blocks: int, n: int, share: float) -> list[Row]:
    """How often pure normal noise is flagged as driven by one block."""
    found = effects(*log_pairs(stream("one block", blocks), n, blocks, 0.0), CLAIMS["ratio"][0])
    count = sum("one_block" in e.flags for e in found)
    return [within("Flags on pure noise", f"one_block, B = {blocks}", count, n, share - 0.01, share + 0.01)]


def sign_flip_level(kind: str, blocks: int, n: int) -> list[Row]:
    """The exact test rejects a true centre of symmetric noise in floor(.025·2^B)/2^B of experiments."""
    rows = noise(stream("sign flip", kind, blocks), kind, (n, blocks))
    count = sum(sign_flip_p(d, 0.0, up=True) <= 0.025 for d in rows)
    exact = math.floor(0.025 * 2**blocks) / 2**blocks
    what = f"sign-flip test, {kind} noise, B = {blocks} (exactly {100 * exact:.3g}%)"
    return [at_most("Level of the randomization test", what, count, n, exact)]


def detects(true: float, threshold: float, spread: float, blocks: int, n: int) -> list[Row]:
    """Share of experiments supported, within 3 points of what the plan promises."""
    claim = Claim(threshold, True, "must_rise_by")
    found = effects(*log_pairs(stream("power", true, spread, blocks), n, blocks, math.log1p(true), spread), claim)
    promised = power(math.log1p(true) - claim.log, spread, blocks)
    what = (
        f"+{100 * true:g}% against +{100 * threshold:g}%, s = {spread:g}, B = {blocks} (promised {100 * promised:.1f}%)"
    )
    count = sum(e.word == "supported" for e in found)
    return [within("Power", what, count, n, promised - 0.03, promised + 0.03)]


def bootstrap(blocks: int, n: int, expected: float, resamples: int = 2000) -> list[Row]:
    """What is not done here: a percentile bootstrap over blocks. Its coverage."""
    rng, held = stream("bootstrap", blocks), 0
    for d in SPREAD * rng.standard_normal((n, blocks)):
        means = d[rng.integers(0, blocks, (resamples, blocks))].mean(axis=1)
        lower, upper = np.quantile(means, [0.025, 0.975])
        held += bool(lower <= 0 <= upper)
    what = f"percentile bootstrap over blocks, B = {blocks}"
    return [
        within("What is not done: coverage of other 95% intervals", what, held, n, expected - 0.025, expected + 0.025)
    ]


def pooled(blocks: int, n: int) -> list[Row]:
    """What is not done here: an interval from pooled requests. 1,000 requests a cell with a coefficient of variation of
    .5, whose mean is drawn by a block effect of 3%; only the sums that the interval needs are drawn."""
    rng, requests, variation = stream("pooled", blocks), 1000, 0.5
    error = variation * math.sqrt(2 / requests)
    d = SPREAD * rng.standard_normal((n, blocks)) + error * rng.standard_normal((n, blocks))
    held = int((np.abs(d.mean(axis=1)) <= 1.959964 * error / math.sqrt(blocks)).sum())
    what = f"pooled requests, 3% block spread, 1,000 requests a cell with CV .5, B = {blocks}"
    return [within("What is not done: coverage of other 95% intervals", what, held, n, 0.745, 0.775)]

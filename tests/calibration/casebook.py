"""Casebook 56: samples within a run taken for independent; and a bias for whichever arm runs first.

A/A, 6 runs an arm. A run's mean is N(100, 10), its 1,000 requests N(mean, 1).
"""

from __future__ import annotations

import math

import numpy as np
from benchcard.runner.plan.blocks import plan_blocks
from scipy import stats

from .draws import Claim, Floats, stream
from .effects import ASSUMED, covered, effects
from .table import Row, at_most, within

RUNS, REQUESTS = 6, 1000
GROUP = "Samples within a run are not independent; order is randomized"
RISE = Claim(0.05, True, "must_rise_by")


def runs(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """(mean of a run's requests, variance of its requests): n experiments × 2 arms × 6 runs. Mean and variance of a
    normal sample are drawn from their own distributions, normal and chi-squared, which is the same."""
    shape = (n, 2, RUNS)
    means = rng.normal(100, 10, shape) + rng.standard_normal(shape) / math.sqrt(REQUESTS)
    return means, rng.chisquare(REQUESTS - 1, shape) / (REQUESTS - 1)


def false_alarms(n: int) -> list[Row]:
    """Equal arms: how often each method finds a difference."""
    means, variances = runs(stream("casebook 56"), n)
    found = effects(means[:, 0], means[:, 1], RISE)
    blocks = n - covered(found, 0.0)
    # Welch's test over all 6,000 requests of each arm: total variance = within + between runs
    total = REQUESTS * RUNS
    spread = ((REQUESTS - 1) * variances + REQUESTS * (means - means.mean(axis=2, keepdims=True)) ** 2).sum(axis=2)
    error = np.sqrt((spread / (total - 1) / total).sum(axis=1))
    pooled = int((np.abs(means[:, 1].mean(axis=1) - means[:, 0].mean(axis=1)) > stats.norm.ppf(0.975) * error).sum())
    return [
        at_most(GROUP, "A/A found different, the block as unit", blocks, n, 0.05),
        within(GROUP, "A/A found different, requests pooled (not done)", pooled, n, 0.93, 0.97),
    ]


def first_runs(seed: int, blocks: int) -> list[bool]:
    """Whether the candidate ran first, block by block, in the order that the plan draws."""
    card = {
        "method": {"blocks": blocks, "spare_blocks": 0},
        "arms": {"baseline": {}, "candidate": {}},
        "workload": {"loads": [1.0]},
        "system": {"launch": {"restart": "each_arm_in_block"}, "engine": {"kind": "simulated"}},
    }
    return [block.cells[0].arm == "candidate" for block in plan_blocks(card, seed)]


def order_bias(n: int, spread: float, blocks: int = RUNS) -> tuple[int, int]:
    """Equal arms of which the one that runs first gains 5%: how often the interval leaves out zero in the planned
    random order, and with the baseline always first."""
    rng = stream("order", spread, blocks)
    base = 100 * np.exp(spread * rng.standard_normal((2, n, blocks)) / math.sqrt(2))
    first = np.array([first_runs(seed, blocks) for seed in range(n)])
    randomized = effects(base[0] * np.where(first, 1, 1.05), base[1] * np.where(first, 1.05, 1), RISE)
    fixed = effects(base[0] * 1.05, base[1], RISE)
    return n - covered(randomized, 0.0), n - covered(fixed, 0.0)


def order_rows(n: int) -> list[Row]:
    """With the case's noise (10% a run) and with noise so small that order is most of it: then d is nearly one of two
    values, which is far from normal, and random order turns the bias into spread at a small price."""
    first = "A/A, 5% for whichever arm runs first"
    calm, always = order_bias(n, 0.1 * math.sqrt(2))
    rows = [
        at_most(GROUP, f"{first}, random order, runs spread 10%, B = 6: the interval leaves out zero", calm, n, 0.05),
        within(GROUP, f"{first}, one arm always first (not done), runs spread 10%, B = 6", always, n, 0.08, 0.2),
    ]
    for blocks, high in ((6, 0.08), (8, 0.07)):
        small, always = order_bias(n, 0.02, blocks)
        what = f"{first}, random order, s = 2%, B = {blocks}: the interval leaves out zero"
        rows.append(within(ASSUMED, what, small, n, 0.03, high))
        what = f"{first}, one arm always first (not done), s = 2%, B = {blocks}"
        rows.append(within(GROUP, what, always, n, 0.9, 1.0))
    return rows

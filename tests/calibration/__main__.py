"""Calibrate the analysis: thousands of synthetic experiments with a known truth through its own code.

    python -m tests.calibration [--out reports/CALIBRATION.md] [--share 1.0]

Prints the table and writes it; exits 1 where a bound is broken. Takes some minutes on two cores. `--share` runs that
share of the experiments (for a quick look; nothing is written then).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from benchcard.schema.digest import tree_digest

from . import casebook, effects, guards, verdicts, whole
from .draws import SEED, Claim
from .table import RARE, Row, markdown

ROOT = Path(__file__).parents[2]
#: experiments in a set; of verdicts, which cost more; of bootstraps; of whole runs
MANY, VERDICTS, BOOTSTRAPS, WHOLE = 20_000, 6_000, 4_000, 400
PARTS = 8

INTRO = """# How this analysis was calibrated

Synthetic experiments whose truth is known ({rows} rows, most of them of 20,000), through the code of analysis revision
`{revision}`
(numpy {numpy}, scipy {scipy}, polars {polars}). Seed {seed}; every set of experiments has a stream of its own,
seeded by that and its name. `make calibration` makes this file again, the same to the last count, and fails where a row
does not hold.

How to read it: *observed* is the share of experiments, with its exact 99% interval; rows of one set share its
experiments. *Must be* is the bound, fixed before; only under "What it rests on" and "What is not done" does it describe
what such methods and such noise give, and there some ranges were set after a first simulation had been seen.
Where it is one-sided, *allowed* adds what chance may do: a share
above that comes up once in {rare:,.0f} times if the true rate stands exactly on the bound. B is the number of
blocks, s the spread of the differences over blocks.

What it does not say: the experiments have the noise that they are given. Where block noise is skewed, the interval
holds the truth less often than it says ("What it rests on"); an effect that one block drives is flagged for that.
Blocks that are not independent of each other are in none of these tables: order is randomized for that.

"""

Task = tuple[Callable[..., Any], tuple[Any, ...]]


def tasks(share: float) -> list[Task]:
    """Every set of experiments, in the order of the table."""

    def n(count: int) -> int:
        return max(20, round(count * share))

    out: list[Task] = []
    for scale, claims in effects.CLAIMS.items():
        out += [(effects.at_threshold, (scale, claim, blocks, n(MANY))) for claim in claims for blocks in (6, 8, 16)]
    out += [(effects.skewed, (blocks, n(MANY))) for blocks in (6, 8, 16)]
    out += [(effects.same_system, (blocks, n(MANY))) for blocks in (6, 8, 16)]
    out += [(effects.detects, (*power, n(MANY))) for power in effects.POWERS]
    margins = [Claim(0.03, True, "may_rise_by"), Claim(0.03, True, "may_fall_by"), Claim(0.02, False, "may_rise_by")]
    out += [(guards.at_margin, (margin, blocks, n(MANY))) for margin in margins for blocks in (5, 8, 16)]
    out += [(verdicts.several, (n(VERDICTS), blocks)) for blocks in (6, 8)]
    out += [(verdicts.guarded, (n(VERDICTS), blocks)) for blocks in (6, 8)]
    kinds = [("normal", 6), ("normal", 8), ("laplace", 8), ("normal", 16)]
    out += [(effects.sign_flip_level, (kind, blocks, n(MANY))) for kind, blocks in kinds]
    out += [(effects.one_block, (6, n(MANY), 0.05)), (effects.one_block, (8, n(MANY), 0.01))]
    out += [(casebook.false_alarms, (n(MANY),)), (casebook.order_rows, (n(MANY),))]
    out += [(effects.bootstrap, (*found,)) for found in ((5, n(BOOTSTRAPS), 0.83), (8, n(BOOTSTRAPS), 0.89))]
    out += [(effects.bootstrap, (20, n(BOOTSTRAPS), 0.92)), (effects.pooled, (8, n(MANY)))]
    return out + [(whole.whole_runs, (part, n(WHOLE // PARTS))) for part in range(PARTS)]


def _run(task: Task) -> Any:
    return task[0](*task[1])


def calibrate(share: float) -> list[Row]:
    """All rows, by one process a core."""
    rows, runs = [], []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for task, found in zip(listed := tasks(share), pool.map(_run, listed), strict=True):
            if task[0] is whole.whole_runs:
                runs += found
            else:
                rows += found
    return rows + whole.rows_of(runs)


def document(rows: list[Row], revision: str) -> str:
    """The whole file."""
    import numpy
    import polars
    import scipy

    versions = {"numpy": numpy.__version__, "scipy": scipy.__version__, "polars": polars.__version__}
    head = INTRO.format(rows=len(rows), revision=revision, seed=SEED, rare=1 / RARE, **versions)
    return head + markdown(rows).rstrip("\n") + "\n"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="calibration", description="Calibrate the analysis by simulation.")
    parser.add_argument("--out", type=Path, default=ROOT / "reports" / "CALIBRATION.md")
    parser.add_argument("--share", type=float, default=1.0)
    arguments = parser.parse_args()
    revision = tree_digest(ROOT / "analysis")
    rows = calibrate(arguments.share)
    text = document(rows, revision)
    print(text)
    broken = [row for row in rows if not row.holds]
    for row in broken:
        print(f"does not hold: {row.group}: {row.what}: {row.cells()[3]}, allowed {row.cells()[6]}", file=sys.stderr)
    if arguments.share >= 1:
        arguments.out.write_text(text)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

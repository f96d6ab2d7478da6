"""Guards alone, at the fewest blocks that carry one and above."""

from __future__ import annotations

from benchcard.analysis.guards import guard

from .draws import Claim, log_pairs, point_pairs, stream
from .table import Row, at_most

GROUP = "Guards, the true change exactly at the margin"


def at_margin(guarded: Claim, blocks: int, n: int) -> list[Row]:
    """Passing and regressing are each a mistake here."""
    rng = stream("guard", guarded, blocks)
    if guarded.relative:
        baseline, candidate = log_pairs(rng, n, blocks, guarded.log)
    else:
        baseline, candidate = point_pairs(rng, n, blocks, guarded.sign * guarded.value)
    words = [
        guard(b, c, margin=guarded.value, relative=guarded.relative, direction=guarded.direction).word
        for b, c in zip(baseline.tolist(), candidate.tolist(), strict=True)
    ]
    what = f"{guarded.direction}, {'ratio' if guarded.relative else 'points'}, B = {blocks}"
    return [at_most(GROUP, f'{what}: "{word}"', words.count(word), n, 0.05) for word in ("pass", "regressed")]

"""From block values to the verdict's word: claim, guards, several loads, precedence. Nothing but events is left out.

The values of each block stand where a reading of raw events would have put them; what follows is the analysis's own.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from benchcard.analysis.cells import BlockResult, Reading
from benchcard.analysis.claim import load_effects
from benchcard.analysis.decide import Verdict, decide
from benchcard.analysis.guard_rows import guard_rows
from benchcard.analysis.read import Block, Cell

from ..analysis.bundles import ab_card
from .draws import Claim, Floats, log_pairs, stream
from .table import Row, at_most

CLAIM = Claim(0.05, True, "must_rise_by")
GUARD = Claim(0.03, True, "may_rise_by")
GUARDED = ("tpot.p50", "e2e.p50")
GROUP = "The verdict's word, several loads and guards (B = {})"

#: both arms' values of a metric at a load: (metric, load point) -> (baseline, candidate), a row an experiment
Values = dict[tuple[str, int], tuple[Floats, Floats]]


def card_of(blocks: int, loads: int, scope: str, guards: int) -> dict[str, Any]:
    """A card with a claim on goodput at every load and guards at the first."""
    margin = {"value": GUARD.value, "scale": "relative"}
    at = [10.0 * (i + 1) for i in range(loads)]
    card = ab_card(workload__loads=at, method__blocks=blocks, evidence=[])
    card["claim"] |= {"at": at, "scope": scope}
    card["guards"] = [
        {"metric": metric, "direction": "may_rise_by", "margin": margin, "at": at[:1]} for metric in GUARDED[:guards]
    ]
    return card


def reading_of(card: dict[str, Any], values: Values, experiment: int) -> Reading:
    """A reading with these values in its cells, and no request that failed or fell short."""
    blocks = []
    for number in range(1, card["method"]["blocks"] + 1):
        cells = []
        for point, load in enumerate(card["workload"]["loads"], start=1):
            for side, arm in enumerate(("baseline", "candidate")):
                found = {
                    metric: SimpleNamespace(value=float(both[side][experiment, number - 1]))
                    for (metric, at), both in values.items()
                    if at == point
                }
                cells.append(_Cell(Cell(f"b{number}-{arm}-l{point}", number, arm, point, load), found))
        planned = Block(number, False, tuple(cell.cell for cell in cells))
        blocks.append(BlockResult(planned, cast(Any, tuple(cells)), True, None, None))
    bundle = cast(Any, SimpleNamespace(card=card))
    return Reading(bundle, tuple(blocks), len(blocks))


class _Cell(SimpleNamespace):
    """What the rules read of a cell."""

    def __init__(self, cell: Cell, values: dict[str, Any]) -> None:
        judgement = SimpleNamespace(attempted=100, good=None, outcomes={"ok": 100})
        super().__init__(cell=cell, values=values, judgement=judgement, short=0, failed_checks=[])

    def of(self, _: str | None) -> _Cell:
        return self


def judge(reading: Reading) -> Verdict:
    """The verdict of a reading."""
    return decide(reading, load_effects(reading), guard_rows(reading), [], [], {})


def _words(name: str, n: int, blocks: int, scope: str, true: list[float], guards: list[float]) -> list[Verdict]:
    """Verdicts of n experiments with these true log ratios at each load, and these of each guard."""
    rng = stream(name, blocks)
    card = card_of(blocks, len(true), scope, len(guards))
    values: Values = {("goodput", i): log_pairs(rng, n, blocks, d) for i, d in enumerate(true, start=1)}
    values |= {(GUARDED[i], 1): log_pairs(rng, n, blocks, d) for i, d in enumerate(guards)}
    return [judge(reading_of(card, values, i)) for i in range(n)]


def several(n: int, blocks: int) -> list[Row]:
    """Two loads, both exactly at the threshold, or one of them far above it; two equal arms."""
    group, at = GROUP.format(blocks), CLAIM.log

    def row(what: str, found: list[Verdict], word: str, rate: float) -> Row:
        return at_most(group, f'{what}: "{word}"', sum(v.word == word for v in found), n, rate)

    both = _words("every load", n, blocks, "every_load", [at, at], [])
    one = _words("every load, one above", n, blocks, "every_load", [at, at + 0.3], [])
    some = _words("some load", n, blocks, "some_load", [at, at], [])
    equal = _words("turn", n, blocks, "every_load", [0.0, 0.0], [])
    return [
        row("every load, both at the threshold", both, "supported", 0.025),
        row("every load, both at the threshold (2.5% a load)", both, "falsified", 0.05),
        row("every load, one at the threshold and one far above", one, "supported", 0.025),
        row("some load, both at the threshold (Holm)", some, "supported", 0.025),
        row("some load, both at the threshold", some, "falsified", 0.025),
        row("two equal arms at two loads", equal, "mixed", 0.001),
    ]


def guarded(n: int, blocks: int) -> list[Row]:
    """A claim that is true by far, and guards whose true change is exactly their margin."""
    group, far, limit = GROUP.format(blocks), CLAIM.log + 0.5, GUARD.log
    one = _words("one guard", n, blocks, "loads", [far], [limit])
    two = _words("two guards", n, blocks, "loads", [far], [limit, limit])
    mixed = _words("two guards, one kept", n, blocks, "loads", [far], [limit, limit - 0.5])
    return [
        at_most(group, f'{what}: "{word}"', sum(v.word == word for v in found), n, 0.05)
        for what, found in (
            ("one guard at its margin", one),
            ("two guards at their margins (Holm)", two),
            ("one guard at its margin, one kept by far", mixed),
        )
        for word in ("supported", "falsified")
    ]

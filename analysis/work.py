"""Did both arms do the same work? A latency improves by failing slow requests, anything by returning less than asked.

These findings keep a verdict from `supported`; they falsify nothing, since the claim itself may well be true.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from . import wording
from .cells import CellResult, Reading
from .populations import Part

#: the candidate may fail this share of attempts more than the baseline, under a latency claim without a guard on
#: error_rate
FAILED_MORE = 0.005
#: the arms' shares of replies shorter than asked may differ by this much
SHORT_APART = 0.01

#: (code, text)
Inequality = tuple[str, str]


def unequal_work(reading: Reading) -> list[Inequality]:
    """What the arms did unequally at the claim's loads, over the used blocks; where the claim is about a population, of
    its requests."""
    card = reading.bundle.card
    claim = card["claim"]
    named = wording.of(claim["metric"], claim.get("population"))
    loads = [float(load) for load in card["workload"]["loads"]]
    found: list[Inequality] = []
    guarded = {
        float(at)
        for row in card.get("guards") or []
        if row["metric"] == "error_rate" and row.get("population") == claim.get("population")
        for at in row.get("at") or claim["at"]
    }
    for at in (float(load) for load in claim["at"]):
        point = loads.index(at) + 1
        arms = [
            [cell.of(claim.get("population")) for cell in reading.used(arm, point)] for arm in ("baseline", "candidate")
        ]
        where = wording.load(at, str(card["workload"]["load_kind"]))
        failed = [_share(cells, _failed) for cells in arms]
        if "." in claim["metric"] and at not in guarded and failed[1] > failed[0] + FAILED_MORE:
            text = (
                f"at {where} the candidate failed {failed[1]:.1%} of its attempts and the baseline {failed[0]:.1%}; "
                f"{named} is of ok attempts only, and no guard on error_rate watches the rest"
            )
            found.append(("failures_differ", text))
        short = [_share(cells, lambda cell: cell.short) for cells in arms]
        if abs(short[1] - short[0]) > SHORT_APART:
            text = (
                f"at {where} {short[1]:.1%} of the candidate's attempts and {short[0]:.1%} of the baseline's returned "
                "fewer tokens than were asked for: the arms did not do the same work"
            )
            found.append(("unequal_work", text))
    return found


def _failed(cell: CellResult | Part) -> int:
    return cell.judgement.attempted - cell.judgement.outcomes.get("ok", 0)


def _share(cells: Sequence[CellResult | Part], count: Callable[[CellResult | Part], int]) -> float:
    attempted = sum(cell.judgement.attempted for cell in cells)
    return sum(count(cell) for cell in cells) / attempted if attempted else 0.0

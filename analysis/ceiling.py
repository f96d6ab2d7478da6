"""Ceilings: where the baseline left no room for the improvement that the card claims.

A share of requests (attainment, and goodput under an open loop, where both arms are offered the same requests) cannot
rise above 1, and an error rate cannot fall below 0. If in every block the baseline is so near its end that the claimed
change could not have been reached, the experiment could not have supported its claim, whatever the candidate does. The
verdict's word stays what the interval says; this is said beside it.
"""

from __future__ import annotations

from typing import Any

from . import wording
from .cells import Reading
from .records import Record

#: the room is compared with the threshold up to rounding
_ROUNDING = 1e-12


def ceiling(reading: Reading, load_point: int) -> Record | None:
    """The ceiling at a load, or None where there was room (or the metric has no end).

    `baseline` and `candidate`: the smallest share of good attempts over the blocks (for an error rate: the largest
    error rate); `possible`: the largest change towards the claim that any block could have shown, a fraction of the
    baseline where the threshold is relative, else in the metric's unit; `text`: the same in words.
    """
    claim = reading.bundle.card["claim"]
    shares = _shares(reading, claim, load_point)
    if shares is None:
        return None
    baseline, candidate = shares
    relative, value = claim["threshold"]["scale"] == "relative", float(claim["threshold"]["value"])
    if claim["metric"] == "error_rate":
        worst = max(baseline)
        if relative or worst >= value * (1 - _ROUNDING):
            return None
        found = {"baseline": worst, "candidate": max(candidate), "possible": worst}
        return found | {"text": _floor_text(worst)}
    least = min(baseline)
    possible = 1 / least - 1 if relative and least else 1 - least
    if (relative and not least) or possible >= value * (1 - _ROUNDING):
        return None
    found = {"baseline": least, "candidate": min(candidate), "possible": possible}
    return found | {"text": _text(found, relative)}


def _shares(reading: Reading, claim: Record, load_point: int) -> tuple[list[float], list[float]] | None:
    """Each arm's share, block by block: good attempts, or failed ones; None where the claim has no end or no value."""
    metric, direction = str(claim["metric"]), str(claim["direction"])
    open_loop = reading.bundle.card["workload"]["load_kind"] == "rate"
    ends = {"attainment": direction == "must_rise_by", "goodput": direction == "must_rise_by" and open_loop}
    ends["error_rate"] = direction == "must_fall_by"
    if not ends.get(metric):
        return None
    both: list[list[float]] = []
    for arm in ("baseline", "candidate"):
        shares = []
        for cell in reading.used(arm, load_point):
            judged: Any = cell.of(claim.get("population")).judgement
            if not judged.attempted or (judged.good is None and metric != "error_rate"):
                return None
            count = judged.attempted - judged.outcomes.get("ok", 0) if metric == "error_rate" else judged.good
            shares.append(count / judged.attempted)
        both.append(shares)
    return (both[0], both[1]) if both[0] and both[1] else None


def _text(found: Record, relative: bool) -> str:
    if found["baseline"] == found["candidate"] == 1.0:
        return "both arms met every objective: no gain was possible"
    if found["baseline"] == 1.0:
        return "the baseline met every objective: no gain was possible"
    rise = wording.up(100 * found["possible"]) + ("%" if relative else " pt")
    least = wording.down(100 * found["baseline"])
    met = f"the baseline met at least {least}% of its requests in every block"
    return f"{met}: a rise of more than {rise} was not possible"


def _floor_text(worst: float) -> str:
    if worst == 0.0:
        return "no request of the baseline failed: no fall was possible"
    shown = wording.up(100 * worst)
    failed = f"at most {shown}% of the baseline's requests failed in any block"
    return f"{failed}: a fall of more than {shown} pt was not possible"

"""Outcomes that no data of a card could bring: a claim that the baseline leaves no room for, one that nothing could
falsify, a guard that can never be judged. Pure: from what a pilot or virtual time showed of each block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...schema.quantity import format_quantity


@dataclass(frozen=True)
class OutOfReach:
    """An outcome that cannot come: what was seen, and the change that would mend the card."""

    seen: str
    mend: str


def out_of_reach(card: dict[str, Any], found: dict[str, Any], source: str) -> list[OutOfReach]:
    """What is out of reach by `found` (a pilot.json, or the same from virtual time; `source` names it).

    A claim at some load is out of reach only if it is so at every claimed load.
    """
    claims = [row for row in found["differences"] if row["kind"] == "claim"]
    each = [_claim(card, row, found["baseline"], source) for row in claims]
    stuck = [one for one in each if one is not None]
    if card["claim"]["scope"] == "some_load" and len(stuck) < len(each):
        stuck = []
    guards = [row for row in found["differences"] if row["kind"] == "guard" and _undefined(row)]
    return stuck + [
        OutOfReach(
            f"the guard on {row['metric']} at {_load(card, row['load'])} can never pass: in {source} it was undefined "
            f"in every block ({row['reason']}), and a claim needs every guard",
            "guard a metric that this workload has",
        )
        for row in guards
    ]


def room(card: dict[str, Any], shares: Sequence[float | None]) -> float | None:
    """The largest change (in the threshold's own scale) that is left below the metric's ceiling, by the mean over
    blocks as the verdict takes it; None where there is no ceiling or none is known."""
    known = [share for share in shares if share is not None]
    if not known or len(known) < len(shares):
        return None
    if card["claim"]["threshold"]["scale"] != "relative":
        return sum(1 - share for share in known) / len(known)
    if min(known) <= 0:
        return math.inf
    return math.expm1(sum(-math.log(share) for share in known) / len(known))


def _undefined(row: dict[str, Any]) -> bool:
    return bool(row["blocks"]) and row["mean"] is None and all(value is None for value in row["baseline"])


def _claim(card: dict[str, Any], row: dict[str, Any], baseline: list[dict[str, Any]], source: str) -> OutOfReach | None:
    claim = card["claim"]
    metric, at, threshold = claim["metric"], _load(card, row["load"]), claim["threshold"]
    if not row["blocks"]:
        return None
    if _undefined(row):
        return OutOfReach(
            f"neither outcome can come at {at}: in {source} {metric} was undefined in every block ({row['reason']})",
            "claim a metric that this workload has",
        )
    values = [float(value) for value in row["baseline"] if value is not None]
    wanted = format_quantity("change", threshold)
    if claim["direction"] == "must_rise_by":
        if threshold["scale"] == "relative" and not any(values):
            return OutOfReach(
                f"nothing could falsify the claim at {at}: in {source} {metric} of the baseline was 0 in every block, "
                f"and no candidate can have less than {wanted} more than that",
                "claim at a lower load, or with objectives that the baseline meets at times",
            )
        return _ceiling(card, row, baseline, source)
    if threshold["scale"] == "relative" and not any(values):
        return OutOfReach(
            f"the claim is out of reach at {at}: in {source} {metric} of the baseline was 0 in every block, and "
            "nothing can fall below that",
            "claim at a higher load, or another metric",
        )
    if threshold["scale"] != "relative" and sum(values) / len(values) <= threshold["value"]:
        seen = format_quantity("change", {"value": _rounded(sum(values) / len(values)), "scale": "points"})
        return OutOfReach(
            f"the claim is out of reach at {at}: in {source} {metric} of the baseline was {seen} on average, so it "
            f"cannot fall by more than {wanted}",
            "claim at a higher load, or a smaller fall",
        )
    return None


def _ceiling(
    card: dict[str, Any], row: dict[str, Any], baseline: list[dict[str, Any]], source: str
) -> OutOfReach | None:
    claim, at = card["claim"], _load(card, row["load"])
    here = next(line for line in baseline if line["load"] == row["load"])
    left = room(card, here["share_of_ceiling"])
    if left is None or left > claim["threshold"]["value"]:
        return None
    scale = {"scale": claim["threshold"]["scale"]}
    most, wanted = (
        format_quantity("change", scale | {"value": value}) for value in (_rounded(left), claim["threshold"]["value"])
    )
    what = "answered" if claim["metric"] == "request_throughput" else "met every objective in"
    seen = (
        f"the claim is out of reach at {at}: in {source} the baseline already {what} "
        f"{_range(here['share_of_ceiling'])} of the requests, so {claim['metric']} can rise by {most} "
        f"at most, and must rise by more than {wanted}"
    )
    expect = (card["power"] or {}).get("expect") or claim["threshold"]["value"]
    others = [
        line
        for line in baseline
        if line["load"] != row["load"] and (room(card, line["share_of_ceiling"]) or 0.0) > max(expect, 0.0)
    ]
    if others:
        load = _load(card, others[0]["load"])
        mend = f"claim.at: [{load}], where it did so in {_range(others[0]['share_of_ceiling'])}"
    else:
        mend = f"a higher load, tighter objectives, or a threshold below {most}"
        if _rounded(left) == 0:
            mend = "a higher load or tighter objectives"
    return OutOfReach(seen, mend)


def _rounded(value: float) -> float:
    return float(f"{value:.2g}")


def _range(shares: Sequence[float | None]) -> str:
    known = [share for share in shares if share is not None]
    low, high = f"{min(known):.1%}", f"{max(known):.1%}"
    return low if low == high else f"{low} to {high}"


def _load(card: dict[str, Any], load: float) -> str:
    rate = card["workload"]["load_kind"] == "rate"
    return f"{load:.4g} req/s" if rate else f"concurrency {load:g}"

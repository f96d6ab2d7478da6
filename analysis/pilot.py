"""A pilot's bundle -> pilot.json: what the next plan needs, and no verdict word.

Of the claim and of each guard at each of its loads: the differences between the arms, block by block, on the scale
that the verdict would use, their mean and standard deviation. Of the baseline at each load: how near the claim's metric
is to its ceiling. Of the whole: the seconds that a block takes, server starts included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from . import output
from .cells import Reading
from .claim import pairs
from .effect import differences
from .records import BundleError, Record
from .tables import block_rows, validity

#: 1: first.
PILOT_VERSION = 1
#: parts of the resolved card that the spread belongs to: another system, workload or objective has another one
MATTERS = ("system", "arms", "workload", "objectives")
#: what a metric is at most, as a share of something that the cell has; `None` where it has no ceiling
_CEILINGS = {"goodput": "attainment", "attainment": "attainment", "request_throughput": "error_rate"}


def pilot(reading: Reading) -> Record:
    """Everything pilot.json says."""
    bundle, card = reading.bundle, reading.bundle.card
    if card["kind"] != "ab":
        raise BundleError("a pilot is for an ab card: a baseline has no differences")
    return {
        "pilot_version": PILOT_VERSION,
        **output.header(card, bundle.plan, bundle.run),
        "blocks_used": sum(block.used for block in reading.blocks),
        "differences": [*_claim(reading), *_guards(reading)],
        "baseline": [_baseline(reading, point) for point in range(1, len(card["workload"]["loads"]) + 1)],
        "seconds_a_block": seconds_a_block(reading),
        "matters": {key: card.get(key) for key in MATTERS},
        "blocks": block_rows(reading.blocks),
        "validity": validity(reading),
    }


def _claim(reading: Reading) -> Iterator[Record]:
    claim = reading.bundle.card["claim"]
    for at in claim["at"]:
        yield _differences(reading, claim, float(at), "claim", claim["threshold"])


def _guards(reading: Reading) -> Iterator[Record]:
    card = reading.bundle.card
    for row in card.get("guards") or []:
        for at in row.get("at") or card["claim"]["at"]:
            yield _differences(reading, row, float(at), "guard", row["margin"])


def _differences(reading: Reading, row: Record, load: float, kind: str, limit: Record) -> Record:
    loads = [float(at) for at in reading.bundle.card["workload"]["loads"]]
    point = loads.index(load) + 1
    both = pairs(reading, row["metric"], point, row.get("population"))
    out: dict[str, Any] = {
        "kind": kind, "metric": row["metric"], "population": row.get("population"), "load_point": point,
        "load": load, "blocks": len(both.blocks), "scale": None, "d": [], "mean": None, "stdev": None, "df": None,
        "baseline": list(both.baseline), "candidate": list(both.candidate), "reason": both.reason,
    }  # fmt: skip
    if both.reason is not None:
        return out
    baseline, candidate = both.numbers()
    relative = limit["scale"] == "relative"
    scale, d, _ = differences(baseline, candidate, float(limit["value"]), relative, row["direction"])
    out |= {"scale": scale, "d": d.tolist(), "mean": float(np.mean(d))}
    if scale == "scaled":
        return out | {"reason": "zero in some block, so there is no log ratio to take a spread of"}
    if len(d) < 2:
        return out | {"reason": f"{len(d)} valid block; a spread needs 2"}
    return out | {"stdev": float(np.std(d, ddof=1)), "df": len(d) - 1}


def _baseline(reading: Reading, point: int) -> Record:
    """The baseline at a load: the claim's metric in each block, and its share of what it could be at most."""
    card = reading.bundle.card
    claim = card["claim"]
    metric, population = claim["metric"], claim.get("population")
    shares: Sequence[float | None] = []
    of = _CEILINGS.get(metric)
    # in a closed loop a faster system is asked for more: only a share of its requests has a ceiling there
    if of is not None and (metric == "attainment" or card["workload"]["load_kind"] == "rate"):
        found = pairs(reading, of, point, population).baseline
        shares = [None if x is None else 1 - x for x in found] if of == "error_rate" else found
    return {
        "load_point": point,
        "load": float(card["workload"]["loads"][point - 1]),
        "attainment": list(pairs(reading, "attainment", point, population).baseline),
        "value": list(pairs(reading, metric, point, population).baseline),
        "share_of_ceiling": list(shares),
    }


def seconds_a_block(reading: Reading) -> float | None:
    """Mean time from the end of one block's last cell to that of the next, by the attempt log; None in virtual time,
    and where no block was run in one sitting."""
    log = reading.bundle.log
    if any(line.get("virtual") for line in log):
        return None
    last = {block.block.cells[-1].cell for block in reading.blocks if block.block.cells}
    begun: datetime | None = None
    found = []
    for line in log:
        at = datetime.fromisoformat(line["time"]) if line.get("time") else None
        if line.get("kind") == "calibrated":
            begun = at
        elif line.get("kind") == "cell_ended" and line.get("cell") in last and at is not None:
            if begun is not None:
                found.append((at - begun).total_seconds())
            begun = at
        elif line.get("kind") == "run_resumed":
            begun = None
    return float(np.mean(found)) if found else None

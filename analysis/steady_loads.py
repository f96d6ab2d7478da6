"""Steady state over blocks: for each arm and load a t interval of the cells' drifts, against the card's `drift_within`.

Wholly outside ±`drift_within`: the load drifts, and what stands on it is invalid. Inside: steady. Across it, or too few
blocks or requests: not established, a condition. A load that the card does not name is a finite window: its drift is
shown, and has no word. A block without a drift is never dropped: it leaves the load's interval undefined. No block is
replaced for a drift: a cell's drift says little, and replacing by it would select the blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from . import wording
from .cells import CellResult, Reading
from .effect import MIN_BLOCKS, t_interval
from .records import Record
from .steady import MIN_REQUESTS
from .tables import arms_and_loads

STEADY, DRIFTS, OPEN = "steady", "drifts", "not established"
#: why an effect or a guard at a load that drifts has no word
INVALID_LOAD = "the load is invalid, since TTFT drifts there"


def steady_rows(reading: Reading) -> list[Record]:
    """verdict.json's steady_state: one row an arm and load, with what each used cell gave."""
    card = reading.bundle.card
    declared = card["validity"].get("steady_state") or {"at": [], "drift_within": None}
    confidence = float(card["analysis"]["confidence"])
    named = [float(load) for load in declared["at"]]
    rows = []
    for arm, point, load in arms_and_loads(reading):
        cells = reading.used(arm, point)
        row = _row(cells, declared["drift_within"] if load in named else None, confidence)
        if row["word"] is not None and not reading.complete:
            row |= {"word": OPEN, "reason": "the run is invalid"}
        rows.append({"arm": arm, "load_point": point, "load": load, **row, "cells": [_cell(cell) for cell in cells]})
    return rows


def _row(cells: Sequence[CellResult], within: float | None, confidence: float) -> Record:
    """The interval over blocks, its word against `within` (None: a finite window), and why there is none."""
    drifts = [cell.steady.drift.value for cell in cells if cell.steady.drift is not None]
    row: Record = {"declared": within is not None, "within": within, "blocks": len(cells), "word": None, "mean": None}
    row |= {"stdev": None, "interval": None, "reason": _no_drift(cells)}
    if row["reason"] is None:
        row["mean"] = float(np.mean(drifts))
        if len(drifts) > 1:
            _, row["stdev"], lower, upper = t_interval(np.asarray(drifts), confidence)
            row["interval"] = [lower, upper]
        if within is not None and len(drifts) < MIN_BLOCKS:
            row["reason"] = f"{wording.count(len(drifts), 'block')}; a word needs {MIN_BLOCKS}"
        elif len(drifts) < 2:
            row["reason"] = "one block has no spread"
    if within is not None:
        row["word"] = OPEN if row["reason"] else word(row["interval"], within)
    return row


def word(interval: Sequence[float], within: float) -> str:
    """What an interval says against ±`within`; one that touches the limit reaches across it."""
    lower, upper = interval
    if lower > within or upper < -within:
        return DRIFTS
    return STEADY if -within < lower and upper < within else OPEN


def _no_drift(cells: Sequence[CellResult]) -> str | None:
    """Why some block has no drift, and what it would take; None where all have one."""
    without = [cell.steady for cell in cells if cell.steady.drift is None]
    if not cells:
        return "no valid block"
    if not without:
        return None
    few = [found.requests for found in without if found.requests < MIN_REQUESTS]
    if not few:
        return str(without[0].reason)
    text = f"{len(few)} of {wording.count(len(cells), 'cell')} {'has' if len(few) == 1 else 'have'} fewer than "
    text += f"{MIN_REQUESTS} requests with a TTFT, which a drift needs (fewest: {min(few)}"
    if not min(few):
        return f"{text})"
    # rounded up: 99 requests ask for a window 1.1 times as long
    return f"{text}; a window {math.ceil(10 * MIN_REQUESTS / min(few)) / 10:g} times as long would hold about as many)"


def _cell(cell: CellResult) -> Record:
    found = cell.steady
    return {
        "cell": cell.cell.cell,
        "block": cell.cell.block,
        "requests": found.requests,
        "undefined": found.undefined,
        "drift": None if found.drift is None else found.drift.value,
        "interval": None if found.drift is None else [found.drift.lower, found.drift.upper],
        "mser_requests": None if found.mser is None else found.mser.requests,
        "mser_statistic": None if found.mser is None else found.mser.statistic,
        "mser_at_boundary": None if found.mser is None else found.mser.at_boundary,
        "reason": found.reason,
    }


def drifting(rows: Sequence[Record]) -> dict[int, list[Record]]:
    """Load point -> the rows of the arms that drift there; nothing that stands on such a load is valid."""
    found: dict[int, list[Record]] = {}
    for row in rows:
        if row["word"] == DRIFTS:
            found.setdefault(int(row["load_point"]), []).append(row)
    return found


def drift_text(row: Record, reading: Reading) -> str:
    """The clause by which a load is invalid: arm, load, drift, interval, limit."""
    card = reading.bundle.card
    return (
        f"no steady state: TTFT of the {row['arm']} at {wording.load(row['load'], card['workload']['load_kind'])} "
        f"drifts by {_shown(row, reading)} over the window, wholly outside the ±{_percent(row['within'])} of the card"
    )


def conditions(reading: Reading, rows: Sequence[Record]) -> list[tuple[str, str, str]]:
    """(name, value, source) of each condition on steady state: declared loads one by one, the others together."""
    kind = str(reading.bundle.card["workload"]["load_kind"])
    others = list(dict.fromkeys(row["load"] for row in rows if not row["declared"]))
    declared = list(dict.fromkeys(row["load"] for row in rows if row["declared"]))
    found = []
    for load in declared:
        arms = [row for row in rows if row["load"] == load]
        words = [row["word"] for row in arms]
        source = "observed" if DRIFTS in words or OPEN not in words else "unknown"
        found.append((f"steady state at {wording.load(load, kind)}", _condition(arms, words, reading), source))
    if not declared:
        text = "not declared: the measured window is a finite window at every load"
        return [("steady state", text, "declared")]
    if others:
        text = "not declared there: the measured window is a finite window"
        found.append((f"steady state at {wording.loads(others, kind)}", text, "declared"))
    return found


def _condition(arms: Sequence[Record], words: Sequence[str], reading: Reading) -> str:
    within = _percent(arms[0]["within"])
    what = f"steady state not established within {within}"
    if DRIFTS in words:
        what = f"no steady state within {within}"
    elif OPEN not in words:
        what = f"steady within {within}"
    return f"{what} ({'; '.join(_arm(row, reading) for row in arms)})"


def _arm(row: Record, reading: Reading) -> str:
    """What one arm showed. Attempts without a first token may be the slowest, so that they are left out is said."""
    said = [f"TTFT drifts by {_shown(row, reading)}"] if row["interval"] else []
    said += [row["reason"]] if row["reason"] else []
    missing = sum(sum(cell["undefined"].values()) for cell in row["cells"])
    said += [f"{wording.count(missing, 'attempt')} without a first token left out"] if missing else []
    return f"{row['arm']}: {', '.join(said)}"


def _shown(row: Record, reading: Reading) -> str:
    """`+3.1% (95% interval −1.2% to +7.4%, 8 blocks)`; as many decimals as it takes that no bound looks like a limit
    that it is not."""
    level = f"{100 * float(reading.bundle.card['analysis']['confidence']):g}%"
    limits = (row["within"], -row["within"])
    decimals = 1
    while decimals < 6 and any(
        f"{100 * bound:.{decimals}f}" == f"{100 * limit:.{decimals}f}" and bound != limit
        for bound in row["interval"]
        for limit in limits
    ):
        decimals += 1
    mean, lower, upper = (wording.signed(f"{100 * x:.{decimals}f}%") for x in (row["mean"], *row["interval"]))
    return f"{mean} ({level} interval {lower} to {upper}, {wording.count(row['blocks'], 'block')})"


def _percent(share: float) -> str:
    return f"{100 * share:.6g}%"

"""The `check` command: the validity of single cells while a run goes on, by the same code that judges the run.

It stays up for the length of a run, since starting a process takes half a second. A question is a line with a cell id,
the answer a line of JSON with the cell's checks. It sees no result but whether the cell counts.
"""

from __future__ import annotations

import json
from typing import TextIO

from .cells import check_rows, read_cell
from .metrics import ALL_METRICS
from .read import Bundle, Cell
from .records import BundleError, Record


def serve(bundle: Bundle, questions: TextIO, answers: TextIO) -> None:
    """Answer until there are no more questions."""
    for line in questions:
        name = line.strip()
        checks = check_rows(read_cell(bundle, _cell(bundle, name)))
        answers.write(json.dumps({"cell": name, "checks": checks}, allow_nan=False))
        answers.write("\n")
        answers.flush()


def cell_values(bundle: Bundle, name: str) -> Record:
    """Every metric of one cell and its checks, by the same code that reads a whole run."""
    found = read_cell(bundle, _cell(bundle, name))
    metrics = [
        {"metric": key, "unit": ALL_METRICS[key].unit, "value": one.value, "n": one.n, "undefined": one.undefined}
        for key, one in found.values.items()
    ]
    outcomes = found.judgement.outcomes
    return {"cell": name, "metrics": metrics, "outcomes": outcomes, "checks": check_rows(found)}


def _cell(bundle: Bundle, name: str) -> Cell:
    cells = {cell.cell: cell for block in bundle.blocks for cell in block.cells}
    if name not in cells:
        raise BundleError(f"check: no cell {name!r} in the plan")
    return cells[name]

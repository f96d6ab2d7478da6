"""The `cell` command: every metric of one cell, by the same code that reads a whole run."""

from __future__ import annotations

from .cells import check_rows, read_cell
from .metrics import ALL_METRICS
from .read import Bundle
from .records import BundleError, Record


def cell_values(bundle: Bundle, name: str) -> Record:
    """A cell's metrics, the outcomes of its counted attempts, and its checks."""
    cells = {cell.cell: cell for block in bundle.blocks for cell in block.cells}
    if name not in cells:
        raise BundleError(f"cell: no cell {name!r} in the plan")
    found = read_cell(bundle, cells[name])
    metrics = [
        {"metric": key, "unit": ALL_METRICS[key].unit, "value": one.value, "n": one.n, "undefined": one.undefined}
        for key, one in found.values.items()
    ]
    outcomes = found.judgement.outcomes
    return {"cell": name, "metrics": metrics, "outcomes": outcomes, "checks": check_rows(found)}

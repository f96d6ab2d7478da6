"""The cells' checks and the run's own, as verdict.json shows them."""

from __future__ import annotations

from collections.abc import Iterable

from .checks import CheckResult
from .read import Cell
from .records import Record

_ADVICE_OPEN = "Resume the run if it was interrupted; plan more spare blocks if cells keep failing a check."
_ADVICE_IDENTITY = (
    "The run was ended because the systems are not the ones that the card declares: start them as declared, or declare "
    "what differs, and run a new card."
)
_ADVICE_ENDED = (
    "The run has ended without a spare block left, so it cannot go on: mend what the failed checks name (or what broke "
    "cells off), or plan more spare blocks, and run the card again."
)


def validity_rows(
    cells: Iterable[tuple[Cell, tuple[CheckResult, ...]]], valid_blocks: int, wanted: int, ended: str | None = None
) -> list[Record]:
    """verdict.json's validity: each check over all cells (the worst observation, and the cells that failed), then the
    run's own: enough valid blocks. `level` says which of the two a row is; `ended`: why the run ended early, with
    nothing to resume."""
    found: dict[str, list[tuple[Cell, CheckResult]]] = {}
    for cell, results in cells:
        for result in results:
            found.setdefault(result.check.name, []).append((cell, result))
    rows = []
    for results_of_check in found.values():
        check = results_of_check[0][1].check
        observed = [r.observed for _, r in results_of_check if r.observed is not None]
        failed = [(cell.cell, r) for cell, r in results_of_check if not r.passed]
        rows.append(
            {
                "name": check.name,
                "level": "cell",
                "passed": not failed,
                "observed": max(observed) if observed else None,
                "limit": results_of_check[0][1].limit,
                "unit": check.unit,
                "where": [name for name, _ in failed],
                "meaning": check.meaning,
                "advice": check.advice,
                "reason": next((r.reason for _, r in failed if r.reason), None),
            }
        )
    rows.append(
        {
            "name": "enough_blocks",
            "level": "run",
            "passed": valid_blocks >= wanted,
            "observed": valid_blocks,
            "limit": wanted,
            "unit": "blocks",
            "where": [],
            "meaning": "blocks in which every cell was run and passed its checks (at least the number on the card)",
            "advice": _advice(ended),
            "reason": None,
        }
    )
    return rows


def _advice(ended: str | None) -> str:
    if ended is None:
        return _ADVICE_OPEN
    return _ADVICE_IDENTITY if ended.startswith("identity: ") else _ADVICE_ENDED

"""Before a cell is measured: the pinned analysis says whether the systems are the ones that the card declares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...schema.digest import digest_file
from ..analysis_process import CellChecks
from ..attempts import AttemptLog
from ..bundle import Bundle
from ..plan.blocks import Cell
from ..progress import Progress

#: a cell of the terminal's table is no wider than this
_WIDEST = 44
#: how the line of the log begins that says why such a run ended
ENDED_BY_IDENTITY = "identity: "
_WHAT_TO_DO = (
    "Start the arms alike in all but the treatment; or declare what differs in a new card: as a flag or variable of "
    "the arms, or under identity.treatment or identity.confounded (benchcard explain identity)"
)


class SystemsDifferError(Exception):
    """A forbidden difference of identity: the run ends, and no spare block helps. Its text says which."""


def require_declared_systems(
    checks: CellChecks, cell: Cell, bundle: Bundle, log: AttemptLog, progress: Progress
) -> None:
    """Ask the pinned analysis about what the identity files show so far. Raises SystemsDifferError where that makes the
    run invalid, after a line in the log and the table on the terminal."""
    rows, texts = checks.identity()
    if not rows:
        return
    why = "; ".join(texts)
    fields, look = sorted({row["field"] for row in rows}), bundle.cell_identity(cell.cell)
    digest = {"identity_sha256": digest_file(look)} if look.exists() else {}
    log.append("identity_refused", cell=cell.cell, why=why, fields=fields, **digest)
    progress.say(f"{cell.cell}: {texts[0]}")
    for line in table(rows):
        progress.say(line)
    progress.say("nothing more is measured: the systems are not the ones that the card declares")
    progress.say(_WHAT_TO_DO)
    raise SystemsDifferError(why)


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The rows as lines of a table: field, expected (where there is any), A (the baseline), B (the candidate)."""
    lines = [["field", "expected", "A: baseline", "B: candidate"]]
    for row in rows:
        values = [row["expected"], row["baseline"], row["candidate"]]
        field = row["field"] if row["cell"] is None else f"{row['field']} ({row['cell']})"
        lines.append([field, *("" if value is None else _cut(value) for value in values)])
    if not any(line[1] for line in lines[1:]):
        lines = [[line[0], *line[2:]] for line in lines]
    widths = [max(len(part) for part in column) for column in zip(*lines, strict=True)]
    return ["  " + "  ".join(part.ljust(width) for part, width in zip(line, widths, strict=True)).rstrip()
            for line in lines]  # fmt: skip


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"

"""The `check` command: the validity of single cells while a run goes on, by the same code that judges the run.

It stays up for the length of a run, since starting a process takes half a second. A question is a line with a cell id,
the answer a line of JSON with the cell's checks; or the word `identity`, and the answer has the forbidden differences
that the identity files show so far. It sees no result but whether the cell counts.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TextIO

from .cells import check_rows, read_cell
from .files import read_log
from .identity import forbidden, gate
from .identity_words import forbidden_texts
from .read import Bundle
from .records import BundleError, Record

#: the question about the identity of the arms; no cell has this name
IDENTITY = "identity"


def serve(bundle: Bundle, questions: TextIO, answers: TextIO) -> None:
    """Answer until there are no more questions."""
    cells = {cell.cell: cell for block in bundle.blocks for cell in block.cells}
    for line in questions:
        name = line.strip()
        if name != IDENTITY and name not in cells:
            raise BundleError(f"check: no cell {name!r} in the plan")
        if name == IDENTITY:
            # The log has grown since: arms may have exchanged places.
            rows = forbidden(gate(replace(bundle, log=read_log(bundle.root / "attempts.jsonl"))))
            answer: Record = {"identity": {"rows": rows, "texts": forbidden_texts(rows)}}
        else:
            answer = {"cell": name, "checks": check_rows(read_cell(bundle, cells[name]))}
        answers.write(json.dumps(answer, allow_nan=False))
        answers.write("\n")
        answers.flush()

"""How long a block takes on the wall clock, from the attempt log: what more blocks would cost.

A block's time runs from the line before its first one (so that the start of its first server is inside it) to the end
of its last cell. Pauses and server starts are counted, calibration and the analysis are not.
"""

from __future__ import annotations

from datetime import datetime
from statistics import median

from .cells import Reading
from .records import Record


def block_seconds(reading: Reading) -> tuple[float | None, str | None]:
    """(median wall time of a used block in seconds, None), or (None, why it is not known)."""
    log = reading.bundle.log
    if any(line.get("virtual") for line in log):
        return None, "the run was played in virtual time"
    times = [_block(reading, log, result.block.block) for result in reading.blocks if result.used]
    known = [time for time in times if time is not None]
    if not known:
        return None, "the log does not say how long a block took" if times else "no valid block"
    return float(median(known)), None


def _block(reading: Reading, log: tuple[Record, ...], number: int) -> float | None:
    """Seconds of one block; None where the log's lines have no times."""
    cells = {cell.cell for block in reading.bundle.blocks if block.block == number for cell in block.cells}
    mine = [i for i, line in enumerate(log) if line.get("cell") in cells or _starts_server(line, number)]
    ends = [i for i in mine if log[i].get("kind") == "cell_ended"]
    if not ends:
        return None
    begin, end = _time(log[max(0, mine[0] - 1)]), _time(log[ends[-1]])
    if begin is None or end is None or end <= begin:
        return None
    return (end - begin).total_seconds()


def _starts_server(line: Record, block: int) -> bool:
    return line.get("kind") == "server_started" and line.get("block") == block


def _time(line: Record) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(line.get("time")))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None

"""What a cold start's result is about, in words: its condition, and how the starts were measured."""

from __future__ import annotations

from collections.abc import Sequence

from . import wording
from .start import NO_START, Started
from .window import NS_PER_S

CONDITION = (
    "cold start: servers were started for each cell; nothing was warmed; this says nothing about serving in steady "
    "state"
)

#: a first start on a machine finds less on its disk than a second one, and nobody takes it away in between
LEFT_ON_DISK = (
    "what earlier starts left on the machine (its file cache, kernels compiled and kept on disk) was neither emptied "
    "nor looked at"
)


def observed(cells: Sequence[Started]) -> str:
    """How well `ready` is known, and what the measured servers did before their first request."""
    known = [cell.start for cell in cells if cell.start is not None]
    since = [(start["ready"] - start["looked"]) / NS_PER_S for start in known if start["looked"] is not None]
    idle = [cell.idle for cell in cells if cell.idle is not None]
    if not known or not idle:
        return f"unknown ({NO_START})"
    first = f"; {len(known) - len(since)} servers were ready at the first look" if len(since) < len(known) else ""
    within = f"known to within {wording.number(1000 * max(since))} ms" if since else "not resolved"
    return (
        f"ready is {within}{first}; until its first request a server was idle for {wording.number(min(idle))} to "
        f"{wording.number(max(idle))} s, which start.first_token leaves out"
    )

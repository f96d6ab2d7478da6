"""The client's clocks: monotonic for every duration, the wall clock only as an anchor."""

from __future__ import annotations

import time

now_ns = time.monotonic_ns


def paired_clocks() -> tuple[int, int]:
    """The monotonic and the wall clock (Unix ns) at the same moment: the tightest of a few tries."""
    best: tuple[int, int, int] | None = None
    for _ in range(8):
        before, wall, after = now_ns(), time.time_ns(), now_ns()
        if best is None or after - before < best[0]:
            best = (after - before, (before + after) // 2, wall)
    assert best is not None
    return best[1], best[2]

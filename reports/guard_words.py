"""A guard's numbers, as the sections and the headline read them."""

from __future__ import annotations

import math

from .read import Json


def as_change(guard: Json, change_key: str, d_key: str, scale: str) -> float | None:
    """The d behind a change: the analysis gives relative changes for people beside d."""
    d: float | None = guard.get(d_key)
    if d is None and guard.get(change_key) is not None and scale == "log":
        return math.log1p(guard[change_key])
    return d

"""The measured window: which phase a request belongs to, by when it was scheduled. Pure."""

from __future__ import annotations

from typing import Any


class Phases:
    """Assigns warmup, measure or drain to requests in the order in which they are scheduled.

    Each of warm-up and measurement is bounded by time or by count. By count, the window runs from the first counted
    start to the first uncounted one. `window_start` and `window_end` are offsets in ns, None until known.
    """

    def __init__(self, window: dict[str, Any]) -> None:
        self._bounds = [("warmup", window["warmup"]), ("measure", window["measure"])]
        self._start_index = 0
        self._start_ns = 0
        self.window_start: int | None = None
        self.window_end: int | None = None

    def of(self, index: int, offset_ns: int) -> str:
        """The phase of the request with this index, scheduled at this offset from the cell's start."""
        while self._bounds:
            name, bound = self._bounds[0]
            if "requests" in bound:
                inside = index < self._start_index + bound["requests"]
                end_ns = offset_ns
            else:
                end_ns = self._start_ns + round(bound["seconds"] * 1e9)
                inside = offset_ns < end_ns
            if name == "measure" and self.window_start is None:
                # By count the window begins with the first counted request, by time where the warm-up ended.
                self.window_start = offset_ns if "requests" in bound else self._start_ns
                self.window_end = None if "requests" in bound else end_ns
            if inside:
                return str(name)
            if name == "measure":
                self.window_end = end_ns
            self._bounds.pop(0)
            self._start_index, self._start_ns = index, end_ns
        return "drain"

"""The measured window: which phase a request belongs to, by when it was scheduled. Pure."""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import Any

#: what Phases remembers, one integer each; _UNKNOWN is 'not known yet'
_STAGE, _FIRST_INDEX, _FIRST_NS, _WINDOW_START, _WINDOW_END = range(5)
STATE_SIZE = 5
_UNKNOWN = -1
_NAMES = ("warmup", "measure", "drain")


def fresh_state() -> list[int]:
    """The state before the first request."""
    return [0, 0, 0, _UNKNOWN, _UNKNOWN]


class Phases:
    """Assigns warmup, measure or drain to requests in the order in which they are scheduled.

    Each of warm-up and measurement is bounded by time or by count. By count, the window runs from the first counted
    start to the first uncounted one. `window_start` and `window_end` are offsets in ns, None until known. The state is
    a sequence of integers of the caller's, so that processes can share it.
    """

    def __init__(self, window: dict[str, Any], state: MutableSequence[int] | None = None) -> None:
        self._bounds = (window["warmup"], window["measure"])
        self._state = fresh_state() if state is None else state

    @property
    def window_start(self) -> int | None:
        """When the measured window begins, offset in ns."""
        return self._known(_WINDOW_START)

    @property
    def window_end(self) -> int | None:
        """When the measured window ends, offset in ns."""
        return self._known(_WINDOW_END)

    def of(self, index: int, offset_ns: int) -> str:
        """The phase of the request with this index, scheduled at this offset from the cell's start.

        Where the window is a time, the offset alone decides once the window has begun: clients of several workers may
        take up requests in another order than they are scheduled in.
        """
        state = self._state
        if "seconds" in self._bounds[1] and state[_WINDOW_START] != _UNKNOWN:
            if offset_ns < state[_WINDOW_START]:
                return _NAMES[0]
            return _NAMES[1 if offset_ns < state[_WINDOW_END] else 2]
        while state[_STAGE] < len(self._bounds):
            bound = self._bounds[state[_STAGE]]
            by_count, measuring = "requests" in bound, state[_STAGE] == 1
            if by_count:
                inside = index < state[_FIRST_INDEX] + bound["requests"]
                end_ns = offset_ns
            else:
                end_ns = state[_FIRST_NS] + round(bound["seconds"] * 1e9)
                inside = offset_ns < end_ns
            if measuring and state[_WINDOW_START] == _UNKNOWN:
                # By count the window begins with the first counted request, by time where the warm-up ended.
                state[_WINDOW_START] = offset_ns if by_count else state[_FIRST_NS]
                state[_WINDOW_END] = _UNKNOWN if by_count else end_ns
            if inside:
                return _NAMES[state[_STAGE]]
            if measuring:
                state[_WINDOW_END] = end_ns
            state[_STAGE] += 1
            state[_FIRST_INDEX], state[_FIRST_NS] = index, end_ns
        return _NAMES[-1]

    def _known(self, field: int) -> int | None:
        value = self._state[field]
        return None if value == _UNKNOWN else value

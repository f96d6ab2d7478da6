"""Open and closed loops: when each request starts. One absolute schedule; a late one is sent at once, and its delay
shows."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..alarm import Alarm
from ..plan.requests import PlannedRequest
from ..plan.window import Phases
from .attempt import Attempt
from .clock import now_ns

#: A client of a closed loop whose attempt got no 200 waits this long before its next request, or a server that is dead
#: or refuses at once would draw the whole plan in a second.
FAILED_PAUSE_NS = 100_000_000

Send = Callable[[Attempt], None]


@dataclass(frozen=True)
class LoadSpec:
    """What a load point asks for. `concurrency` None is an open loop."""

    window: dict[str, Any]
    requests: list[PlannedRequest]
    concurrency: int | None
    think_time_ns: int


class Load:
    """Starts the planned requests, follows the counted ones to their end, and keeps the load up meanwhile.

    `start_ns` is the monotonic time of offset zero. `finished` is set when the last counted attempt has ended.
    """

    def __init__(self, spec: LoadSpec, send: Send, start_ns: int) -> None:
        self._spec = spec
        self._send = send
        self._start = start_ns
        self._phases = Phases(spec.window)
        self._alarm = Alarm(asyncio.get_running_loop(), self._fire)
        self._taken = 0
        self._counted_open = 0
        self._all_counted_started = False
        self.plan_exhausted = False
        self.finished = asyncio.Event()
        # A heap of (due, index, request). An open loop's is sorted from the start.
        self._due: list[tuple[int, int, PlannedRequest]] = []
        self._waiting: list[deque[PlannedRequest]] = []
        if spec.concurrency is None:
            self._due = [(start_ns + (request.offset_ns or 0), request.index, request) for request in spec.requests]
        else:
            self._waiting = [deque(spec.requests[client :: spec.concurrency]) for client in range(spec.concurrency)]
            for client in range(spec.concurrency):
                self._client_free(client, start_ns)
        self._arm()

    @property
    def window(self) -> tuple[int | None, int | None]:
        """Start and end of the measured window, monotonic ns; None where it was not reached."""
        start, end = self._phases.window_start, self._phases.window_end
        return (None if start is None else self._start + start, None if end is None else self._start + end)

    def done(self, attempt: Attempt) -> None:
        """An attempt has ended: in a closed loop its client is free; the last counted one ends the load."""
        if attempt.phase == "measure":
            self._counted_open -= 1
        if self._spec.concurrency is not None and attempt.client is not None and not self.finished.is_set():
            pause = 0 if attempt.status == 200 else FAILED_PAUSE_NS
            self._client_free(attempt.client, (attempt.end or now_ns()) + self._spec.think_time_ns + pause)
            self._arm()
        self._check_finished()

    def stop(self) -> None:
        """Start nothing more."""
        if not self.finished.is_set():
            self.finished.set()
            self._alarm.close()

    def _client_free(self, client: int, when_ns: int) -> None:
        if self._waiting[client]:
            request = self._waiting[client].popleft()
            heapq.heappush(self._due, (when_ns, request.index, request))
        elif not self._all_counted_started:
            self.plan_exhausted = True
            self.stop()

    def _arm(self) -> None:
        if self.finished.is_set():
            return
        if self._due:
            self._alarm.set(self._due[0][0])
        elif self._spec.concurrency is None:
            self._all_counted_started = True
            self._check_finished()

    def _fire(self) -> None:
        while self._due and not self.finished.is_set():
            now = now_ns()
            if self._due[0][0] > now:
                break
            scheduled, _, request = heapq.heappop(self._due)
            phase = self._phases.of(self._taken, scheduled - self._start)
            if phase == "drain":
                self._all_counted_started = True
                self._check_finished()
                if self.finished.is_set():
                    return
            self._taken += 1
            self._counted_open += phase == "measure"
            self._send(Attempt(request.index, phase, scheduled, now, request.client))
        self._arm()

    def _check_finished(self) -> None:
        if self._all_counted_started and self._counted_open == 0:
            self.stop()

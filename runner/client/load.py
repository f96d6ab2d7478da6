"""Open and closed loops: when each request starts. One absolute schedule; a late one is sent at once, and its delay
shows. Each worker starts its own share of the schedule; the board (board.py) holds what they must agree on."""

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
from .board import Board
from .clock import now_ns

#: A client of a closed loop whose attempt got no 200 waits this long before its next request, or a server that is dead
#: or refuses at once would draw the whole plan in a second.
FAILED_PAUSE_NS = 100_000_000

Send = Callable[[Attempt], None]


@dataclass(frozen=True)
class LoadSpec:
    """What a load point asks for. `concurrency` None is an open loop. `requests[i]` has the index i."""

    window: dict[str, Any]
    requests: list[PlannedRequest]
    concurrency: int | None
    think_time_ns: int


class Load:
    """Starts a worker's share of the planned requests, follows the counted ones to their end, and keeps the load up
    until every worker's counted ones have ended. `finished` is set then.

    Worker w takes the requests (or the clients, or the conversations) with a number that is w modulo the number of
    workers. `goes_on(attempt)` says whether the conversation of an attempt that has ended can go on.
    """

    def __init__(
        self,
        spec: LoadSpec,
        send: Send,
        board: Board,
        worker: int = 0,
        workers: int = 1,
        *,
        exact: bool = True,
        goes_on: Callable[[Attempt], bool] = lambda attempt: True,
    ) -> None:
        self._spec = spec
        self._goes_on = goes_on
        self._send = send
        self._start = 0
        self._board = board
        self._alarm = Alarm(asyncio.get_running_loop(), self._fire, exact)
        self.timer_exact = self._alarm.exact
        self._counted_open = 0
        self.plan_exhausted = False
        self.finished = asyncio.Event()
        # A heap of (offset at which it is due, index, request, phase). An open loop's is sorted from the start, and its
        # phases are known.
        self._due: list[tuple[int, int, PlannedRequest, str | None]] = []
        self._waiting: dict[int, deque[PlannedRequest]] = {}
        if spec.concurrency is None:
            self._phases = Phases(spec.window)
            self._plan_open_loop(worker, workers)
        else:
            self._phases = board.phases
            self._uncounted_began = False
            self._waiting = {client: deque() for client in range(worker, spec.concurrency, workers)}
            for request in spec.requests:
                if request.client in self._waiting:
                    self._waiting[request.client].append(request)
            for client in self._waiting:
                self._client_free(client, 0)

    def begin(self, start_ns: int) -> None:
        """Start; `start_ns` is the monotonic time of offset zero."""
        self._start = start_ns
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
        if self.finished.is_set():
            return
        goes_on = self._goes_on(attempt)
        if self._spec.concurrency is None:
            self._next_turn(attempt, goes_on)
        elif attempt.client is not None:
            self._client_ended(attempt, attempt.client, goes_on)
        self.check()

    def _next_turn(self, attempt: Attempt, goes_on: bool) -> None:
        """Open loop: an answer brings its conversation's next turn, after the pause."""
        this = self._spec.requests[attempt.index]
        if this.turn is None or this.turns is None or this.turn + 1 >= this.turns or not goes_on:
            return
        request = self._spec.requests[attempt.index + 1]
        due = (attempt.end or now_ns()) + request.think_ns - self._start
        phase = self._phases.of(request.index, due)
        self._counted_left += phase == "measure"
        heapq.heappush(self._due, (due, request.index, request, phase))
        self._arm()

    def _client_ended(self, attempt: Attempt, client: int, goes_on: bool) -> None:
        """Closed loop: a client is free, and goes on after its pause, with the next turn or with something else."""
        waiting = self._waiting[client]
        ended = self._spec.requests[attempt.index].conversation
        while not goes_on and waiting and waiting[0].conversation == ended:
            waiting.popleft()
        following = waiting[0] if waiting else None
        think = following.think_ns if following is not None and following.turn else self._spec.think_time_ns
        wait = think + (0 if attempt.status == 200 else FAILED_PAUSE_NS)
        due = (attempt.end or now_ns()) + wait - self._start
        if wait:
            self._client_free(client, due)
            self._arm()
        else:
            self._take_next(client, due)

    def check(self) -> None:
        """Whether the load is over; asked after each attempt, and now and then."""
        if self.finished.is_set():
            return
        if self._board.stopped or (self._nothing_counted_left() and self._board.ended()):
            self.stop()

    def stop(self) -> None:
        """Start nothing more."""
        if not self.finished.is_set():
            self.finished.set()
            self._alarm.close()

    # The open loop

    def _plan_open_loop(self, worker: int, workers: int) -> None:
        self._counted_left = 0
        for request in self._spec.requests:
            if request.turn:
                continue  # when it comes, the answer before decides
            offset = request.offset_ns or 0
            phase = self._phases.of(request.index, offset)
            number = request.index if request.conversation is None else request.conversation
            if number % workers == worker:
                self._due.append((offset, request.index, request, phase))
                self._counted_left += phase == "measure"

    # The closed loop

    def _client_free(self, client: int, due: int) -> None:
        request = self._next_of(client)
        if request is not None:
            heapq.heappush(self._due, (due, request.index, request, None))

    def _take_next(self, client: int, due: int) -> None:
        """A client that is free now goes on at once, without the detour over the timer."""
        request = self._next_of(client)
        if request is not None:
            self._start_one(due, request, None)

    def _next_of(self, client: int) -> PlannedRequest | None:
        if self._waiting[client]:
            return self._waiting[client].popleft()
        if not self._uncounted_began:
            self.plan_exhausted = True
            self._board.stop()
            self.stop()
        return None

    # Both

    def _nothing_counted_left(self) -> bool:
        if self._counted_open:
            return False
        if self._spec.concurrency is None:
            # A window by time is that long, whether or not anything happens at its end.
            by_time = "seconds" in self._spec.window["measure"]
            end = self.window[1] if by_time else None
            return self._counted_left == 0 and (end is None or now_ns() >= end)
        return self._uncounted_began or not self._waiting

    def _arm(self) -> None:
        if self._due and not self.finished.is_set():
            self._alarm.set(self._start + self._due[0][0])

    def _fire(self) -> None:
        while self._due and not self.finished.is_set() and self._start + self._due[0][0] <= now_ns():
            due, _, request, phase = heapq.heappop(self._due)
            self._start_one(due, request, phase)
        self.check()
        self._arm()

    def _start_one(self, due: int, request: PlannedRequest, phase: str | None) -> None:
        if phase is not None:
            now = now_ns()
            self._counted_left -= phase == "measure"
        else:
            now, phase = self._board.take(due)
            if phase == "drain" and not self._uncounted_began:
                self._uncounted_began = True
                self.check()
                if self.finished.is_set():
                    return
        self._counted_open += phase == "measure"
        self._send(Attempt(request.index, phase, self._start + due, now, request.client))

"""The scheduler: continuous batching in virtual time. Pure: it is told the time, and never looks at a clock.

Time is a chain of steps. A step begins when the former ends if there is work, else at the next arrival; one that
starts at `s` knows of every arrival and cancellation stamped at or before `s`. Its tokens exist when it ends. Within a
step, as in vLLM's V1 scheduler:

1. Running sequences, in the order in which they were admitted, each get a token (if they decode) or a chunk of their
   prefill, from one budget of `max_num_batched_tokens`. Decodes come first: only the sequence admitted last can still
   be in prefill, since nothing is admitted behind a chunk that used up the budget.
2. A sequence that needs a KV block when none is free preempts the one admitted last, possibly itself. That one loses
   its blocks and goes to the head of the queue, to compute prompt and output again. A step that preempts admits nobody.
3. Waiting requests are admitted first come, first served, while there are seats (`max_num_seqs`), budget, and KV
   blocks for the whole of what they have to compute. Blocks found in the prefix cache are not computed; the last token
   always is.

A full block can be found in the cache from the step that computes it on, also by requests admitted later in that step.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from itertools import count

from .config import EngineConfig
from .kv import KvCache
from .sequence import Request, Sequence, Step, Timing

_BEFORE_TIME = -(2**63)


class Scheduler:
    """Runs requests step by step. Add what arrives, then ask for the next step.

    Whoever asks for a step promises that everything stamped at or before its start has been added. `latest` is the
    latest stamp or start of a step so far: what is stamped after it is in time.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.kv = KvCache(config.num_blocks, config.block_size, config.prefix_caching)
        self.preemptions = 0
        self.steps = 0
        self.latest = self._started = self._now = _BEFORE_TIME
        self._order = count()
        self._pending: list[tuple[int, int, Request | str]] = []
        self._live: dict[str, Sequence] = {}
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []
        self._done: list[Sequence] = []

    def add(self, request: Request, arrival_ns: int | None = None) -> Timing:
        """A request arrives (at `request.arrival_ns` unless said otherwise). Returns its timing, to be filled in.

        `ValueError`: it asks for nothing, is longer than `max_model_len`, its id is in use, or it arrives in the past.
        """
        arrival = request.arrival_ns if arrival_ns is None else arrival_ns
        if request.prompt_tokens < 1 or request.output_tokens < 1:
            raise ValueError(f"{request.id}: a request has at least one prompt token and one output token")
        if request.prompt_tokens + request.output_tokens > self.config.max_model_len:
            raise ValueError(f"{request.id}: longer than max_model_len {self.config.max_model_len}")
        if request.id in self._live:
            raise ValueError(f"{request.id}: a request of that id is under way")
        timing = Timing(request.id, arrival, request.prompt_tokens)
        self._live[request.id] = Sequence(request, timing)
        self._push(arrival, request)
        if request.cancel_ns is not None:
            self.cancel(request.id, request.cancel_ns)
        return timing

    def cancel(self, request_id: str, now: int) -> None:
        """The client went away at `now`: no step that starts then or later runs it. Unknown ids are ignored."""
        if request_id in self._live:
            self._push(now, request_id)

    def next_step(self) -> Step | None:
        """Schedule the next step and return it, or None when nothing is running, waiting or still to arrive."""
        start = self._begin()
        if start is None:
            return None
        decodes, prefill, emitting = self._schedule()
        end = start + self.config.step_ns(decodes, prefill, self.steps, start)
        running, used = len(self._running), self.kv.pool.used
        tokens, finished = self._emit(emitting, end)
        step = Step(
            self.steps, start, end, decodes, prefill, tokens, finished,
            running, len(self._waiting), used, self.preemptions, self.kv.queries, self.kv.hits,
        )  # fmt: skip
        self.steps += 1
        self._started, self._now = start, end
        self.latest = max(self.latest, start)
        return step

    def reset_prefix_cache(self, now: int) -> bool:
        """Forget all cached blocks. False, and nothing done, while a step is under way at `now`."""
        if now < self._now:
            return False
        self._settle()
        return self.kv.pool.reset()

    def _push(self, stamp: int, event: Request | str) -> None:
        if stamp <= self._started:
            raise ValueError(f"stamped {stamp}, but the step that starts at {self._started} is already planned")
        self.latest = max(self.latest, stamp)
        heappush(self._pending, (stamp, next(self._order), event))

    # -- time

    def _begin(self) -> int | None:
        """The start of the next step, after all that happened until then."""
        self._settle()
        self._apply(self._now)
        while not self._running and not self._waiting:
            if not self._pending:
                return None
            self._now = self._pending[0][0]
            self._apply(self._now)
        return self._now

    def _settle(self) -> None:
        """The former step is over: finished sequences give their blocks back, in the order in which they run."""
        if self._done:
            for sequence in self._done:
                self.kv.drop(sequence)
            done = {sequence.id for sequence in self._done}
            self._running = [sequence for sequence in self._running if sequence.id not in done]
            self._done = []

    def _apply(self, now: int) -> None:
        """Arrivals and cancellations stamped at or before `now`, in the order of their stamps."""
        while self._pending and self._pending[0][0] <= now:
            stamp, _, event = heappop(self._pending)
            if isinstance(event, Request):
                sequence = self._live.get(event.id)
                if sequence is not None:
                    self._waiting.append(sequence)
            else:
                self._withdraw(event, stamp)

    def _withdraw(self, request_id: str, stamp: int) -> None:
        sequence = self._live.pop(request_id, None)
        if sequence is None:
            return
        sequence.timing.outcome = "cancelled"
        self.kv.drop(sequence)
        if sequence in self._running:
            self._running.remove(sequence)
        elif sequence in self._waiting:
            self._waiting.remove(sequence)

    # -- one step

    def _schedule(self) -> tuple[int, int, list[Sequence]]:
        """Give out the step's budget: (decodes, prefill tokens, the sequences that get a token at its end)."""
        budget = self.config.max_num_batched_tokens
        preemptions = self.preemptions
        decodes, prefill, emitting = self._schedule_running(budget)
        if self.preemptions == preemptions and self._waiting:
            prefill += self._admit(budget - decodes - prefill, emitting)
        return decodes, prefill, emitting

    def _schedule_running(self, budget: int) -> tuple[int, int, list[Sequence]]:
        decodes = prefill = 0
        emitting: list[Sequence] = []
        running, block_size = self._running, self.config.block_size
        index = 0
        while index < len(running) and budget:
            sequence = running[index]
            left = sequence.target - sequence.computed
            if left <= 0:
                computed = sequence.computed + 1
                if computed > sequence.blocks * block_size and not self._make_room(sequence, computed):
                    break
                sequence.computed = computed
                if computed % block_size == 0:
                    self.kv.publish(sequence)
                decodes += 1
                budget -= 1
                emitting.append(sequence)
            else:
                chunk = min(left, budget)
                if not self._make_room(sequence, sequence.computed + chunk):
                    break
                self._compute(sequence, chunk, emitting)
                prefill += chunk
                budget -= chunk
            index += 1
        return decodes, prefill, emitting

    def _admit(self, budget: int, emitting: list[Sequence]) -> int:
        """Admit waiting requests in their order; returns the prefill tokens given out."""
        prefill = 0
        while self._waiting and budget and len(self._running) < self.config.max_num_seqs:
            sequence = self._waiting[0]
            if not self.kv.enter(sequence):
                break
            self._waiting.popleft()
            self._running.append(sequence)
            if sequence.timing.admitted_ns is None:
                sequence.timing.admitted_ns = self._now
            chunk = min(sequence.target - sequence.computed, budget)
            self.kv.grow(sequence, sequence.computed + chunk)
            self._compute(sequence, chunk, emitting)
            prefill += chunk
            budget -= chunk
        return prefill

    def _make_room(self, sequence: Sequence, tokens: int) -> bool:
        """Blocks for that many tokens of a running sequence, preempting if need be; False if that took itself."""
        while not self.kv.grow(sequence, tokens):
            victim = self._running.pop()
            self._preempt(victim)
            if victim is sequence:
                return False
        return True

    def _compute(self, sequence: Sequence, chunk: int, emitting: list[Sequence]) -> None:
        """Prefill the next `chunk` tokens, for which there are blocks."""
        sequence.computed += chunk
        self.kv.publish(sequence)
        if sequence.computed == sequence.target:
            emitting.append(sequence)

    def _emit(self, emitting: list[Sequence], end: int) -> tuple[list[tuple[str, int]], list[str]]:
        """Each of these sequences gets a token at `end`."""
        tokens: list[tuple[str, int]] = []
        finished: list[str] = []
        for sequence in emitting:
            times = sequence.timing.token_ns
            tokens.append((sequence.id, len(times)))
            times.append(end)
            if len(times) == sequence.limit:
                sequence.timing.finish_ns = end
                finished.append(sequence.id)
                self._done.append(sequence)
                del self._live[sequence.id]
        return tokens, finished

    def _preempt(self, sequence: Sequence) -> None:
        self.kv.drop(sequence)
        sequence.target = sequence.prompt_tokens + len(sequence.timing.token_ns)
        sequence.timing.preempted += 1
        self.preemptions += 1
        self._waiting.appendleft(sequence)

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

from .cache import BlockPool
from .config import EngineConfig
from .sequence import Request, Sequence, Step, Timing

_BEFORE_TIME = -(2**63)


class Scheduler:
    """Runs requests step by step. Add what arrives, then ask for the next step.

    Whoever asks for a step promises that everything stamped at or before its start has been added. `latest` is the
    latest stamp seen; `preemptions`, `queries` and `hits` (prompt tokens looked up and found) are totals.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.pool = BlockPool(config.num_blocks)
        self.preemptions = 0
        self.queries = 0
        self.hits = 0
        self.steps = 0
        self.latest = self._started = self._now = _BEFORE_TIME
        self._order = count()
        self._pending: list[tuple[int, int, Request | str]] = []
        self._live: dict[str, Sequence] = {}
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []
        self._done: list[Sequence] = []

    def add(self, request: Request, arrival_ns: int | None = None) -> Timing:
        """A request arrives (at `request.arrival_ns` unless said otherwise). Returns its timing, filled in step by
        step.

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
        running, used = len(self._running), self.pool.used
        tokens, finished = self._emit(emitting, end)
        step = Step(
            self.steps, start, end, decodes, prefill, tokens, finished,
            running, len(self._waiting), used, self.preemptions, self.queries, self.hits,
        )  # fmt: skip
        self.steps += 1
        self._started, self._now = start, end
        return step

    def reset_prefix_cache(self, now: int) -> bool:
        """Forget all cached blocks. False, and nothing done, while a step is under way at `now`."""
        if now < self._now:
            return False
        self._settle()
        return self.pool.reset()

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
                self._drop_blocks(sequence)
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
        self._drop_blocks(sequence)
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
        running, block_size, caching = self._running, self.config.block_size, self.config.prefix_caching
        index = 0
        while index < len(running) and budget:
            sequence = running[index]
            left = sequence.target - sequence.computed
            if left <= 0:
                computed = sequence.computed + 1
                if computed > sequence.blocks * block_size and not self._grow(sequence, computed):
                    break
                sequence.computed = computed
                if caching and computed % block_size == 0:
                    self._publish(sequence)
                decodes += 1
                budget -= 1
                emitting.append(sequence)
            else:
                chunk = min(left, budget)
                if not self._grow(sequence, sequence.computed + chunk):
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
            if not self._enter(sequence):
                break
            self._waiting.popleft()
            self._running.append(sequence)
            chunk = min(sequence.target - sequence.computed, budget)
            self._grow(sequence, sequence.computed + chunk)
            self._compute(sequence, chunk, emitting)
            prefill += chunk
            budget -= chunk
        return prefill

    def _enter(self, sequence: Sequence) -> bool:
        """Take the blocks that are cached, if there is room for all the others that the sequence has to compute."""
        block_size = self.config.block_size
        needed = -(-sequence.target // block_size)
        found: list[bytes] = []
        if self.config.prefix_caching:
            limit = (sequence.target - 1) // block_size
            keys = sequence.keys(limit, block_size)
            found = keys[: self.pool.hits(keys, limit)]
        if needed - len(found) > self.pool.free - self.pool.idle_among(found):
            return False
        self.pool.hold(found)
        sequence.held = found
        sequence.blocks = sequence.published = len(found)
        sequence.computed = len(found) * block_size
        if sequence.timing.preempted == 0 and self.config.prefix_caching:
            sequence.timing.cached_tokens = sequence.computed
            self.queries += sequence.prompt_tokens
            self.hits += sequence.computed
        return True

    def _grow(self, sequence: Sequence, tokens: int) -> bool:
        """Give the sequence KV blocks for that many tokens, preempting if need be; False if it was preempted itself."""
        needed = -(-tokens // self.config.block_size) - sequence.blocks
        if needed <= 0:
            return True
        while self.pool.free < needed:
            victim = self._running.pop()
            self._preempt(victim)
            if victim is sequence:
                return False
        self.pool.take(needed)
        sequence.blocks += needed
        sequence.private += needed
        return True

    def _compute(self, sequence: Sequence, chunk: int, emitting: list[Sequence]) -> None:
        """Prefill the next `chunk` tokens, for which there are blocks."""
        sequence.computed += chunk
        if self.config.prefix_caching:
            self._publish(sequence)
        if sequence.computed == sequence.target:
            emitting.append(sequence)

    def _publish(self, sequence: Sequence) -> None:
        """Let others find the blocks that have become full."""
        block_size = self.config.block_size
        full = sequence.computed // block_size
        keys = sequence.keys(full, block_size)
        for index in range(sequence.published, full):
            if self.pool.publish(keys[index]):
                sequence.held.append(keys[index])
                sequence.private -= 1
        sequence.published = full

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
        self._drop_blocks(sequence)
        sequence.target = sequence.prompt_tokens + len(sequence.timing.token_ns)
        sequence.timing.preempted += 1
        self.preemptions += 1
        self._waiting.appendleft(sequence)

    def _drop_blocks(self, sequence: Sequence) -> None:
        self.pool.release(sequence.held, sequence.private)
        sequence.held = []
        sequence.private = sequence.blocks = sequence.computed = sequence.published = 0

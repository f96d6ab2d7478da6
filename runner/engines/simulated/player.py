"""The scheduler, played on the clock.

Each step is planned at its start and its tokens are rendered then; at its end, an absolute time, they are written. A
late wake-up delays that write only: the next step still starts when the former was meant to end, and knows only of the
arrivals stamped by then, so lateness neither accumulates nor changes a decision.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Protocol

from ...alarm import Alarm
from .config import EngineConfig
from .journal import Journal, log_line
from .metrics import EngineMetrics
from .misbehave import Misbehaviour
from .render import Head, StreamRenderer, whole_reply
from .scheduler import Scheduler
from .sequence import Request, Step, Timing
from .tokens import ALTERED, WIDTH, output_seed, output_text, output_token

#: exit code of a process that was asked to die
DIED = 86


class Sink(Protocol):
    """Where a reply goes: a connection."""

    def send(self, data: bytes) -> None:
        """Hand bytes to the socket, now."""

    def send_reply(self, body: bytes) -> None:
        """Send a whole JSON reply."""

    def reply_ended(self) -> None:
        """The reply is complete; the connection may serve its next request."""


class Reply:
    """A request under way: what its client asked for, and what has been written to it."""

    def __init__(self, sink: Sink, head: Head, request_id: str, prompt: bytes, limit: int, stream: bool) -> None:
        self.sink = sink
        self.head = head
        self.request_id = request_id
        self.prompt = prompt
        self.limit = limit
        self.stream = stream
        self.stalls = False
        self.reason = "length"
        self.closed = False
        self.key = ""
        self.sent_ns: list[int] = []
        self.timing = Timing("", 0, 0)
        self._seed = output_seed(prompt)
        self._renderer = StreamRenderer(head, len(prompt) // WIDTH) if stream else None

    def spoil(self, misbehave: Misbehaviour) -> None:
        """Cut the reply short or give it other tokens, where that was asked for."""
        written = misbehave.length(self.limit)
        if written < self.limit:
            self.limit, self.reason = written, "stop"
        if misbehave.is_altered(self._seed):
            self._seed ^= ALTERED

    def render(self, index: int) -> bytes:
        """What to write for the output token of that index; empty if nothing."""
        last = index + 1 == self.limit
        if self._renderer is None:
            return self._whole() if last else b""
        if self.stalls and index:
            return b""
        token = output_token(self._seed, index)
        start = self._renderer.start() if index == 0 else b""
        if last and not self.stalls:
            return start + self._renderer.last(token, index, self.timing.cached_tokens, self.reason)
        return start + self._renderer.token(token, index)

    def _whole(self) -> bytes:
        ids = [output_token(self._seed, index) for index in range(self.limit)]
        prompt_tokens, cached = len(self.prompt) // WIDTH, self.timing.cached_tokens
        return whole_reply(self.head, output_text(self._seed, self.limit), prompt_tokens, ids, cached, self.reason)

    def log_line(self, outcome: str, cancelled_ns: int | None = None) -> bytes:
        """The reply's line in the engine's log."""
        planned = self.timing.token_ns[: len(self.sent_ns)] if self.stream else self.timing.token_ns
        return log_line(
            self.request_id,
            self.timing.arrival_ns,
            outcome=outcome,
            prompt_tokens=self.timing.prompt_tokens,
            cached_tokens=self.timing.cached_tokens,
            planned_ns=planned,
            sent_ns=self.sent_ns,
            stream=self.stream,
            preempted=self.timing.preempted,
            cancelled_ns=cancelled_ns,
        )


class Player:
    """Runs the scheduler on CLOCK_MONOTONIC and writes what it decides."""

    def __init__(self, config: EngineConfig, model: str, journal: Journal, loop: asyncio.AbstractEventLoop) -> None:
        self.scheduler = Scheduler(config)
        self.metrics = EngineMetrics(config, self.scheduler, model)
        self.journal = journal
        self.step: Step | None = None
        self._misbehave = config.misbehave
        self._alarm = Alarm(loop, self.advance)
        self._replies: dict[str, Reply] = {}
        self._due: list[tuple[Reply, bytes]] = []
        self._ended: list[Reply] = []
        self._number = 0
        self._streams = 0

    def stamp(self) -> int:
        """The time now, later than every event before and than the start of any planned step.

        Tokens that are due go out first: what the caller does next may take as long as a step.
        """
        if self.step is not None and self.step.end_ns <= time.monotonic_ns():
            self.advance()
        return max(time.monotonic_ns(), self.scheduler.latest + 1)

    def submit(self, reply: Reply, arrival_ns: int) -> bool:
        """A request arrived then (a `stamp`). False: it is one of those that are to get an error."""
        self._number += 1
        reply.key = str(self._number)
        if self._misbehave.is_error(self._number):
            tokens = len(reply.prompt) // WIDTH
            self.metrics.finish("error", arrival_ns, [])
            self.journal.write(log_line(reply.request_id, arrival_ns, outcome="error", prompt_tokens=tokens))
            return False
        reply.stalls = self._misbehave.is_stall(self._number)
        reply.spoil(self._misbehave)
        reply.timing = self.scheduler.add(Request(reply.key, reply.prompt, reply.limit), arrival_ns)
        self._replies[reply.key] = reply
        if self.step is None:
            self._plan()
            self._arm()
        return True

    def cancel(self, reply: Reply) -> None:
        """The client went away."""
        now = self.stamp()
        if reply.closed:  # perhaps just now: its last token was due
            return
        reply.closed = True
        self._replies.pop(reply.key, None)
        self.scheduler.cancel(reply.key, now)
        self.metrics.finish("abort", reply.timing.arrival_ns, reply.sent_ns, reply.timing.admitted_ns)
        self.journal.write(reply.log_line("stalled" if reply.stalls else "cancelled", now))

    def reset_prefix_cache(self) -> bool:
        """Forget all cached blocks; False while a step is under way."""
        self.advance()
        return self.scheduler.reset_prefix_cache(time.monotonic_ns())

    def advance(self) -> None:
        """Write the tokens of every step that has ended, and plan the next one."""
        while self.step is not None and self.step.end_ns <= time.monotonic_ns():
            self._deliver(self.step)
            self._plan()
        self._arm()
        self._settle()

    def close(self) -> None:
        """Stop the clock."""
        self._alarm.close()
        self.journal.close()

    def _arm(self) -> None:
        if self.step is not None:
            self._alarm.set(self.step.end_ns)

    def _plan(self) -> None:
        """Schedule the next step and render its tokens."""
        self.step = self.metrics.step = step = self.scheduler.next_step()
        self._due = []
        if step is None:
            return
        for key, index in step.tokens:
            reply = self._replies.get(key)
            if reply is not None:
                self._due.append((reply, reply.render(index)))

    def _deliver(self, step: Step) -> None:
        """Write the rendered tokens of a step that has ended."""
        now = time.monotonic_ns
        for reply, data in self._due:
            if not data or reply.closed:
                continue
            if reply.stream:
                reply.sink.send(data)
            else:
                reply.sink.send_reply(data)
            reply.sent_ns.append(now())
            if len(reply.sent_ns) == 1:
                self._first_token(reply)
        self.metrics.generation_tokens += len(step.tokens)
        self.metrics.iteration_tokens.count(step.decodes + step.prefill_tokens)
        for key in step.finished:
            ended = self._replies.get(key)
            if ended is not None and not ended.stalls:
                del self._replies[key]
                ended.closed = True
                self._ended.append(ended)

    def _first_token(self, reply: Reply) -> None:
        self.metrics.prompt_tokens += reply.timing.prompt_tokens
        if reply.stream:
            self._streams += 1
            if self._streams == self._misbehave.die_after:
                os._exit(DIED)

    def _settle(self) -> None:
        """Log what has ended, after all that is urgent."""
        ended, self._ended = self._ended, []
        for reply in ended:
            timing = reply.timing
            sent_ns = reply.sent_ns if reply.stream else timing.token_ns
            self.metrics.finish(reply.reason, timing.arrival_ns, sent_ns, timing.admitted_ns)
            self.journal.write(reply.log_line("ok"))
            reply.sink.reply_ended()

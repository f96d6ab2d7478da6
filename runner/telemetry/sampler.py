"""Looks at something every so often while a load runs, on a thread of its own.

The client may be in this process, and its event loop needs the interpreter whenever a chunk arrives: a look must be
short, wait only in system calls (which let go of the interpreter), and leave parsing for after the load. Looks are due
on a fixed grid of monotonic times; one that lasts longer than the interval skips what was due meanwhile, so that a slow
source is asked less often, never twice at once. What a look raises is counted, and the next one is made all the same.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")

#: how long the end of a load waits for a look that is under way, s; its thread is left alone after that
END_WITHIN_S = 2.0


class Sampler(Generic[T]):
    """A context manager: `look` is called every `every_s` seconds, first after one interval, until its end.

    `samples` holds (monotonic ns when the look began, what it returned), `failures` how often a look raised, by the
    name of the exception, and `skipped` how many looks were due and not made because one before them took too long.
    Read them after the end. A look that still waits then is given up, and what it would return is not kept.
    """

    def __init__(self, look: Callable[[], T], every_s: float, name: str = "sampler") -> None:
        if not every_s > 0:
            raise ValueError(f"every_s is {every_s!r}; wanted above 0")
        self.samples: list[tuple[int, T]] = []
        self.failures: Counter[str] = Counter()
        self.skipped = 0
        self._look = look
        self._every_ns = round(every_s * 1e9)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Sampler[T]:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(END_WITHIN_S)

    def _run(self) -> None:
        due = time.monotonic_ns() + self._every_ns
        while not self._over.wait(max(0, due - time.monotonic_ns()) / 1e9):
            self._take()
            missed = max(0, (time.monotonic_ns() - due) // self._every_ns)
            self.skipped += missed
            due += (missed + 1) * self._every_ns

    def _take(self) -> None:
        began = time.monotonic_ns()
        try:
            found = self._look()
        except Exception as error:
            self.failures[type(error).__name__] += 1
            return
        if not self._over.is_set():
            self.samples.append((began, found))

"""The machine while a cell's load runs: telemetry/host-<cell>.parquet.

A look only reads; it is parsed when the load is over. One is made just before the load and one just after, so that the
window lies between two looks, however short it is.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from ...schema.event import HOST_COLUMNS
from ..client.record import polars_type
from .accelerators import Accelerators
from .host import Parse, Sample, labels
from .processes import Processes
from .sampler import Sampler
from .sources import Source, sources

if TYPE_CHECKING:
    import polars as pl

#: what is read at once, bytes; a longer file takes several reads
_PART = 1 << 14


class Look(NamedTuple):
    """What one look read: each file's bytes, the processes' and the accelerators', and the CPU time it took, ns."""

    files: list[bytes]
    processes: dict[str, list[bytes]]
    gpus: list[tuple[str, str, float]]
    cpu_ns: int


class HostWatch:
    """A context manager around a cell's load: looks every `every_s` seconds. `server` is the pid of the cell's server
    where the run started it."""

    def __init__(self, server: int | None, every_s: float, found: Callable[[], list[Source]] = sources) -> None:
        self._stack = ExitStack()
        self._processes = Processes(server)
        self._sources = found()
        self._every_s = every_s
        self._looks: list[tuple[int, Look]] = []
        self._sampler: Sampler[Look] | None = None

    def __enter__(self) -> HostWatch:
        self._gpus = self._stack.enter_context(Accelerators())
        self._files = list(self._opened())
        self._take()
        self._sampler = self._stack.enter_context(Sampler(self._look, self._every_s, "host"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._sampler is not None
        self._sampler.__exit__(kind, error, trace)
        self._take()
        self._stack.pop_all().close()

    def _opened(self) -> Iterator[tuple[int, Parse]]:
        for source in self._sources:
            with contextlib.suppress(OSError):  # gone since it was found
                descriptor = os.open(source.path, os.O_RDONLY)
                self._stack.callback(os.close, descriptor)
                yield descriptor, source.parse

    def _take(self) -> None:
        self._looks.append((time.monotonic_ns(), self._look()))

    def _look(self) -> Look:
        began = time.thread_time_ns()
        files = [_read(descriptor) for descriptor, _ in self._files]
        processes, gpus = self._processes.look(), self._gpus.look()
        return Look(files, processes, gpus, time.thread_time_ns() - began)

    def frame(self, cell: str, epoch_ns: int) -> pl.DataFrame:
        """The host telemetry table of the cell; call it after the end."""
        import polars as pl

        rows = [(cell, at - epoch_ns, *sample) for at, sample in self._samples()]
        return pl.DataFrame(rows, schema={c.name: polars_type(c) for c in HOST_COLUMNS}, orient="row")

    def _samples(self) -> Iterator[tuple[int, Sample]]:
        sampler = self._sampler
        assert sampler is not None
        cpu = 0
        # The one before the load, those of the sampler, the one after it.
        for at, look in [self._looks[0], *sampler.samples, *self._looks[1:]]:
            for data, (_, parse) in zip(look.files, self._files, strict=True):
                yield from ((at, sample) for sample in _parsed(data, parse))
            yield from ((at, sample) for sample in self._processes.samples(look.processes))
            yield from ((at, sample) for sample in self._gpus.samples(look.gpus))
            cpu += look.cpu_ns
            yield at, Sample("telemetry_cpu_seconds_total", "{}", cpu / 1e9)
        yield at, Sample("telemetry_skipped_total", "{}", float(sampler.skipped))
        for error, count in sorted(sampler.failures.items()):
            yield at, Sample("telemetry_failures_total", labels(error=error), float(count))


def watch_host(card: dict[str, Any], server: int | None) -> HostWatch:
    """The watch that a card asks for (outputs.telemetry_every; a card of before: every second)."""
    return HostWatch(server, float(card["outputs"].get("telemetry_every", 1.0)), _here)


@functools.cache
def _here() -> list[Source]:
    """This machine's sources: what it has does not change while a run lasts."""
    return sources()


def _read(descriptor: int) -> bytes:
    """The file as it is now; empty where it cannot be read any more."""
    data = b""
    try:
        # The kernel may hand out a page at a time, so that only an empty read is the end.
        while part := os.pread(descriptor, _PART, len(data)):
            data += part
    except OSError:
        return b""
    return data


def _parsed(data: bytes, parse: Parse) -> list[Sample]:
    try:
        return list(parse(data.decode("utf-8", "replace"))) if data else []
    except (ValueError, IndexError):
        return []

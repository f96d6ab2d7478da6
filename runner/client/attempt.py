"""One attempt, as the measured path keeps it: times and raw bytes, nothing parsed."""

from __future__ import annotations

from typing import Any

#: what the spool keeps of an attempt beside its times and reads, in this order
SCALARS = (
    "index", "phase", "client", "worker", "scheduled", "queued", "connect_start", "connect_end", "sent", "end",
    "reused", "tries", "closed", "status", "fault", "failure", "error",
)  # fmt: skip


class Attempt:
    """A request that was due. All times are monotonic ns; None is 'did not happen'.

    `times[i]` is when `reads[i]` came from the socket. `fault` is an outcome the client itself knows (a timeout, a
    failed connection, a cancellation); None leaves the outcome to what the bytes say. `failure` tells kinds of one
    outcome apart (schema/event.py, FAILURES). `closed`: the connection was lost before the reply was complete.
    `tries`: how often it was put on the wire or on its way there; the stamps from connect_start on are the last try's,
    and latencies count from `scheduled`, before the first. `status`: the HTTP status, as far as the measured path knows
    it.
    """

    __slots__ = (*SCALARS, "reads", "times")

    def __init__(self, index: int, phase: str, scheduled: int, queued: int, client: int | None = None) -> None:
        self.index = index
        self.phase = phase
        self.client = client
        self.worker = 0
        self.scheduled = scheduled
        self.queued = queued
        self.connect_start: int | None = None
        self.connect_end: int | None = None
        self.sent: int | None = None
        self.end: int | None = None
        self.reused = False
        self.tries = 1
        self.closed = False
        self.status: int | None = None
        self.fault: str | None = None
        self.failure: str | None = None
        self.error: str | None = None
        self.times: list[int] = []
        self.reads: list[bytes] = []

    @property
    def last_heard(self) -> int:
        """When the server was last heard of: the last read, or the request's sending."""
        return self.times[-1] if self.times else (self.sent or self.queued)

    def again(self, failure: str) -> None:
        """Forget the try that failed; what stays is when the attempt was due, that there was a try before, and what
        befell it."""
        self.tries += 1
        self.connect_start = self.connect_end = self.sent = self.end = self.status = None
        self.fault = self.error = None
        self.failure = failure
        self.reused = self.closed = False
        self.times, self.reads = [], []

    def scalars(self) -> list[Any]:
        """Everything but times and reads, for the spool."""
        return [getattr(self, name) for name in SCALARS]

    @classmethod
    def restore(cls, scalars: list[Any], times: list[int], reads: list[bytes]) -> Attempt:
        """The attempt that `scalars`, times and reads were taken from."""
        attempt = cls.__new__(cls)
        for name, value in zip(SCALARS, scalars, strict=True):
            setattr(attempt, name, value)
        attempt.times, attempt.reads = times, reads
        return attempt

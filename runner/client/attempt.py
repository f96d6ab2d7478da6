"""One attempt, as the measured path keeps it: times and raw bytes, nothing parsed."""

from __future__ import annotations

#: what the spool keeps of an attempt beside its times and reads: whole numbers (or None), and texts (or None)
NUMBERS = (
    "index", "client", "worker", "scheduled", "queued", "connect_start", "connect_end", "sent", "end", "tries",
    "status", "reused", "closed", "resent",
)  # fmt: skip
TEXTS = ("phase", "fault", "failure", "error")


class Attempt:
    """A request that was due. All times are monotonic ns; None is 'did not happen'.

    `times[i]` is when `reads[i]` came from the socket. `fault` is an outcome the client itself knows (a timeout, a
    failed connection, a cancellation); None leaves the outcome to what the bytes say. `failure` tells kinds of one
    outcome apart (schema/event.py, FAILURES). `closed`: the connection was lost before the reply was complete.
    `tries`: how often it was put on the wire or on its way there; the stamps from connect_start on are the last try's,
    and latencies count from `scheduled`, before the first. `resent`: one of the tries was owed to a kept-alive
    connection that the server had closed. `status`: the HTTP status, as far as the measured path knows it.
    """

    __slots__ = (*NUMBERS, *TEXTS, "reads", "times")

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
        self.resent = False
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

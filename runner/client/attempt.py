"""One attempt, as the measured path keeps it: times and raw bytes, nothing parsed."""

from __future__ import annotations

from typing import Any


class Attempt:
    """A request that was due. All times are monotonic ns; None is 'did not happen'.

    `times[i]` is when `reads[i]` came from the socket. `fault` is an outcome the client itself knows (a timeout, a
    failed connection, a cancellation); None leaves the outcome to what the bytes say. `closed`: the connection was lost
    before the reply was complete. `sent_again`: a kept-alive connection was closed under the request, before any byte
    of a reply, and it went out once more on a new one (latencies still count from `scheduled`). `status`: the HTTP
    status, as far as the measured path knows it.
    """

    __slots__ = (
        "client",
        "closed",
        "connect_end",
        "connect_start",
        "end",
        "error",
        "fault",
        "index",
        "last_read",
        "phase",
        "queued",
        "reads",
        "reused",
        "scheduled",
        "sent",
        "sent_again",
        "status",
        "times",
    )

    def __init__(self, index: int, phase: str, scheduled: int, queued: int, client: int | None = None) -> None:
        self.index = index
        self.phase = phase
        self.client = client
        self.scheduled = scheduled
        self.queued = queued
        self.connect_start: int | None = None
        self.connect_end: int | None = None
        self.sent: int | None = None
        self.end: int | None = None
        self.last_read = queued
        self.reused = False
        self.sent_again = False
        self.status: int | None = None
        self.closed = False
        self.fault: str | None = None
        self.error: str | None = None
        self.times: list[int] = []
        self.reads: list[bytes] = []

    def state(self) -> dict[str, Any]:
        """Everything, for the spool."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Attempt:
        """The attempt that `state` was taken from."""
        attempt = cls(state["index"], state["phase"], state["scheduled"], state["queued"])
        for name, value in state.items():
            setattr(attempt, name, value)
        return attempt

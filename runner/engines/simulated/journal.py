"""The engine's own log: one JSON line a request, with when each token was meant to go out and when it did.

`token_planned_ns` is the model's time, `token_sent_ns` when the write was done, both on CLOCK_MONOTONIC; the
difference is the lateness of each write, and `lateness_max_ns` the largest. A reply that is not streamed is written
once, at the end.
"""

from __future__ import annotations

import json
from io import SEEK_END, BufferedRandom
from pathlib import Path

#: lines kept in memory when there is no file; older ones are dropped, and `dropped` counts them
MEMORY_LINES = 200_000

OUTCOMES: dict[str, str] = {
    "ok": "all tokens were written",
    "cancelled": "the client went away before the last token",
    "error": "HTTP 500, as `error_every` asks",
    "stalled": "stopped after its first token, as `stall_every` asks",
}


def log_line(
    request_id: str,
    arrival_ns: int,
    *,
    outcome: str,
    prompt_tokens: int,
    cached_tokens: int = 0,
    planned_ns: list[int] | None = None,
    sent_ns: list[int] | None = None,
    stream: bool = True,
    preempted: int = 0,
    cancelled_ns: int | None = None,
) -> bytes:
    """One line of the log, newline included."""
    planned, sent = planned_ns or [], sent_ns or []
    written = planned if stream else planned[-1:]
    lateness = [late - due for due, late in zip(written, sent, strict=False)]
    line = {
        "request_id": request_id,
        "outcome": outcome,
        "arrival_ns": arrival_ns,
        "prompt_tokens": prompt_tokens,
        "cached_tokens": cached_tokens,
        "output_tokens": len(planned),
        "stream": stream,
        "preempted": preempted,
        "cancelled_ns": cancelled_ns,
        "lateness_max_ns": max(lateness, default=None),
        "token_planned_ns": planned,
        "token_sent_ns": sent,
    }
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


class Journal:
    """Where log lines go: to the end of a file if there is one, otherwise to memory."""

    def __init__(self, path: Path | None = None) -> None:
        self._file: BufferedRandom | None = path.open("a+b") if path else None
        self._start = self._file.seek(0, SEEK_END) if self._file else 0
        self._lines: list[bytes] = []
        self.dropped = 0

    def write(self, line: bytes) -> None:
        """Append a line; in the file it is there for others to read when this returns."""
        if self._file:
            self._file.write(line)
            self._file.flush()
            return
        self._lines.append(line)
        if len(self._lines) > MEMORY_LINES:
            half = MEMORY_LINES // 2
            del self._lines[:half]
            self.dropped += half

    def read(self) -> bytes:
        """All lines of this engine that were kept; what stood in the file before is not ours."""
        if not self._file:
            return b"".join(self._lines)
        self._file.seek(self._start)
        text = self._file.read()
        self._file.seek(0, SEEK_END)
        return text

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._file:
            self._file.close()

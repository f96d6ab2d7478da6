"""The attempt log: append-only, one JSON line an event, each line chained to the one before by its SHA-256.

A line removed, changed or moved breaks the chain for good. It says what was tried, in order: cells started, ended,
failed, killed; servers started and stopped; blocks replaced; runs resumed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import weakref
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..schema.digest import canonical_json
from ..schema.errors import BundleError
from .secrets import redactor


class AttemptLog:
    """attempts.jsonl of one bundle, opened for appending (readers use `read_log`)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[dict[str, Any]] = []
        # Held as long as this object lives, and let go by the kernel however the process ends.
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        weakref.finalize(self, os.close, lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BundleError(f"{path.parent}: another benchcard is at work in this run") from None
        _drop_cut_line(path)
        self.lines = read_log(path)

    def append(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Append a line, without secrets, and make it durable before returning."""
        line: dict[str, Any] = {
            "seq": len(self.lines) + 1,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "kind": kind,
            **redactor().value(fields),
            "prev": self.lines[-1]["sha256"] if self.lines else "",
        }
        line["sha256"] = line_digest(line)
        with self.path.open("ab") as file:
            file.write(json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.lines.append(line)
        return line

    def of_kind(self, *kinds: str) -> list[dict[str, Any]]:
        """The lines of these kinds, in order."""
        return [line for line in self.lines if line["kind"] in kinds]


def line_digest(line: dict[str, Any]) -> str:
    """SHA-256 (hex) of a line without its own digest, in canonical form."""
    return hashlib.sha256(canonical_json({k: v for k, v in line.items() if k != "sha256"})).hexdigest()


def read_log(path: Path) -> list[dict[str, Any]]:
    """The lines of an attempt log. A last line without its newline was cut short by a kill and is not read."""
    whole, _, _cut = path.read_bytes().rpartition(b"\n")
    lines = []
    for number, text in enumerate(whole.split(b"\n") if whole else [], start=1):
        try:
            lines.append(json.loads(text))
        except ValueError as error:
            raise BundleError(f"{path}:{number}: not a line of an attempt log: {error}") from None
    return lines


def _drop_cut_line(path: Path) -> None:
    """Cut off a last line that a kill left incomplete, so that the next line starts on its own."""
    whole, newline, cut = path.read_bytes().rpartition(b"\n")
    if cut:
        with path.open("rb+") as file:
            file.truncate(len(whole) + len(newline))


def chain_faults(lines: list[dict[str, Any]]) -> list[str]:
    """What is wrong with the chain: each line's own digest, its link to the line before, and its number."""
    faults = []
    previous = ""
    for number, line in enumerate(lines, start=1):
        if line.get("sha256") != line_digest(line):
            faults.append(f"line {number} ({line.get('kind')}) was changed: its digest does not match its content")
        if line.get("prev") != previous:
            faults.append(f"line {number} ({line.get('kind')}) does not follow the line before it")
        if line.get("seq") != number:
            faults.append(f"line {number} carries the number {line.get('seq')}")
        previous = line.get("sha256", "")
    return faults

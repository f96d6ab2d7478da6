"""A client's process: pinned to its core, its output kept, its CPU time taken."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from truth import PeerError

#: a client that takes longer than this is given up, s
LIMIT_S = 300
_REASON_LENGTH = 160


@dataclass(frozen=True)
class Finished:
    """A process that ended well: its standard output, and the CPU time of it and of all that it waited for, s."""

    output: str
    cpu: float


def run_child(
    command: Sequence[str],
    core: int | None,
    folder: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Finished:
    """Run a command on one core (None: anywhere), in `folder`. PeerError says why it failed."""

    def pin() -> None:
        if core is not None:
            os.sched_setaffinity(0, {core})

    before = _children_cpu()
    # A session of its own, so that one that hangs is ended with all its helpers.
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
        cwd=folder, env=env, start_new_session=True, preexec_fn=pin,
    )  # fmt: skip
    try:
        output, errors = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        raise PeerError(f"not done after {LIMIT_S} s") from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode != 0:
        raise PeerError(_reason(output, errors) or f"ended with status {process.returncode}")
    return Finished(output, _children_cpu() - before)


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _reason(output: str, errors: str) -> str:
    """The last line that begins with an exception, else the first that speaks of an error, else the last."""
    lines = [line.strip(" │|•") for line in f"{output}\n{errors}".splitlines() if line.strip(" │|•")]
    raised = [line for line in lines if re.match(r"([\w.]*(Error|Exception)|error): ", line)]
    spoken = [line for line in lines if re.search("error", line, re.IGNORECASE)]
    reason = (raised[-1:] or spoken[:1] or lines[-1:] or [""])[0]
    return reason.replace("|", "/")[:_REASON_LENGTH]

"""The guard: a small process between the runner and a server, so that no server outlives its run.

    python guard.py STATUS_FD GRACE_SECONDS COMMAND…

It starts the command in a session of its own and watches its standard input, the other end of which the runner holds.
When that closes, because the runner closed it or because the runner died in whatever way, the guard ends the server:
SIGTERM to its group, SIGKILL after the grace, and then to every process that the server left behind (orphans become
the guard's children, since it is their subreaper). Should the guard itself be killed, the kernel kills the server.
Lines on STATUS_FD: `pid N T` (T: ns of the monotonic clock just before the launch), then `exit CODE`. Standard library
only, and no import of ours, so that it starts at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.05


def main(arguments: list[str]) -> int:
    """Run the command under guard; the exit code is the server's (128 + signal where one ended it)."""
    status_fd, grace = int(arguments[0]), float(arguments[1])
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    launched = time.monotonic_ns()
    try:
        server = subprocess.Popen(
            arguments[2:],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),
        )
    except OSError as error:
        print(f"cannot start {arguments[2]}: {error}", file=sys.stderr, flush=True)
        _say(status_fd, "exit 127")
        return 127
    _say(status_fd, f"pid {server.pid} {launched}")
    while server.poll() is None and not _input_closed():
        pass
    if server.poll() is None:
        _signal_group(server.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(grace)
    _signal_group(server.pid, signal.SIGKILL)
    code = server.wait()
    _end_orphans()
    code = code if code >= 0 else 128 - code
    _say(status_fd, f"exit {code}")
    return code


def _say(fd: int, text: str) -> None:
    # The runner may be gone already.
    with contextlib.suppress(OSError):
        os.write(fd, text.encode() + b"\n")


def _input_closed() -> bool:
    readable, _, _ = select.select([0], [], [], _POLL_S)
    return bool(readable) and os.read(0, 1) == b""


def _signal_group(leader: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _end_orphans() -> None:
    """Kill and reap every process that became the guard's child, until none is left."""
    for _ in range(200):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{os.getpid()}/children") as file:
            for pid in file.read().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.02)
        except ChildProcessError:
            return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

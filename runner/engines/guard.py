"""The guard: a small process between the runner and a server, so that no server outlives its run.

    python -P -m … STATUS_FD GRACE_SECONDS COMMAND…

The first line of its standard input says what secrets there are (Needles as JSON). What the server writes passes
through the guard and is on disk without them at any moment, however the run ends. It starts the command in a session of
its own and watches its standard input, the other end of which the runner holds. When that closes, because the runner
closed it or because the runner died in whatever way, the guard ends the server: SIGTERM to its group, SIGKILL after the
grace, and then to every process that the server left behind (orphans become the guard's children, since it is their
subreaper). Should the guard itself be killed, the kernel kills the server. Lines on STATUS_FD: `pid N T` (T: ns of the
monotonic clock just before the launch), then `exit CODE`. Of ours it imports only what scrubs, so that it starts soon.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time

from ..secrets.scrub import Needles, Stream

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.05
#: how long the last output is waited for, once every process that could write is gone, s
_DRAIN_S = 5.0


def main(arguments: list[str]) -> int:
    """Run the command under guard; the exit code is the server's (128 + signal where one ended it)."""
    status_fd, grace = int(arguments[0]), float(arguments[1])
    line = _first_line()
    if not line.endswith(b"\n"):
        return 130  # the runner is gone already
    needles = Needles.from_json(json.loads(line))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    output, server_output = os.pipe()
    launched = time.monotonic_ns()
    try:
        server = subprocess.Popen(
            arguments[2:],
            stdin=subprocess.DEVNULL,
            stdout=server_output,
            stderr=server_output,
            start_new_session=True,
            preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),
        )
    except OSError as error:
        print(f"cannot start {arguments[2]}: {error}", file=sys.stderr, flush=True)
        _say(status_fd, "exit 127")
        return 127
    os.close(server_output)
    pump = threading.Thread(target=_pass_on, args=(output, Stream(needles)), daemon=True)
    pump.start()
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
    pump.join(_DRAIN_S)
    code = code if code >= 0 else 128 - code
    _say(status_fd, f"exit {code}")
    return code


def _first_line() -> bytes:
    """The first line of standard input, after which nothing comes but its end."""
    line = b""
    while not line.endswith(b"\n") and (piece := os.read(0, 65536)):
        line += piece
    return line


def _pass_on(output: int, stream: Stream) -> None:
    """What the server writes, without secrets, to the log that standard output is."""
    while piece := os.read(output, 65536):
        _write(stream.feed(piece))
    _write(stream.close())


def _write(data: bytes) -> None:
    # A full disk must not stop the server.
    with contextlib.suppress(OSError):
        while data:
            data = data[os.write(1, data) :]


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

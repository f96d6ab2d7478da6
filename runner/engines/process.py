"""A server process under guard: started, watched, ended; nothing of it outlives the run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from ..secrets import log_redactor
from . import guard

#: seconds a server has to end by itself after SIGTERM
GRACE_S = 15.0


class ServerProcess:
    """One started server. `pid` is the server's own (not the guard's), as is `launched_ns`, the monotonic time just
    before it was launched; both are None where it could not be."""

    def __init__(self, argv: list[str], env: dict[str, str], log: Path) -> None:
        read_fd, write_fd = os.pipe()
        with log.open("ab") as output:
            self._guard = subprocess.Popen(
                [sys.executable, "-P", "-m", guard.__name__, str(write_fd), str(GRACE_S), *argv],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **env},
                start_new_session=True,
                pass_fds=(write_fd,),
            )
        os.close(write_fd)
        self._tell(json.dumps(log_redactor().needles.as_json()).encode() + b"\n")
        self._status = os.fdopen(read_fd, "r")
        first = self._status.readline().split()
        there = first[:1] == ["pid"]
        self.pid: int | None = int(first[1]) if there else None
        self.launched_ns: int | None = int(first[2]) if there else None
        self.log = log

    def _tell(self, line: bytes) -> None:
        """Through a pipe, since secrets reach no command line and no file."""
        assert self._guard.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._guard.stdin.write(line)
            self._guard.stdin.flush()

    def alive(self) -> bool:
        """Whether the server still runs."""
        return self._guard.poll() is None

    def exit_code(self) -> int | None:
        """The server's exit code, once it has ended."""
        return self._guard.poll()

    def stop(self) -> None:
        """End the server and all that it started; returns when nothing is left."""
        if self._guard.stdin is not None:
            with contextlib.suppress(OSError):
                self._guard.stdin.close()
        try:
            self._guard.wait(GRACE_S + 10)
        except subprocess.TimeoutExpired:
            self._guard.kill()  # the kernel then kills the server
            self._guard.wait()
        if self._guard.returncode < 0 and self.pid is not None:
            # The guard itself was killed: the server's group may have outlived it.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        self._status.close()

    def log_tail(self, lines: int = 5) -> str:
        """The last lines of the server's log, for an error message."""
        with contextlib.suppress(OSError):
            # The guard has taken secrets out: nothing that is cut here can be the half of one.
            text = self.log.read_bytes()[-8192:].decode("utf-8", "replace")
            return "\n".join(text.strip().splitlines()[-lines:])
        return ""


def free_port(host: str = "127.0.0.1") -> int:
    """A TCP port that nothing uses now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def port_in_use(port: int, host: str = "127.0.0.1") -> bool:
    """Whether something listens on the port already."""
    with socket.socket() as probe:
        # As servers do: a port that only lingers after a close is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False

"""The truth server as a process of its own, and what it says afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
from types import TracebackType
from typing import NamedTuple

import httpx

from ...schema.errors import SystemUnderTestError


class Reply(NamedTuple):
    """A reply as the server saw it: when the request was whole, and when each token was handed to the socket
    (monotonic ns)."""

    arrival: int
    times: list[int]


class Truth:
    """A running truth server: `with Truth() as truth`."""

    def __enter__(self) -> Truth:
        command = [sys.executable, "-P", "-m", "benchcard.runner.instrument.truthserver"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self._process.stdout is not None
        word, _, port = self._process.stdout.readline().partition(" ")
        if word != "port":
            self._process.kill()
            raise SystemUnderTestError("the truth server, which the client is measured against, did not start")
        self.port = int(port)
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=60, trust_env=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._process.pid

    def reset(self, ttft_ms: float, itl_ms: float, lockstep: bool = False) -> None:
        """Forget the log; from now on answer with these times."""
        self._http.get("/reset", params={"ttft": ttft_ms, "itl": itl_ms, "lockstep": int(lockstep)})

    def log(self) -> dict[str, Reply]:
        """Every reply since the last reset, by request id. Raises RuntimeError if a request came twice."""
        found: dict[str, Reply] = {}
        for line in self._http.get("/log").text.splitlines():
            row = json.loads(line)
            if row["id"] in found:
                raise RuntimeError(f"the truth server saw request {row['id']} twice")
            found[row["id"]] = Reply(row["arrival"], row["times"])
        return found

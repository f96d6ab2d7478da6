"""benchcard probe: the collectors of a run, for a server that somebody else runs on this host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from benchcard.runner.engines.process import free_port

from ..cards import benchcard


@pytest.fixture
def engine() -> Iterator[tuple[int, int]]:
    """(process, port) of an embedded engine with a secret in its environment."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "benchcard.runner.engines.simulated", "--port", str(port), "--served-model-name", "m"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "VLLM_API_KEY": "canary-1234-canary", "OMP_NUM_THREADS": "3"},
    )
    assert process.stderr is not None
    process.stderr.readline()
    yield process.pid, port
    process.terminate()
    process.communicate(timeout=30)


def test_a_server_by_its_port_and_by_its_process(engine: tuple[int, int]) -> None:
    pid, port = engine
    texts = [benchcard("probe", "--port", port).stdout, benchcard("probe", "--pid", pid).stdout]
    by_port, by_pid = (json.loads(text) for text in texts)
    assert "canary" not in "".join(texts)
    assert by_port["probe_version"] == 1
    fields = by_port["fields"]
    assert by_port["node"] == fields["node"]["value"]
    assert fields["process.pid"]["value"] == pid
    assert (fields["process.env"]["value"]["OMP_NUM_THREADS"], fields["process.env"]["value"]["VLLM_API_KEY"]) == (
        "3",
        "[redacted]",
    )
    assert fields["engine.config"]["value"]["model_config"]["model"] == "m"
    steady = [
        {name: field for name, field in each["fields"].items() if not field.get("volatile")}
        for each in (by_port, by_pid)
    ]
    assert steady[0] == steady[1]
    for name, field in fields.items():
        assert ("why" in field) == (field["source"] == "unknown"), name


def test_no_such_server() -> None:
    port = free_port()
    message = benchcard("probe", "--port", port, code=2).stderr
    assert message == (
        f"error: a listener on port {port}: not to be seen on this host; run this as the server's user, or as root\n"
    )
    pid = os.getpid()
    message = benchcard("probe", "--pid", pid, "--port", port, code=2).stderr
    assert message == f"error: process {pid}: neither it nor what it started is seen to listen on port {port}\n"
    message = benchcard("probe", code=2).stderr
    assert message == "error: which server? --port PORT (on which it listens), or --pid PID\n"


def test_a_process_without_a_command_line() -> None:
    """One that has ended and was not waited for; kernel threads have none either."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    message = benchcard("probe", "--pid", process.pid, code=2).stderr
    process.wait()
    assert message == (f"error: process {process.pid}: no command line is to be seen; wanted a server's process\n")

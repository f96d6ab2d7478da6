"""A real engine process on a free port, for as long as a test needs it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx
import pytest


@dataclass
class Engine:
    """A running engine: its process, and a client for it."""

    process: subprocess.Popen[str]
    port: int
    http: httpx.Client


StartEngine = Callable[..., Engine]


@pytest.fixture(scope="module")
def start_engine() -> Iterator[StartEngine]:
    """Starts engines with the flags given; ends them all."""
    started: list[Engine] = []

    def start(*flags: str) -> Engine:
        command = [sys.executable, "-m", "benchcard.runner.engines.simulated", "--port", "0", *flags]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)$", line)
        assert found, line
        port = int(found[1])
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30)
        started.append(Engine(process, port, client))
        return started[-1]

    yield start
    for engine in started:
        engine.http.close()
        engine.process.kill()
        engine.process.communicate()

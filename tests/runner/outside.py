"""Servers that a test starts itself, as somebody else's: embedded engines on ports of their own, and a card for two of
them."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
from benchcard.runner.engines.process import free_port

from .cards import LAX

CARD = """\
card: 1
kind: ab
id: two-servers
decision: {{question: "Is the cache worth it?", owner: tests, budget: 2 h}}
claim: {{metric: output_throughput, must_rise_by: 5%, at: [8]}}
system:
  engine: {{kind: openai}}
  model: {{name: atlas-70b}}
arms:
  baseline:
    server: {{url: "{baseline}"{baseline_more}}}
    expect: {{cache_config.enable_prefix_caching: false}}
  candidate:
    server: {{url: "{candidate}"{candidate_more}}}
    expect: {{cache_config.enable_prefix_caching: true}}
identity: {{confounded: {confounded}, treatment: [engine.config.simulated.flags.enable-prefix-caching]}}
workload:
  arrivals: {{process: closed}}
  concurrency: [8]
  endpoint: completions
  window: {{warmup: 4 requests, measure: 12 requests}}
  requests: {{lengths: {{input: 400, output: 6}}}}
  sampling: {{ignore_eos: true}}
{objectives}
method: {{blocks: 6, seed: 3, spare_blocks: {spares}, pause_between_cells: 0 s{method}}}
validity: {{clock_ratio: 20%, client_cpu: 100%, {lax}}}
"""


def two_servers(folder: Path, baseline: str, candidate: str, **changes: str) -> Path:
    """Write a card of two servers; `changes` as its names in braces."""
    given = {
        "baseline": baseline, "candidate": candidate, "baseline_more": "", "candidate_more": "", "confounded": "[]",
        "objectives": "", "spares": "1", "method": "", "lax": LAX,
    }  # fmt: skip
    path = folder / "card.yaml"
    path.write_text(CARD.format(**{**given, **changes}))
    return path


class Deployment:
    """Embedded engines at fixed ports, started with or without a prefix cache; a script can exchange them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = {"a": free_port(), "b": free_port()}

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]}/v1"

    def start(self, name: str, *, caching: bool) -> None:
        """Start an engine at a place, in the place of the one that is there."""
        start_engine(self.folder, self.ports[name], caching=caching)

    def stop(self) -> None:
        """Stop whatever is at the places."""
        for port in self.ports.values():
            stop_engine(self.folder, port)

    def script(self, name: str, *steps: str) -> list[str]:
        """A command that does these steps: `a:on` starts an engine with a cache at place a."""
        path = self.folder / f"{name}.py"
        words = [(self.ports[step[0]], step.endswith("on")) for step in steps]
        path.write_text(
            f"import sys\nfrom pathlib import Path\nsys.path.insert(0, {os.getcwd()!r})\n"
            "from tests.runner.outside import start_engine\n"
            f"print({name!r}, 'runs')\n"
            f"for port, caching in {words!r}:\n"
            f"    start_engine(Path({str(self.folder)!r}), port, caching=caching)\n"
        )
        return [sys.executable, str(path)]


def start_engine(folder: Path, port: int, *, caching: bool) -> None:
    """Start an engine that outlives the caller, and wait until it answers."""
    stop_engine(folder, port)
    switch = "--enable-prefix-caching" if caching else "--no-enable-prefix-caching"
    arguments = ["--port", str(port), "--served-model-name", "atlas-70b", "--speedup", "20", switch]
    command = shlex.join([sys.executable, "-m", "benchcard.runner.engines.simulated", *arguments])
    log = shlex.quote(str(folder / f"{port}.log"))
    # Through a shell that ends, so that it is nobody's child.
    shell = f"exec setsid {command} < /dev/null >> {log} 2>&1 & echo $!"
    started = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True)
    (folder / f"{port}.pid").write_text(started.stdout)
    for _ in range(300):
        try:
            if httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.05)
    raise RuntimeError(f"no engine at {port}")


def stop_engine(folder: Path, port: int) -> None:
    """Stop the engine that `start_engine` started at a port, and wait until the port is free."""
    path = folder / f"{port}.pid"
    if not path.exists():
        return
    pid = int(path.read_text())
    path.unlink()
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    for _ in range(300):
        try:
            httpx.get(f"http://127.0.0.1:{port}/health")
        except httpx.HTTPError:
            return
        time.sleep(0.05)


def lines(run: Path, *kinds: str) -> list[dict[str, Any]]:
    """The lines of a run's log, of these kinds."""
    found = [json.loads(line) for line in (run / "attempts.jsonl").read_text().splitlines()]
    return [line for line in found if not kinds or line["kind"] in kinds]

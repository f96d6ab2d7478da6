"""Small cards for runs that take seconds, with limits that a shared machine can keep: what is tested is not its
speed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

SMALL = """\
card: 1
kind: ab
id: small
decision: {{question: "Does the pipe hold?", owner: tests, budget: 10 min}}
claim: {{metric: goodput, must_rise_by: {threshold}, at: [40 req/s]}}
system:
  engine: {{kind: simulated, costs: atlas, speedup: 10}}
  model: {{name: atlas-70b, context_limit: 32768}}
  flags: {{max-num-seqs: 32, max-num-batched-tokens: 2048, kv-cache: 35 GiB, block-size: 16{flags}}}
  launch: {{ready_within: {ready_within}, restart: {restart}}}
arms:
  baseline:  {{flags: {{enable-prefix-caching: false{baseline}}}}}
  candidate: {{flags: {{{treatment}{candidate}}}}}
workload:
  arrivals: poisson
  loads: [{loads}]
  window: {{warmup: 0.1 s, measure: {measure}, drain: 5 s}}
  requests:
    prefix: {{documents: 4, tokens: 1500, choice: uniform}}
    lengths: {{input: {{median: 60, sigma: 0.3}}, output: {{median: 12, sigma: 0.3}}}}
  client: {{timeout_total: 5 s, timeout_idle: 3 s{client}}}
objectives: {{ttft: {{at_most: 14 ms}}}}
method: {{blocks: 6, seed: 11, spare_blocks: {spares}, pause_between_cells: 0 s}}
validity: {{schedule_lag_p99: 2 s, client_cpu: 100%, clock_ratio: 20%, {lax}}}
"""

#: what a shared machine cannot keep: the client may be late, starved and wrong by much
LAX = (
    "loop_lag_p99: 2 s, client_starved: 100%, coalesced_chunks: 100%, client_error: 1 s, "
    "server_latency: {relative: 100%, absolute: 2 s}, littles_law: 100%"
)

DEFAULTS = {
    "lax": LAX,
    "client": "",
    "threshold": "2%",
    "flags": "",
    "baseline": "",
    "candidate": "",
    "treatment": "enable-prefix-caching: true",
    "loads": "40 req/s",
    "measure": "0.5 s",
    "spares": "2",
    "ready_within": "30 s",
    "restart": "each_arm_in_block",
}


def small_card(folder: Path, **changes: str) -> Path:
    """Write a small ab card; `changes` as in DEFAULTS."""
    path = folder / "card.yaml"
    path.write_text(SMALL.format(**{**DEFAULTS, **changes}))
    return path


def benchcard(*arguments: object, code: int | None = 0, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command line as a person would; its exit code must be `code`, and it never shows a traceback."""
    result = subprocess.run(
        [sys.executable, "-c", "from benchcard.runner.cli import main; main()", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=300,
        check=False,
    )
    assert "Traceback" not in result.stderr + result.stdout, result.stderr
    if code is not None:
        assert result.returncode == code, f"exit {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result


def start_benchcard(*arguments: object) -> subprocess.Popen[str]:
    """The command line, running."""
    return subprocess.Popen(
        [sys.executable, "-c", "from benchcard.runner.cli import main; main()", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def only_run(out: Path) -> Path:
    """The one run below a folder of runs."""
    (run,) = [path for path in out.glob("*/[!.]*") if path.is_dir()]
    return run


def engines_of(run: Path) -> list[int]:
    """Processes of the embedded engine that belong to a run (its log path is on their command line)."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"engines.simulated" in command and str(run).encode() in command:
                found.append(int(entry.name))
    return found


def wait_gone(run: Path, seconds: float = 20) -> list[int]:
    """Wait until no engine of the run is left; returns those that stayed."""
    deadline = time.monotonic() + seconds
    while (left := engines_of(run)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def kill(process: subprocess.Popen[str], number: int = signal.SIGKILL) -> None:
    """Send a signal to the process alone (not to its group) and wait for it."""
    os.kill(process.pid, number)
    process.communicate(timeout=60)

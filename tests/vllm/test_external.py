"""Two real vLLM that somebody else started: identity over HTTP and by the probe, and arms that exchange places."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from benchcard.runner.engines.process import free_port

from .cards import LAX, MODEL, PYTHON, ROOT, benchcard, changed, only_run, require_vllm

CARD = """\
card: 1
kind: ab
id: vllm-external
decision: {{question: "Is the cache worth it?", owner: tests, budget: 2 h}}
claim: {{metric: output_throughput, must_rise_by: 5%, at: [2]}}
system:
  engine: {{kind: openai, version: 0.32.0}}
  model: {{name: smollm2}}
arms:
  baseline:
    server: {{url: "http://127.0.0.1:{a}/v1"{probe_a}}}
    expect: {{cache_config.enable_prefix_caching: false}}
  candidate:
    server: {{url: "http://127.0.0.1:{b}/v1"{probe_b}}}
    expect: {{cache_config.enable_prefix_caching: true}}
identity: {{treatment: ["*enable_prefix_caching", "*enable-prefix-caching"]}}
workload:
  arrivals: {{process: closed}}
  concurrency: [2]
  endpoint: completions
  window: {{warmup: 2 requests, measure: 6 requests}}
  requests: {{lengths: {{input: 40, output: 6}}}}
  sampling: {{temperature: 0.0, ignore_eos: true}}
method: {{blocks: 6, seed: 5, spare_blocks: 1, pause_between_cells: 0 s{method}}}
"""


class Place:
    """An address at which a vLLM runs, with a prefix cache or without."""

    def __init__(self, folder: Path, name: str) -> None:
        self.port, self.pid, self.log = free_port(), folder / f"{name}.pid", folder / f"{name}.log"

    def start(self, caching: bool) -> None:
        """Start it, in the place of the one that is there; it outlives the caller."""
        self.stop()
        switch = "--enable-prefix-caching" if caching else "--no-enable-prefix-caching"
        environment = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_SERVER_DEV_MODE": "1", "HF_HUB_OFFLINE": "1"}
        command = shlex.join([
            str(ROOT / PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--model", str(ROOT / MODEL),
            "--served-model-name", "smollm2", "--dtype", "bfloat16", "--max-model-len", "2048", "--enforce-eager",
            "--host", "127.0.0.1", "--port", str(self.port), switch,
        ])  # fmt: skip
        # Through a shell that ends, so that it is nobody's child.
        shell = f"exec setsid {command} < /dev/null >> {shlex.quote(str(self.log))} 2>&1 & echo $!"
        started = subprocess.run(
            ["sh", "-c", shell], capture_output=True, text=True, check=True, env={**os.environ, **environment}
        )
        self.pid.write_text(started.stdout)

    def wait(self) -> None:
        """Until it answers."""
        for _ in range(1200):
            try:
                if httpx.get(f"http://127.0.0.1:{self.port}/health").status_code == 200:
                    return
            except httpx.HTTPError:
                time.sleep(0.25)
        raise RuntimeError(self.log.read_text()[-4000:])

    def stop(self) -> None:
        """Stop it and all that it started; nothing answers afterwards."""
        if not self.pid.exists():
            return
        os.killpg(int(self.pid.read_text()), signal.SIGKILL)
        self.pid.unlink()
        for _ in range(200):
            try:
                httpx.get(f"http://127.0.0.1:{self.port}/health")
            except httpx.HTTPError:
                return
            time.sleep(0.05)


def exchange(folder: Path, a: Place, b: Place) -> list[str]:
    """A command that gives `a` the cache and takes it from `b`."""
    path = folder / "exchange.py"
    path.write_text(
        f"import sys\nfrom pathlib import Path\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.vllm.test_external import Place\n"
        f"a, b = (Place(Path({str(folder)!r}), name) for name in 'ab')\n"
        f"a.port, b.port = {a.port}, {b.port}\n"
        "a.start(caching=True)\nb.start(caching=False)\na.wait()\nb.wait()\n"
    )
    return [sys.executable, str(path)]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Place, Place]]:
    """A folder and two servers: without a cache, with one."""
    require_vllm()
    folder = tmp_path_factory.mktemp("vllm-external")
    a, b = Place(folder, "a"), Place(folder, "b")
    try:
        a.start(caching=False)
        b.start(caching=True)
        a.wait()
        b.wait()
        yield folder, a, b
    finally:
        a.stop()
        b.stop()


def executed(folder: Path, out: str, **given: object) -> tuple[Path, dict]:
    """A run; its directory and its verdict."""
    lax = changed(LAX, ("littles_law: 100%", "littles_law: 100%, coalesced_chunks: 100%"))
    text = CARD.format(**{"probe_a": "", "probe_b": "", "method": "", **given}) + lax
    (folder / f"{out}.yaml").write_text(text)
    benchcard("run", folder / f"{out}.yaml", "--out", folder / out)
    run = only_run(folder / out)
    return run, json.loads((run / "verdict.json").read_text())


def test_probes_of_both_servers(places: tuple[Path, Place, Place]) -> None:
    """What HTTP does not tell (the weights, the process, its packages) the probe does, and all of it is compared."""
    folder, a, b = places
    for name, place in (("a", a), ("b", b)):
        (folder / f"{name}.json").write_text(benchcard("probe", "--port", place.port))
    run, verdict = executed(folder, "probed", a=a.port, b=b.port, probe_a=", probe: a.json", probe_b=", probe: b.json")
    fields = json.loads((run / "identity" / "candidate.json").read_text())["fields"]
    assert fields["engine.version"]["value"] == "0.32.0"
    assert fields["model.weights_sha256"]["by"] == "probe"
    assert fields["engine.packages"]["by"] == "probe"
    assert {"torch", "transformers"} <= set(fields["engine.packages"]["value"])
    rows = verdict["identity"]["rows"]
    found = {row["field"]: row["class"] for row in rows if row["word"] == "allowed"}
    assert found["engine.cache_config.enable_prefix_caching"] == "treatment"
    assert [row for row in rows if row["word"] == "forbidden"] == []
    assert benchcard("audit", run).splitlines()[-1] == "nothing failed"


def test_arms_exchange_places(places: tuple[Path, Place, Place]) -> None:
    folder, a, b = places
    swap = json.dumps(exchange(folder, a, b))
    method = f", swap: {{after_block: 3, command: {swap}, within: 10 min}}"
    run, verdict = executed(folder, "swapped", a=a.port, b=b.port, method=method)
    lines = [json.loads(line) for line in (run / "attempts.jsonl").read_text().splitlines()]
    at = {line["cell"].rsplit("-", 1)[0]: line["url"] for line in lines if line["kind"] == "cell_started"}
    first, second = f"http://127.0.0.1:{a.port}/v1", f"http://127.0.0.1:{b.port}/v1"
    assert {at[f"b{n:02d}-baseline"] for n in (1, 2, 3)} == {at[f"b{n:02d}-candidate"] for n in (4, 5, 6)} == {first}
    assert {at[f"b{n:02d}-candidate"] for n in (1, 2, 3)} == {at[f"b{n:02d}-baseline"] for n in (4, 5, 6)} == {second}
    assert verdict["verdict"] != "invalid", verdict["sentence"]
    assert benchcard("audit", run).splitlines()[-1] == "nothing failed"

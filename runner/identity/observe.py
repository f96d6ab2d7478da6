"""The identity of an arm: what the card declares, what the running server and its host tell, and what stays unknown.

What contradicts the card's model, version or expectations ends the run before anything is measured: a number from
another system is worse than none. Other differences, between the arms or between two starts of one, are recorded; the
analysis judges them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from ...schema.errors import SystemUnderTestError
from ..engines.launch import is_cold_start, model_name
from ..engines.probe import Probe
from ..secrets import known_keys, mask_values
from . import engine
from .accelerators import NAMES as GPU_NAMES
from .card_facts import (
    declared_fields,
    declared_weights,
    require_expected,
    require_weights,
    served_model,
    tokenizer_facts,
    version_field,
)
from .digests import Digests
from .environment import secret_values
from .fields import Field, Fields, all_unknown, declared, observed, told, unknown, volatile
from .host import client_fields, host_now
from .local import local_fields
from .model import NAMES as MODEL_NAMES
from .neighbours import Neighbours
from .process import NAMES as PROCESS_NAMES
from .process import Tree, environment, find, started

__all__ = ["Server", "identify", "look_again", "tokenizer_facts"]

_HOST_NAMES = (
    *("host.cpu", "host.cores", "host.governor", "host.frequency_max", "host.numa", "host.memory", "host.kernel"),
    *("host.os", "host.firmware", "host.hypervisor", "host.affinity", "node", "pod", "container.image"),
)
_ELSEWHERE = "the server is not started by this run"


@dataclass(frozen=True)
class Server:
    """Which server is looked at: the process that this run launched (None: somebody else runs it), the port on which it
    listens, and the variables that were set for it."""

    pid: int | None
    port: int | None
    env: dict[str, str]


def identify(
    card: dict[str, Any],
    arm: str,
    probe: Probe,
    server: Server,
    digests: Digests,
    tokenizer: Fields | None = None,
) -> Fields:
    """A whole look at a server that has just come up. `tokenizer`: what tokenizer_facts found.

    Raises SystemUnderTestError where the server is not what the card says.
    """
    tree = None if server.pid is None else find(server.pid, server.port)
    said = _said(card, arm, probe, tree)
    if server.pid is None:
        here = _elsewhere(card, probe, said.pop("system", {}))
    else:
        said.pop("system", None)
        here = _here(card, tree, server, digests)
        require_weights(card, arm, here["model.weights_sha256"])
        digests.keep()
    packages = here.get("process.packages") or unknown("")
    fields = {**declared_fields(card, arm), **here, **said, **(tokenizer or {}), **client_fields()}
    package = "benchcard" if card["system"]["engine"]["kind"] == "simulated" else "vllm"
    fields["engine.commit"] = engine.commit(said["engine.version"]["value"], said["engine.env"], packages, package)
    return fields


def look_again(card: dict[str, Any], arm: str, probe: Probe, server: Server, known: Fields) -> Fields | None:
    """What a server tells that was looked at before, and was not restarted since: what can change while it runs, and
    what is asked for in a moment. None where it is another process now, or may be one: that needs a whole look. A
    server that does not answer is measured all the same: its attempts fail, and count.

    Raises SystemUnderTestError where the server is no longer what the card says.
    """
    try:
        probe.models()
    except SystemUnderTestError:
        return {**known, "server.answers": volatile(observed(False))}
    if server.pid is None:
        now = engine.process_start(probe)
        # one that does not tell when its process was started could be another one at any time
        same = now["source"] != "unknown" and now == known.get("process.started")
    else:
        pid = known["process.pid"]["value"]
        same = pid is None or volatile(told(started(pid), "the kernel does not tell")) == known["process.started"]
        now = known["process.started"]
    if not same:
        return None
    config = known["engine.config"].get("value")
    return {
        **known,
        **_version_and_model(card, arm, probe),
        **_cache(card, arm, probe, config),
        "process.started": now,
        **(host_now() if server.pid is not None else {}),
    }


def neighbour_fields(neighbours: Neighbours) -> Fields:
    """Neighbours of this host: whatever is neither this run nor below it."""
    return neighbours.fields([os.getpid()])


def _said(card: dict[str, Any], arm: str, probe: Probe, tree: Tree | None) -> dict[str, Any]:
    """What the server says over HTTP; under `system` what it says of its machine."""
    fields: dict[str, Any] = _version_and_model(card, arm, probe)
    secrets = secret_values(environment(tree) if tree is not None else {})
    resolved, system = engine.resolved_configuration(probe, secrets)
    fields |= resolved
    fields |= _cache(card, arm, probe, resolved["engine.config"].get("value"))
    fields["engine.system_fingerprint"] = _fingerprint(card, probe, resolved["engine.config"])
    return {**fields, "system": system}


def _version_and_model(card: dict[str, Any], arm: str, probe: Probe) -> Fields:
    answer = probe.json(probe.endpoint.root + "/version")
    return {"engine.version": version_field(card, arm, answer), **served_model(card, arm, probe.models())}


def _cache(card: dict[str, Any], arm: str, probe: Probe, config: Any) -> Fields:
    cache = probe.cache_config()
    require_expected(card, arm, cache, config)
    field = told(dict(sorted(cache.items())), "the server exposes no vllm:cache_config_info")
    return {"engine.cache_config": field}


def _fingerprint(card: dict[str, Any], probe: Probe, config: Field) -> Field:
    """The embedded engine tells it with its configuration; another in a short reply, unless first requests are what is
    measured."""
    if card["system"]["engine"]["kind"] == "simulated":
        own = (config.get("value") or {}).get("simulated") or {}
        return told(own.get("system_fingerprint"), "the server's configuration has none")
    if is_cold_start(card):
        return unknown("no request is sent before the first ones, which are measured")
    return engine.fingerprint(probe, model_name(card), card["workload"]["endpoint"])


def _here(card: dict[str, Any], tree: Tree | None, server: Server, digests: Digests) -> Fields:
    """What this host tells of a server that was launched on it."""
    if tree is None:
        why = f"process {server.pid} is not to be seen"
        fields = all_unknown((*PROCESS_NAMES, "engine.packages", *_HOST_NAMES, *GPU_NAMES, *MODEL_NAMES), why)
    else:
        fields = local_fields(tree, digests, server.env, card["system"]["model"].get("path"))
    if fields["model.weights_sha256"]["source"] == "unknown":
        why = "neither a path nor a digest of the weights is on the card"
        why = str(fields["model.weights_sha256"]["why"]) if card["system"]["model"].get("path") else why
        fields["model.weights_sha256"] = declared_weights(card, why)
    return {**fields, "host.same_as_client": observed(True)}


def _elsewhere(card: dict[str, Any], probe: Probe, system: dict[str, Any]) -> Fields:
    """What a server that somebody else runs tells of its host, and what it leaves unknown."""
    fields = all_unknown(
        (*PROCESS_NAMES, "engine.packages", *_HOST_NAMES, *GPU_NAMES, "model.path", *MODEL_NAMES), _ELSEWHERE
    )
    why = "neither a path nor a digest of the weights is on the card"
    return {
        **fields,
        **engine.told_system(system),
        "process.started": engine.process_start(probe),
        "model.weights_sha256": declared_weights(card, why),
        "server.url": declared(mask_values(probe.endpoint.url, known_keys())),
    }

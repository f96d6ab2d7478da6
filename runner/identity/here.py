"""What `benchcard probe` prints: the collectors of a run, for a server that somebody else runs on this host."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

from ...schema.errors import InputError
from ..engines.probe import Endpoint, Probe
from . import engine, procfs
from .digests import Digests
from .environment import secret_values
from .fields import Fields, told
from .local import local_fields
from .neighbours import Neighbours
from .process import Tree, environment, find, started

#: version of the document
PROBE_VERSION = 1


def probe_document(pid: int | None, port: int | None, model: str | None = None) -> dict[str, Any]:
    """{"probe_version", "observed", "node", "fields"}. Raises InputError where there is no such server, or several."""
    tree = _tree(pid, port)
    digests = Digests()
    begun = started(tree.pid)
    since = None if begun is None else datetime.fromisoformat(begun).timestamp()
    fields = local_fields(tree, digests, model=model, since=since)
    digests.keep()
    fields |= _over_http(tree, port)
    packages = fields["process.packages"]
    fields["engine.commit"] = engine.commit(fields["engine.version"]["value"], fields["engine.env"], packages)
    fields |= Neighbours().fields([os.getpid(), tree.pid])
    return {
        "probe_version": PROBE_VERSION,
        "observed": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "node": fields["node"]["value"],
        "fields": dict(sorted(fields.items())),
    }


def _tree(pid: int | None, port: int | None) -> Tree:
    if pid is None and port is None:
        raise InputError("which server? --port PORT (on which it listens), or --pid PID")
    if pid is not None and port is not None and not _listens(pid, port):
        raise InputError(f"process {pid}: neither it nor what it started is seen to listen on port {port}")
    tree = find(pid, port)
    what = " and ".join(
        ([] if pid is None else [f"process {pid}"]) + ([] if port is None else [f"a listener on port {port}"])
    )
    if tree is None:
        raise InputError(f"{what}: not to be seen on this host; run this as the server's user, or as root")
    if not procfs.command_line(tree.pid):
        raise InputError(f"process {tree.pid}: no command line is to be seen; wanted a server's process")
    return tree


def _listens(pid: int, port: int) -> bool:
    return procfs.listening(port, procfs.below(pid, procfs.processes())) is not None


def _over_http(tree: Tree, port: int | None) -> Fields:
    """What the server says of itself on the port: a server that wants a key says nothing here."""
    listened = [port] if port is not None else procfs.ports_of(tree.pid)
    if not listened:
        why = f"process {tree.pid} listens on no port"
        return {name: told(None, why) for name in ("engine.version", "engine.config", "engine.env")}
    root = f"http://127.0.0.1:{listened[0]}"
    probe = Probe(Endpoint(f"{root}/v1", f"{root}/metrics"))
    try:
        resolved, _ = engine.resolved_configuration(probe, secret_values(environment(tree)))
        answer = probe.json(f"{root}/version")
        version = answer.get("version") if isinstance(answer, dict) else None
        cache = dict(sorted(probe.cache_config().items()))
    finally:
        probe.close()
    return {
        "engine.version": told(version, "the server has no /version"),
        **resolved,
        "engine.cache_config": told(cache, "the server exposes no vllm:cache_config_info"),
    }

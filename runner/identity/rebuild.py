"""What another person needs to build the systems of a run again, and what is missing for that. Pure: identities and
the resolved card in, one document out; nothing is looked up, and nothing that is not recorded is filled in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .flat import Fields, Identities, value_of
from .lacking import lacking

REBUILD_VERSION = 1
MASK = "[redacted]"
NOT_RECORDED = "[not recorded]"
#: between the values that one variable has in several processes
_APART = " | "
_NO_NEED = ("host.neighbours", "host.same_as_client")
_SYSTEM = ("container.", "host.", "gpu.", "hardware.", "node", "pod")


def rebuild(run: str, card: Mapping[str, Any], card_digest: str, arms: Identities) -> dict[str, Any]:
    """{"rebuild_version", "run", "card_digest", "card_files", "arms": {arm: what it takes}, "missing": [{"arms",
    "what", "why"}]}."""
    built = {arm: _arm(fields) for arm, fields in arms.items()}
    found: dict[tuple[str, str], list[str]] = {}
    for arm, fields in arms.items():
        for what, why in lacking(fields, built[arm]):
            found.setdefault((what, why), []).append(arm)
    return {
        "rebuild_version": REBUILD_VERSION,
        "run": run,
        "card_digest": card_digest,
        "card_files": sorted(set(_card_files(card))),
        "arms": built,
        "missing": [{"arms": of, "what": what, "why": why} for (what, why), of in found.items()],
    }


def _card_files(value: Any) -> Iterator[tuple[str, str]]:
    """(name on the card, digest) of each file that a card names; the bundle keeps it under inputs/."""
    if isinstance(value, Mapping):
        if {"name", "sha256", "bytes"} <= value.keys():
            yield str(value["name"]), str(value["sha256"])
        for inner in value.values():
            yield from _card_files(inner)
    elif isinstance(value, list):
        for item in value:
            yield from _card_files(item)


def _arm(fields: Fields) -> dict[str, Any]:
    here = value_of(fields, "host.same_as_client") is True
    system = {
        # Of before the server's host was looked at by itself.
        **{f"host.{key}": value_of(fields, f"client.{key}") for key in ("cpu", "cores", "kernel") if here},
        **{
            name: field["value"]
            for name, field in sorted(fields.items())
            if name.startswith(_SYSTEM) and field.get("source") != "unknown" and not field.get("volatile")
        },
    }
    return {
        "engine": {key: value_of(fields, f"engine.{key}") for key in ("kind", "version", "commit")},
        "python": python_of(fields),
        "url": value_of(fields, "server.url"),
        "command": value_of(fields, "process.argv"),
        "environment": _environment(value_of(fields, "process.env")),
        "packages": _packages(fields),
        "model": _model(fields),
        "command_files": value_of(fields, "process.files") or {},
        "system": {
            name: value for name, value in system.items() if name not in ("host.neighbours", "host.same_as_client")
        },
    }


def python_of(fields: Fields) -> dict[str, str] | None:
    """{"version", "from"} of the server's interpreter: the embedded engine's is the client's; another's minor version
    stands in the names of its libraries."""
    own, client = value_of(fields, "process.python"), value_of(fields, "client.python")
    if isinstance(own, str):
        return {"version": own, "from": "the interpreter"}
    if value_of(fields, "engine.kind") == "simulated" and isinstance(client, str):
        return {"version": client, "from": "the client, whose interpreter runs the embedded engine"}
    for name in value_of(fields, "process.libraries") or {}:
        match = re.search(r"\.cpython-(\d)(\d+)-|libpython(\d)\.(\d+)\.so", name)
        if match:
            major, minor = (match[1], match[2]) if match[1] else (match[3], match[4])
            return {"version": f"{major}.{minor}", "from": "the names of its libraries"}
    return None


def _environment(env: Any) -> dict[str, Any]:
    """Variables that can be set again, those whose values are secrets (whole or in part), those recorded by name alone,
    and those that differ between the server's processes."""
    out: dict[str, Any] = {"set": {}, "secret": [], "not_recorded": [], "by_process": {}}
    for name, value in sorted((env or {}).items()):
        if MASK in str(value):
            out["secret"].append(name)
        elif str(value).startswith(NOT_RECORDED[:-1]):
            out["not_recorded"].append(name)
        elif _APART in str(value):
            out["by_process"][name] = str(value).split(_APART)
        else:
            out["set"][name] = str(value)
    return out


def _packages(fields: Fields) -> dict[str, dict[str, Any]]:
    """{distribution: {"version", "pinned_by", …}}: `index` (by version, on a package index), `label` (a local version
    such as 2.9.0+cpu: on its builder's index), `commit`, `folder` (an editable install)."""
    listed = value_of(fields, "process.packages")
    if not isinstance(listed, Mapping):
        versions = value_of(fields, "engine.packages") or {}
        listed = {name: {"version": version} for name, version in versions.items()}
    found = {}
    for name, entry in sorted(listed.items()):
        version = str(entry.get("version"))
        kind = "label" if "+" in version else "index"
        kind = "commit" if entry.get("commit") else kind
        kind = "folder" if entry.get("editable") else kind
        found[name] = {**entry, "version": version, "pinned_by": kind}
    return found


def _stated(value: Any) -> Any:
    """A fact of the card; None where it says `unknown`."""
    return None if isinstance(value, Mapping) and set(value) == {"unknown"} else value


def _model(fields: Fields) -> dict[str, Any]:
    """Names and digests. `files`: {file name: hex digest} of what lies in the model's folder."""
    weights = value_of(fields, "model.weights_sha256")
    argv = value_of(fields, "process.argv") or []
    files = dict(weights) if isinstance(weights, Mapping) else {}
    # Of another folder where the command names one.
    if "--tokenizer" not in argv:
        files |= value_of(fields, "model.tokenizer_files") or {}
    for file, name in (("config.json", "config"), ("generation_config.json", "generation_config")):
        digest = value_of(fields, f"model.{name}_sha256")
        if isinstance(digest, str) and digest.startswith("sha256:") and "--generation-config" not in argv:
            files[file] = digest
    digests = ("chat_template_sha256", "tokenizer_sha256", "draft_weights_sha256")
    return {
        "name": value_of(fields, "model.name"),
        "path": value_of(fields, "model.path"),
        "precision": _stated(value_of(fields, "model.precision")),
        "context_limit": value_of(fields, "model.context_limit"),
        "weights_sha256": weights if isinstance(weights, str) else None,
        **{name: value_of(fields, f"model.{name}") for name in digests},
        "files": {file: str(digest).removeprefix("sha256:") for file, digest in sorted(files.items()) if digest},
    }

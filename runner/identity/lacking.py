"""What is missing for building an arm again: (what, why) for each gap. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .flat import Fields, value_of

_MASK = "[redacted]"
#: what a rebuild stands on; each group with the field without which a bundle is of before it was recorded
_GROUPS = {
    "engine.version": "the engine's version",
    "engine.config": "the engine's resolved configuration",
    "process.argv": "the command",
    "process.env": "the environment",
    "process.packages": "the packages of the server's interpreter",
    "model.weights_sha256": "the digests of the weights",
    "model.tokenizer_files": "the digests of the tokenizer's files",
    "model.chat_template_sha256": "the digest of the chat template",
    "container.image": "the container's image",
    "host.cpu": "the server host's CPU",
    "host.kernel": "the server host's kernel",
    "gpu.driver": "the accelerators' driver",
}
_OLD = "the run is of before this was recorded"

Gap = tuple[str, str]


def lacking(fields: Fields, built: Mapping[str, Any]) -> Iterator[Gap]:
    """The gaps of one arm: facts that nobody told, secrets, places on another machine, packages that no index may
    have."""
    yield from _untold(fields, built)
    yield from _command(built)
    yield from _variables(built["environment"])
    yield from _packages(built["packages"])
    yield from _files(built)


def _untold(fields: Fields, built: Mapping[str, Any]) -> Iterator[Gap]:
    for name, what in _GROUPS.items():
        field = fields.get(name)
        if field is None and built["system"].get(name) is None:
            yield what, _OLD
        elif field is not None and field.get("source") == "unknown":
            yield what, str(field.get("why", "no reason is given"))
    if value_of(fields, "engine.commit") is None:
        yield "the engine's commit", str((fields.get("engine.commit") or {}).get("why", _OLD))
    if built["python"] is None:
        yield "the version of the server's Python", "neither the interpreter nor its libraries told it"


def _command(built: Mapping[str, Any]) -> Iterator[Gap]:
    command = built["command"] or []
    if any(_MASK in part for part in command):
        yield "a secret on the command line", "it is not recorded: put your own in its place"
    places = [part for part in command if is_place(part)]
    if places:
        yield f"files and folders that the command names: {', '.join(places)}", "they lie on the machine of the run"


def is_place(text: str) -> bool:
    """Whether a word of a command is a path on some machine (not an address, not JSON)."""
    return "/" in text and "://" not in text and not text.startswith(("{", "["))


def _variables(env: Mapping[str, Any]) -> Iterator[Gap]:
    if env["secret"]:
        yield f"the values of {', '.join(env['secret'])}", "they are secrets, or hold one"
    if env["not_recorded"]:
        count = len(env["not_recorded"])
        yield f"the values of {count} variable{'s' if count > 1 else ''} that env.sh names", "only names are recorded"
    for name, values in env["by_process"].items():
        yield f"one value of {name}", f"the server's processes had several: {', '.join(values)}"
    places = [name for name, value in env["set"].items() if is_place(value)]
    if places:
        yield f"the places that {', '.join(places)} name", "they lie on the machine of the run"


def _packages(packages: Mapping[str, Mapping[str, Any]]) -> Iterator[Gap]:
    if packages:
        yield (
            f"the archives' hashes of all {len(packages)} packages",
            "an installed package keeps the digests of its files (RECORD), not that of the wheel it came from: each is "
            "pinned by its version, and pip cannot check it",
        )
    for kind, why in (
        ("label", "a local version: it is on its builder's index, not on PyPI"),
        ("commit", "installed from a repository, whose address is not recorded"),
        ("folder", "an editable install: a folder that may have been changed since its commit"),
    ):
        of = [f"{name} {entry['version']}" for name, entry in packages.items() if entry["pinned_by"] == kind]
        if of:
            yield f"the source of {', '.join(of)}", why


def _files(built: Mapping[str, Any]) -> Iterator[Gap]:
    model = built["model"]
    if model["files"]:
        yield (
            "the model's files",
            "a run holds their digests, not the files: models.sha256 says whether yours are the same",
        )
    if model["weights_sha256"]:
        yield "which file the weights' digest is of", "the card tells the digest alone"
    if built["command_files"]:
        names = [name for name in built["command_files"] if not name.startswith("settings of ")]
        yield f"what stands in {', '.join(names)}", "the run holds their digests, not the files"

"""The model that a server really serves: the folder that its command names, and digests of what is in it."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...schema.digest import digest_bytes, digest_json
from .digests import Digests
from .environment import shortened
from .fields import Field, Fields, all_unknown, observed, told, unknown

#: files that hold weights, in the order in which an engine prefers them
_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.pth", "*.gguf")
_FORMATS = {"pt": ("*.bin", "*.pt", "*.pth"), "npcache": ("*.bin", "*.pt", "*.pth"), "gguf": ("*.gguf",)}
_TOKENIZER = (
    *("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "vocab.txt", "merges.txt", "spiece.model", "tekken.json", "*.tiktoken"),
)
_ADAPTERS = "--lora-modules"
#: facts that the files of the model tell
NAMES = (
    *("model.weights_sha256", "model.tokenizer_files", "model.chat_template_sha256", "model.generation_config_sha256"),
    "model.config_sha256",
)


@dataclass(frozen=True)
class Served:
    """What a command says is served: options of the model by name, as they are written last. `seen` turns a path of the
    server's into one that can be opened here. `since`: when the server was started (Unix time, s), where that may be
    long ago: a file that changed later is not what it loaded."""

    model: str | None
    options: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    seen: Callable[[str], Path] = Path
    since: float | None = None


def options_of(argv: list[str]) -> tuple[str | None, dict[str, str]]:
    """(the model that a command names, its options with a value); of an option that is given twice the last counts, as
    for the engine. `vllm serve MODEL` names it by its place."""
    found: dict[str, str] = {}
    for at, (part, after) in enumerate(itertools.zip_longest(argv, argv[1:], fillvalue="--")):
        name, equals, value = part.partition("=")
        if not name.startswith("--"):
            continue
        if equals:
            found[name[2:].replace("_", "-")] = value
        elif not after.startswith("--"):
            found[name[2:].replace("_", "-")] = after
        if name.replace("_", "-") == _ADAPTERS and not equals:
            found[_ADAPTERS[2:]] = "\n".join(_until_option(argv[at + 1 :]))
    model = found.get("model") or found.get("model-path")
    if model is None and "serve" in argv:
        place = argv[argv.index("serve") + 1 :]
        model = place[0] if place and not place[0].startswith("-") else None
    return model, found


def _until_option(argv: list[str]) -> list[str]:
    return list(itertools.takewhile(lambda part: not part.startswith("--"), argv))


def with_file(model: str | None, options: dict[str, str], seen: Callable[[str], Path]) -> Served:
    """What a command says is served, and the file that it names by --config: what the command says counts before it."""
    import yaml

    try:
        told: Any = yaml.safe_load(seen(options["config"]).read_text()) if "config" in options else {}
    except (OSError, ValueError, yaml.YAMLError):
        told = {}
    settings = told.items() if isinstance(told, dict) else ()
    given = {str(name).replace("_", "-"): _as_option(value) for name, value in settings}
    return Served(model or given.get("model"), {**given, **options}, seen=seen)


def _as_option(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(map(_as_option, value))
    return value if isinstance(value, str) else json.dumps(value, default=str)


def model_fields(served: Served, digests: Digests) -> Fields:
    """model.path and the digests of the model's files."""
    if served.model is None:
        return all_unknown(("model.path", *NAMES), "neither the server's command nor the card names a folder")
    where = locate(served.model, served)
    if where is None:
        why = f"{shortened(served.model)}: no such folder on this host, nor in its Hugging Face cache"
        return {"model.path": observed(shortened(served.model)), **all_unknown(NAMES, why)}
    folder, path = where
    named = served.options.get("tokenizer")
    revision = served.options.get("tokenizer-revision")
    tokenizer = (folder, "") if named is None else locate(named, served, revision)
    return {
        "model.path": observed(path),
        "model.weights_sha256": _as_loaded(_weights(folder, digests, served.options), folder, served.since),
        **_words(served, tokenizer, digests),
        "model.generation_config_sha256": _generation(served, folder, digests),
        "model.config_sha256": _config(served, folder, digests),
        **_draft(served, digests),
        **_adapters(served, digests),
    }


def _words(served: Served, tokenizer: tuple[Path, str] | None, digests: Digests) -> Fields:
    """The tokenizer's files and the chat template. Of a tokenizer that is not to be found the model's own says
    nothing."""
    if tokenizer is None:
        why = f"{shortened(served.options['tokenizer'])}: no such folder on this host, nor in its Hugging Face cache"
        template = _chat_template(served, None, digests)
        return {"model.tokenizer_files": unknown(why), "model.chat_template_sha256": template or unknown(why)}
    files, template = _files(tokenizer[0], _TOKENIZER, digests), _chat_template(served, tokenizer[0], digests)
    return {
        "model.tokenizer_files": told(files, "the folder has none that is known"),
        "model.chat_template_sha256": template or unknown("the model has no chat template"),
    }


def locate(name: str, served: Served, revision: str | None = None) -> tuple[Path, str] | None:
    """(the folder or file that can be opened here, its name for the record) of a model that is named by its path or by
    its name on the hub, in the server's cache."""
    here = served.seen(os.path.expanduser(name))
    if here.exists():
        return here, shortened(name)
    if name.count("/") != 1 or name.startswith((".", "/", "~")):
        return None
    caches = served.env.get("XDG_CACHE_HOME") or os.path.join(served.env.get("HOME", os.path.expanduser("~")), ".cache")
    home = served.env.get("HF_HOME") or os.path.join(caches, "huggingface")
    cache = served.options.get("download-dir") or served.env.get("HF_HUB_CACHE") or os.path.join(home, "hub")
    repository = served.seen(os.path.join(cache, "models--" + name.replace("/", "--")))
    revision = revision or served.options.get("revision", "main")
    try:
        commit = (repository / "refs" / revision).read_text().strip()
    except OSError:
        commit = revision
    folder = repository / "snapshots" / commit
    return (folder, f"{name}@{commit}") if folder.is_dir() else None


def _weights(folder: Path, digests: Digests, options: Mapping[str, str] = MappingProxyType({})) -> Field:
    """The files of the kind that the engine loads: the one that --load-format asks for, or the first that is there."""
    asked = _FORMATS.get(options.get("load-format", ""), ())
    if folder.is_file():
        return observed({folder.name: digests.of(folder)})
    for pattern in (*asked, *_WEIGHTS):
        found = _files(folder, (pattern,), digests)
        if found:
            return observed(found)
    return unknown(f"no weights found below {shortened(str(folder))}")


def _as_loaded(weights: Field, folder: Path, since: float | None) -> Field:
    """The weights' digests, unless a file changed after the server was started (to the second)."""
    if since is None or weights["source"] == "unknown":
        return weights
    where = folder.parent if folder.is_file() else folder
    later = [name for name in weights["value"] if (where / name).stat().st_ctime > since + 1]
    if not later:
        return weights
    return unknown(f"{', '.join(later)} changed after the server was started: what it loaded can no longer be read")


def _files(folder: Path, patterns: tuple[str, ...], digests: Digests) -> dict[str, str]:
    folder = folder.parent if folder.is_file() else folder
    files = sorted({file for pattern in patterns for file in folder.glob(pattern) if file.is_file()})
    return {file.name: digests.of(file) for file in files}


def _one(file: Path, digests: Digests) -> str | None:
    return digests.of(file) if file.is_file() else None


def _chat_template(served: Served, folder: Path | None, digests: Digests) -> Field | None:
    """The template that the server was given, or the tokenizer's own: a file of its own, or inside
    tokenizer_config.json (its text, or the canonical JSON of several). None where there is none."""
    given = served.options.get("chat-template")
    if given is not None:
        file = served.seen(given)
        return observed(digests.of(file) if file.is_file() else digest_bytes(given.encode()))
    if folder is None:
        return None
    for name in ("chat_template.jinja", "chat_template.json"):
        if (folder / name).is_file():
            return observed(digests.of(folder / name))
    try:
        template = json.loads((folder / "tokenizer_config.json").read_bytes()).get("chat_template")
    except (OSError, ValueError, AttributeError):
        template = None
    if template is None:
        return None
    return observed(digest_bytes(template.encode()) if isinstance(template, str) else digest_json(template))


def _generation(served: Served, folder: Path, digests: Digests) -> Field:
    """generation_config.json: of the model, of another folder (--generation-config PATH), or none (vllm)."""
    given = served.options.get("generation-config", "auto")
    if given == "vllm":
        return observed("none: --generation-config vllm")
    where = folder if given == "auto" else served.seen(given)
    return told(_one(where / "generation_config.json", digests), "the folder has no generation_config.json")


def _config(served: Served, folder: Path, digests: Digests) -> Field:
    """config.json: of the model, or of another folder (--hf-config-path)."""
    named = served.options.get("hf-config-path")
    where = (folder, "") if named is None else locate(named, served)
    if where is None:
        return unknown(f"{shortened(str(named))}: no such folder on this host, nor in its Hugging Face cache")
    return told(_one(where[0] / "config.json", digests), "the folder has no config.json")


def _draft(served: Served, digests: Digests) -> Fields:
    """The weights of a draft model, where the command names one for speculative decoding."""
    try:
        spec: Any = json.loads(served.options.get("speculative-config", "null"))
    except ValueError:
        return {}
    name = spec.get("model") if isinstance(spec, dict) else None
    where = locate(name, served) if isinstance(name, str) else None
    return {} if where is None else {"model.draft_weights_sha256": _weights(where[0], digests)}


def _adapters(served: Served, digests: Digests) -> Fields:
    """The files of the LoRA adapters that the command names: NAME=PATH, or JSON."""
    found: dict[str, Any] = {}
    for part in filter(None, served.options.get(_ADAPTERS[2:], "").split("\n")):
        name, path = _adapter(part)
        where = locate(path, served)
        if where is None:
            return {"model.adapters": unknown(f"{shortened(path)}: no such folder on this host, nor in its caches")}
        found[name] = _files(where[0], (*_WEIGHTS, "adapter_config.json"), digests)
    return {"model.adapters": observed(found)} if found else {}


def _adapter(text: str) -> tuple[str, str]:
    try:
        told = json.loads(text)
        return str(told["name"]), str(told["path"])
    except (ValueError, KeyError, TypeError):
        name, _, path = text.partition("=")
        return name, path

"""The Python packages of a server's interpreter, read from its site-packages: nothing is imported, nothing is run."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

from . import procfs
from .digests import Digests

#: packages that decide how fast an engine is, and what it answers
ENGINE_PACKAGES = re.compile(
    r"vllm.*|sglang|sgl[-_]kernel|benchcard|torch|torchvision|torchaudio|transformers|tokenizers|triton.*|xformers|flash[-_]attn"
    r"|flashinfer.*|nvidia[-_].*|numpy|ray|safetensors|compressed[-_]tensors|xgrammar|outlines.*|llguidance|lmcache|uvloop"
    r"|fastapi|uvicorn|prometheus[-_]client|pydantic|intel[-_].*|deepspeed|bitsandbytes|tensorrt.*"
)
#: engines whose own source is digested
_ENGINES = ("vllm", "sglang")


def site_folders(pid: int, maps: set[str]) -> list[Path]:
    """The folders in which the process's interpreter finds packages, in the order in which it looks; as this process
    can open them."""
    found = [*_named(procfs.environment(pid).get("PYTHONPATH", ""))]
    found += _of_environment(pid)
    found += sorted({re.sub(r"(/(?:site|dist)-packages)/.*", r"\1", path) for path in maps if "-packages/" in path})
    folders = [folder for path in found if (folder := procfs.seen_by(pid, path)).is_dir()]
    folders += [procfs.seen_by(pid, path) for folder in folders for path in _added(folder)]
    first: dict[str, Path] = {}
    for folder in folders:
        if folder.is_dir():
            # Not by its real path: that of another process's file system is not this one's.
            here = folder.stat()
            first.setdefault(f"{here.st_dev}:{here.st_ino}", folder)
    return list(first.values())


def _added(folder: Path) -> list[str]:
    """Further folders that .pth files of a site-packages name (as Python's `site` reads them)."""
    lines = [line.strip() for file in sorted(folder.glob("*.pth")) for line in _lines(file)]
    return [os.path.join(folder, line) for line in lines if line and not line.startswith(("#", "import ", "import\t"))]


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _named(path: str) -> list[str]:
    return [folder for folder in path.split(os.pathsep) if folder]


def _of_environment(pid: int) -> list[str]:
    """site-packages beside the interpreter that was called: of its virtual environment, where it has one."""
    command = procfs.command_line(pid)
    if not command:
        return []
    program = command[0]
    if os.sep not in program:
        folders = _named(procfs.environment(pid).get("PATH", ""))
        there = (f"{folder}/{program}" for folder in folders if procfs.seen_by(pid, f"{folder}/{program}").exists())
        program = next(there, procfs.link(pid, "exe") or program)
    if not os.path.basename(program).startswith(("python", "pypy")):
        return []
    prefix = os.path.dirname(os.path.dirname(program)) or "."
    config = dict(line.partition(" = ")[::2] for line in _lines(procfs.seen_by(pid, f"{prefix}/pyvenv.cfg")))
    prefixes = [prefix]
    if config.get("include-system-site-packages") == "true":
        prefixes.append(os.path.dirname(config.get("home", "")))
    return [
        os.path.join(each, folder.relative_to(root))
        for each in prefixes
        for root in [procfs.seen_by(pid, each)]
        for folder in sorted(root.glob("lib/python3*/site-packages"))
    ]


def packages(folders: list[Path], digests: Digests) -> dict[str, dict[str, Any]]:
    """{distribution: {"version", "record_sha256"[, "commit"][, "editable"]}} of each *.dist-info in the folders. Of two
    of one name the first counts, as it does for an import. RECORD lists the digest of each installed file."""
    found: dict[str, dict[str, Any]] = {}
    for folder in folders:
        for info in sorted(folder.glob("*.dist-info")):
            name, _, version = info.name.removesuffix(".dist-info").rpartition("-")
            key = re.sub(r"[-_.]+", "-", name).lower()
            if not key or key in found:
                continue
            entry: dict[str, Any] = {"version": version, "record_sha256": None}
            try:
                entry["record_sha256"] = digests.of(info / "RECORD")
            except OSError:
                entry["why"] = "no RECORD"
            found[key] = entry | _origin(info / "direct_url.json")
    return dict(sorted(found.items()))


def _origin(file: Path) -> dict[str, Any]:
    """The commit that a package was installed from (PEP 610), and whether it is a folder that can change under it."""
    try:
        origin = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    commit = (origin.get("vcs_info") or {}).get("commit_id")
    if not (origin.get("dir_info") or {}).get("editable"):
        return {"commit": commit} if commit else {}
    folder = Path(str(origin.get("url", "")).removeprefix("file://"))
    commit = commit or checked_out(folder)
    return {"editable": True, **({"commit": commit} if commit else {})}


def sources(folders: list[Path], digests: Digests) -> dict[str, str]:
    """{"vllm.v1": digest} of an engine's own Python files as they are, by part of its package: a file that was edited
    after it was installed, or in an editable folder, is another in no RECORD and no commit. Each digest is of the lines
    `PATH DIGEST` of the part's files, in the order of their paths; `unreadable` stands for a digest that cannot be
    had."""
    found: dict[str, Any] = {}
    for package in _ENGINES:
        places = (place / package for place in (*folders, *_editable(folders, package)))
        root = next((place for place in places if (place / "__init__.py").is_file()), None)
        for file in sorted(root.rglob("*.py")) if root is not None else ():
            path = file.relative_to(root)  # type: ignore[arg-type]
            part = f"{package}.{path.parts[0]}" if len(path.parts) > 1 else package
            try:
                digest = digests.of(file)
            except OSError:  # gone since, or not ours to read: it was there all the same
                digest = "unreadable"
            found.setdefault(part, hashlib.sha256()).update(f"{path.as_posix()} {digest}\n".encode())
    return {part: f"sha256:{digest.hexdigest()}" for part, digest in found.items()}


def _editable(folders: list[Path], package: str) -> list[Path]:
    """The folders that a package was installed from, where it is an editable install."""
    found = []
    for info in (info for folder in folders for info in sorted(folder.glob(f"{package}*.dist-info"))):
        if _origin(info / "direct_url.json").get("editable"):
            url = json.loads((info / "direct_url.json").read_bytes())["url"]
            root = Path(str(url).removeprefix("file://"))
            found += [root, root / "src", root / "python"]
    return found


def checked_out(folder: Path) -> str | None:
    """The commit that a folder's git repository has checked out; what was changed since is not told."""
    try:
        head = (folder / ".git" / "HEAD").read_text().strip()
        if not head.startswith("ref: "):
            return head or None
        ref = head.removeprefix("ref: ")
        loose = folder / ".git" / ref
        if loose.exists():
            return loose.read_text().strip()
        packed = (folder / ".git" / "packed-refs").read_text().splitlines()
        return next((line.split()[0] for line in packed if line.endswith(f" {ref}")), None)
    except OSError:
        return None


def that_matter(found: dict[str, dict[str, Any]]) -> dict[str, str]:
    """{distribution: version} of those that an engine's speed and answers depend on."""
    return {name: str(entry["version"]) for name, entry in found.items() if ENGINE_PACKAGES.fullmatch(name)}

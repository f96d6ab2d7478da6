"""The server's process: the one that listens on the port, and what it started.

A launched command may be a shell script that starts the server; an engine's workers are processes below it. What counts
is what the kernel says of the process that answers: its command, its environment, its libraries.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...schema.digest import digest_file
from . import procfs
from .digests import Digests
from .environment import APART, recorded_argv, recorded_config, recorded_env, secret_values, shortened
from .fields import Fields, all_unknown, observed, told, unknown, volatile
from .packages import packages, site_folders, sources, that_matter

#: the facts of a process; all of them unknown where it cannot be looked at
NAMES = (
    *("process.pid", "process.started", "process.executable_sha256", "process.libraries", "process.argv"),
    *("process.files", "process.env", "process.packages"),
)
#: variables that name a file of settings (LMCACHE_CONFIG_FILE, VLLM_LOGGING_CONFIG_PATH, NCCL_TOPO_FILE)
_NAMES_A_FILE = re.compile(r"^(?:VLLM|SGLANG|LMCACHE|NCCL|TORCH|UCX)\w*_(?:CONFIG|CONF|TOPO)(?:_FILE|_PATH)?$")


@dataclass(frozen=True)
class Tree:
    """A server's processes. `pid` listens; `chain` leads from the one that was launched to it; `workers` are below
    it."""

    pid: int
    chain: tuple[int, ...]
    workers: tuple[int, ...]

    @property
    def all(self) -> tuple[int, ...]:
        """The listening process and its workers."""
        return (self.pid, *self.workers)


def find(pid: int | None, port: int | None) -> Tree | None:
    """The server below a launched process, or the one that listens on the port. None if there is none to be seen."""
    there = procfs.processes()
    family = procfs.below(pid, there) if pid is not None else sorted(there)
    server = procfs.listening(port, family) if port is not None else None
    server = server if server is not None or pid is None else (family[0] if family else None)
    if server is None:
        return None
    chain = [server]
    while pid is not None and chain[0] != pid and chain[0] in there:
        chain.insert(0, there[chain[0]].parent)
    return Tree(server, tuple(chain), tuple(procfs.below(server, there)[1:]))


def process_fields(tree: Tree, digests: Digests, named: Iterable[str] = ()) -> Fields:
    """process.* and engine.packages. `named`: variables of the environment that the card names."""
    pid = tree.pid
    if not procfs.command_line(pid):
        why = f"process {pid} cannot be looked at: it is gone, or it belongs to another user"
        return {**all_unknown(NAMES, why), "engine.packages": unknown(why)}
    maps = set().union(*(procfs.mapped_files(each) for each in tree.all))
    folders = site_folders(pid, maps)
    installed, source = packages(folders, digests), sources(folders, digests)
    env = environment(tree)
    secrets = secret_values(env)
    no_python = "the server's interpreter has no packages that could be found"
    return {
        "process.pid": volatile(observed(pid)),
        "process.started": volatile(told(started(pid), "the kernel does not tell")),
        "process.executable_sha256": _executable(pid, digests),
        "process.libraries": told(_libraries(pid, maps, digests), "the kernel shows none"),
        "process.argv": observed(recorded_argv(procfs.command_line(pid), secrets)),
        "process.files": observed(_named_files(tree, digests, secrets)),
        "process.env": told(recorded_env(env, named), "the kernel does not show it"),
        "process.packages": told(installed, no_python),
        "engine.packages": told(that_matter(installed), no_python),
        **({"engine.source": observed(source)} if source else {}),
    }


def environment(tree: Tree) -> dict[str, str]:
    """The environment of the listening process, and what its workers have beside it. Where two workers differ (a rank,
    a device), the values stand side by side."""
    own = procfs.environment(tree.pid)
    others: dict[str, set[str]] = {}
    for worker in tree.workers:
        for name, value in procfs.environment(worker).items():
            if own.get(name) != value:
                others.setdefault(name, set()).add(value)
    beside = {name: [own[name]] if name in own else [] for name in others}
    return {**own, **{name: APART.join([*beside[name], *sorted(values)]) for name, values in others.items()}}


def started(pid: int) -> str | None:
    """When a process was started, ISO 8601, UTC."""
    found = procfs.stat(pid)
    try:
        lines = (procfs.PROC / "stat").read_text().splitlines()
        boot = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
    except (OSError, StopIteration):
        return None
    if found is None:
        return None
    at = boot + found.started / os.sysconf("SC_CLK_TCK")
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _executable(pid: int, digests: Digests) -> dict[str, Any]:
    path = procfs.link(pid, "exe")
    if path is None:
        return unknown("the program cannot be read: the process is gone, or it belongs to another user")
    try:
        if path.endswith(" (deleted)"):
            return observed(digest_file(procfs.PROC / str(pid) / "exe"))
        return observed(digests.of(procfs.seen_by(pid, path)))
    except OSError as error:
        return unknown(f"the program cannot be read: {error.strerror}")


def _libraries(pid: int, maps: set[str], digests: Digests) -> dict[str, str | None]:
    """{base name: digest} of the mapped files; of several of one name that differ, by folder and name. A file that was
    replaced since it was mapped has none: what runs can no longer be read."""
    by_name: dict[str, dict[str, str | None]] = {}
    for path in sorted(maps):
        plain = path.removesuffix(" (deleted)")
        try:
            digest = None if plain != path else digests.of(procfs.seen_by(pid, path))
        except OSError:
            digest = None
        by_name.setdefault(os.path.basename(plain), {})[plain] = digest
    found: dict[str, str | None] = {}
    for name, paths in by_name.items():
        alike = len(set(paths.values())) == 1
        for path, digest in paths.items():
            found[name if alike else f"{os.path.basename(os.path.dirname(path))}/{name}"] = digest
    return dict(sorted(found.items()))


def _named_files(tree: Tree, digests: Digests, secrets: Iterable[str]) -> dict[str, Any]:
    """The files that the commands name, from the launched one to the server: {as it is written: digest}, for scripts,
    templates, configurations; and those that variables of the server name: {the variable: digest}. Of a YAML or JSON
    configuration (--config FILE) its content stands there too, so that a flag given in it has a name."""
    found: dict[str, Any] = {}
    for pid in tree.chain:
        before = ""
        for part in procfs.command_line(pid)[1:]:
            option, equals, value = part.partition("=")
            name = value if equals and option.startswith("--") else part
            path = procfs.seen_by(pid, name)
            if name and not name.startswith("-") and before != "--log" and _is_small(path):
                key = shortened(name)
                found[key] = digests.of(path)
                if (option if equals else before) == "--config":
                    found[f"settings of {key}"] = _settings(path, secrets)
            before = part
    for name, value in procfs.environment(tree.pid).items():
        if _NAMES_A_FILE.search(name) and os.path.isabs(value) and _is_small(path := procfs.seen_by(tree.pid, value)):
            found[name] = digests.of(path)
    return found


def _is_small(path: Path) -> bool:
    """Weights stand under the model; a program under the process."""
    try:
        return path.is_file() and path.stat().st_size <= 1 << 24 and os.access(path, os.R_OK)
    except (OSError, ValueError):
        return False


def _settings(path: Path, secrets: Iterable[str]) -> Any:
    import yaml

    try:
        return recorded_config(yaml.safe_load(path.read_text()), secrets)
    except (OSError, ValueError, yaml.YAMLError):
        return None

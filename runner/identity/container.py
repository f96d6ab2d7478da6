"""The container that a process runs in, if it runs in one: from its control groups, its mounts and its environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from . import procfs
from .fields import Field, Fields, observed, told, unknown, volatile
from .host import mark

_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
#: variables in which people hand an image's digest to what runs in it
_IMAGE = ("CONTAINER_IMAGE_DIGEST", "IMAGE_DIGEST", "CONTAINER_IMAGE", "DOCKER_IMAGE", "IMAGE", "VLLM_IMAGE_TAG")


def container_fields(pid: int, env: Mapping[str, str]) -> Fields:
    """container.* and pod of the process with this id, which has this environment."""
    groups = _read(pid, "cgroup")
    found = container_id(groups, _read(pid, "mountinfo"))
    inside = found is not None or bool(_signs(pid, groups))
    image = next((env[name] for name in _IMAGE if env.get(name)), None)
    if not inside:
        none = observed("none")
        return {"container.image": none, "container.id": volatile(none), "container.limits": none, "pod": _pod(env)}
    why = f"a container does not tell its image; an environment variable can ({_IMAGE[0]})"
    return {
        "container.image": told(image, why),
        "container.id": volatile(told(found, "neither its control groups nor its mounts tell")),
        "container.limits": told(_limits(pid, groups), "no control group of it can be read"),
        "pod": _pod(env),
    }


def container_id(groups: str, mounts: str) -> str | None:
    """The 64 hex digits by which a runtime knows its container: in the path of a control group, or of a file that the
    runtime mounts into it (hostname, resolv.conf)."""
    for line in groups.splitlines():
        if match := _ID.search(line):
            return match[0]
    for line in mounts.splitlines():
        part = line.split()
        given = len(part) > 4 and part[4] in ("/etc/hostname", "/etc/hosts", "/etc/resolv.conf")
        if given and (match := _ID.search(part[3])):
            return match[0]
    return None


def _signs(pid: int, groups: str) -> list[str]:
    """What speaks for a container where none tells its id."""
    files = [name for name in ("/.dockerenv", "/run/.containerenv") if procfs.seen_by(pid, name).exists()]
    return files + re.findall(r"docker|kubepods|containerd|libpod|lxc", groups)


def _pod(env: Mapping[str, str]) -> Field:
    if "KUBERNETES_SERVICE_HOST" not in env:
        return observed("none")
    name = env.get("POD_UID") or env.get("POD_NAME") or env.get("HOSTNAME")
    return observed(mark(name)) if name else unknown("it runs in Kubernetes, and its environment does not name its pod")


def _limits(pid: int, groups: str) -> dict[str, str]:
    """What its control group allows it: processor time and memory. cgroup v2, as the process's file system shows it."""
    path = next((line.split("::", 1)[1] for line in groups.splitlines() if line.startswith("0::")), "/")
    found = {}
    for name in ("cpu.max", "cpuset.cpus.effective", "memory.max"):
        for folder in (Path("/sys/fs/cgroup") / path.lstrip("/"), procfs.seen_by(pid, "/sys/fs/cgroup")):
            try:
                found[name] = (folder / name).read_text().strip()
                break
            except OSError:
                continue
    return found


def _read(pid: int, name: str) -> str:
    try:
        return (procfs.PROC / str(pid) / name).read_text(errors="replace")
    except OSError:
        return ""

"""The host that a process runs on: processor, memory, kernel, firmware, where the process may run; from /proc and
/sys."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from pathlib import Path
from typing import Any

from . import procfs
from .fields import Field, Fields, observed, told, unknown, volatile

_CPUS = Path("/sys/devices/system/cpu")
_DMI = Path("/sys/class/dmi/id")
_NODES = Path("/sys/devices/system/node")
#: what the maker's name or the product's in the firmware says of a virtual machine
_MACHINES = (
    ("KVM", "KVM"), ("QEMU", "QEMU"), ("VMware", "VMware"), ("VirtualBox", "VirtualBox"), ("Xen", "Xen"),
    ("Amazon EC2", "Amazon EC2"), ("Google Compute Engine", "Google Compute Engine"), ("Virtual Machine", "Hyper-V"),
    ("OpenStack", "OpenStack"), ("Bochs", "Bochs"),
)  # fmt: skip


def host_fields(pid: int) -> Fields:
    """host.* and node, as the process with this id has them."""
    cpu = _first_cpu()
    return {
        "host.cpu": told(cpu.get("model name") or platform.machine(), "the kernel does not name it"),
        "host.cores": observed(os.cpu_count()),
        "host.smt": told(_text(_CPUS / "smt" / "active"), "the kernel does not tell"),
        "host.governor": _of_each_cpu("scaling_governor", str),
        "host.frequency_max": _of_each_cpu("cpuinfo_max_freq", lambda text: int(text) * 1000),
        "host.frequency": volatile(_frequency()),
        "host.numa": told(
            {node.name: _text(node / "cpulist") for node in sorted(_NODES.glob("node[0-9]*"))},
            "the kernel shows no NUMA nodes",
        ),
        "host.memory": told(_memory("MemTotal"), "the kernel does not tell"),
        "host.memory_available": volatile(told(_memory("MemAvailable"), "the kernel does not tell")),
        "host.transparent_hugepages": _hugepages(),
        "host.kernel": observed(platform.release()),
        "host.os": told(_os(pid), "the server's file system has no /etc/os-release"),
        "host.firmware": _firmware(cpu),
        "host.hypervisor": _hypervisor(cpu),
        "host.affinity": _affinity(pid),
        "node": node(),
    }


def host_now() -> Fields:
    """Those of host.* that change from moment to moment."""
    return {
        "host.frequency": volatile(_frequency()),
        "host.memory_available": volatile(told(_memory("MemAvailable"), "the kernel does not tell")),
    }


def node() -> Field:
    """A mark of this machine by which it is known again, and which does not name it."""
    machine = _text(Path("/etc/machine-id"))
    if not machine:
        return unknown("the machine has no /etc/machine-id")
    return observed(mark(f"{machine}\n{platform.node()}"))


def mark(name: str) -> str:
    """The first 16 hex digits of a name's SHA-256."""
    return "sha256:" + hashlib.sha256(name.encode()).hexdigest()[:16]


def client_fields() -> Fields:
    """client.*: the host that the load came from."""
    return {
        "client.cpu": observed(_first_cpu().get("model name") or platform.processor() or "unknown"),
        "client.cores": observed(os.cpu_count()),
        "client.kernel": observed(platform.release()),
        "client.python": observed(platform.python_version()),
        "client.node": node(),
    }


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:
        return None


def _first_cpu() -> dict[str, str]:
    lines = (_text(Path("/proc/cpuinfo")) or "").split("\n\n")[0].splitlines()
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _of_each_cpu(file: str, read: Any) -> Field:
    """What cpufreq says: one value where all processors have the same, else by processor."""
    values = {
        path.parent.parent.name: read(text)
        for path in sorted(_CPUS.glob(f"cpu[0-9]*/cpufreq/{file}"))
        if (text := _text(path)) is not None
    }
    if not values:
        return unknown("the kernel has no cpufreq here (virtual machines seldom have)")
    return observed(next(iter(values.values())) if len(set(values.values())) == 1 else values)


def _frequency() -> Field:
    """Clock frequencies of this moment, Hz, by processor."""
    blocks = (_text(Path("/proc/cpuinfo")) or "").split("\n\n")
    found = [match for block in blocks if (match := re.search(r"^cpu MHz\s*:\s*([\d.]+)", block, re.MULTILINE))]
    return told([round(float(match[1]) * 1e6) for match in found], "the kernel does not tell")


def _memory(name: str) -> int | None:
    match = re.search(rf"^{name}:\s*(\d+) kB", _text(Path("/proc/meminfo")) or "", re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def _hugepages() -> Field:
    match = re.search(r"\[(\w+)\]", _text(Path("/sys/kernel/mm/transparent_hugepage/enabled")) or "")
    return told(match[1] if match else None, "the kernel does not tell")


def _os(pid: int) -> str | None:
    text = _text(procfs.seen_by(pid, "/etc/os-release")) or ""
    match = re.search(r'^PRETTY_NAME="?([^"\n]*)', text, re.MULTILINE)
    return match[1] if match else None


def _firmware(cpu: dict[str, str]) -> Field:
    """Makers, products and versions from DMI, and the processor's microcode; no serial numbers."""
    names = ("sys_vendor", "product_name", "board_name", "bios_vendor", "bios_version", "bios_date")
    found = {name: text for name in names if (text := _text(_DMI / name)) is not None}
    if "microcode" in cpu:
        found["microcode"] = cpu["microcode"]
    return told(found, "the machine shows no DMI table, and its kernel no microcode")


def _hypervisor(cpu: dict[str, str]) -> Field:
    kind = _text(Path("/sys/hypervisor/type"))
    if kind is not None:
        return observed(kind)
    told_by = " ".join(_text(_DMI / name) or "" for name in ("sys_vendor", "product_name", "bios_vendor"))
    named = next((name for sign, name in _MACHINES if sign in told_by), None)
    if named is not None:
        return observed(named)
    flags = cpu.get("flags", "").split()
    if not flags:
        return unknown("the kernel shows no flags of the processor")
    return observed("a hypervisor that does not name itself" if "hypervisor" in flags else "none")


def _affinity(pid: int) -> Field:
    """The processors and the NUMA nodes that the process may use, and its niceness."""
    found = procfs.status(pid)
    if "Cpus_allowed_list" not in found:
        return unknown(f"process {pid} cannot be looked at")
    value: dict[str, Any] = {"cpus": found["Cpus_allowed_list"], "memory_nodes": found.get("Mems_allowed_list")}
    try:
        value["nice"] = os.getpriority(os.PRIO_PROCESS, pid)
    except OSError:
        value["nice"] = None
    return observed(value)

"""NVIDIA accelerators, through nvidia-ml-py (the module `pynvml`) where it is installed and a device is there."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from .fields import Fields, all_unknown, observed, told, volatile

NAMES = (
    *("gpu.count", "gpu.model", "gpu.uuid", "gpu.driver", "gpu.vbios", "gpu.clocks", "gpu.power_limit", "gpu.ecc"),
    *("gpu.mig", "gpu.memory", "gpu.topology"),
)
#: nvmlGpuTopologyLevel_t, as `nvidia-smi topo -m` abbreviates it
_LEVELS = {0: "internal", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
_MOST_LINKS = 18
#: there wherever the kernel has loaded NVIDIA's driver
_DRIVER = Path("/proc/driver/nvidia")


def accelerator_fields(pids: Iterable[int] = (), module: Any = None) -> Fields:
    """gpu.*: of the devices that these processes use, or of all if none is seen to use one. `module` is pynvml (a test
    gives its own)."""
    if module is None:
        try:
            module = importlib.import_module("pynvml")
        except ImportError:
            why = "nvidia-ml-py is not installed, so no NVIDIA device can be asked"
            return all_unknown(NAMES, why if _DRIVER.exists() else "this host shows no NVIDIA driver")
    try:
        module.nvmlInit()
    except module.NVMLError as error:
        return all_unknown(NAMES, f"no NVIDIA driver answers ({_plain(error)})")
    try:
        handles = [module.nvmlDeviceGetHandleByIndex(number) for number in range(module.nvmlDeviceGetCount())]
        if not handles:
            return {**all_unknown(NAMES, "there is no NVIDIA device"), "gpu.count": observed(0)}
        used = [handle for handle in handles if _uses(module, handle, set(pids))]
        return _fields(module, used or handles)
    except module.NVMLError as error:
        return all_unknown(NAMES, f"the NVIDIA driver does not answer ({_plain(error)})")
    finally:
        module.nvmlShutdown()


def _uses(module: Any, handle: Any, pids: set[int]) -> bool:
    running = _ask(module, module.nvmlDeviceGetComputeRunningProcesses, handle) or []
    return any(process.pid in pids for process in running)


def _fields(module: Any, handles: list[Any]) -> Fields:
    def each(question: Callable[[Any], Any]) -> Any:
        """The answer of all devices if they agree, else one a device."""
        answers = [_ask(module, question, handle) for handle in handles]
        if all(answer is None for answer in answers):
            return None
        return answers[0] if all(answer == answers[0] for answer in answers) else answers

    silent = "the device does not tell"
    uuids = [_ask(module, module.nvmlDeviceGetUUID, handle) for handle in handles]
    return {
        "gpu.count": observed(len(handles)),
        "gpu.model": told(each(lambda h: _text(module.nvmlDeviceGetName(h))), silent),
        "gpu.uuid": told([_text(uuid) for uuid in uuids if uuid is not None], silent),
        "gpu.driver": told(_text(_ask(module, module.nvmlSystemGetDriverVersion)), silent),
        "gpu.vbios": told(each(lambda h: _text(module.nvmlDeviceGetVbiosVersion(h))), silent),
        "gpu.memory": told(each(lambda h: int(module.nvmlDeviceGetMemoryInfo(h).total)), silent),
        "gpu.clocks": told(_clocks(module, each), silent),
        "gpu.clocks_now": volatile(told(each(lambda h: _clock(module, module.nvmlDeviceGetClockInfo, h)), silent)),
        "gpu.power_limit": told(each(lambda h: module.nvmlDeviceGetEnforcedPowerLimit(h) / 1000), silent),
        "gpu.ecc": told(each(lambda h: bool(module.nvmlDeviceGetEccMode(h)[0])), silent),
        "gpu.mig": told(each(lambda h: bool(module.nvmlDeviceGetMigMode(h)[0])), silent),
        "gpu.topology": told(_topology(module, handles), "one device has no topology"),
    }


def _clocks(module: Any, each: Callable[[Callable[[Any], Any]], Any]) -> dict[str, Any]:
    """The highest clocks and the application clocks, MHz."""
    found = {
        "max": each(lambda h: _clock(module, module.nvmlDeviceGetMaxClockInfo, h)),
        "applications": each(lambda h: _clock(module, module.nvmlDeviceGetApplicationsClock, h)),
    }
    return {name: value for name, value in found.items() if value is not None}


def _clock(module: Any, question: Callable[[Any, Any], Any], handle: Any) -> dict[str, Any]:
    kinds = {"graphics": module.NVML_CLOCK_GRAPHICS, "sm": module.NVML_CLOCK_SM, "memory": module.NVML_CLOCK_MEM}
    return {name: question(handle, kind) for name, kind in kinds.items()}


def _topology(module: Any, handles: list[Any]) -> dict[str, str]:
    """How each pair of devices is connected: by NVLinks, or over which part of the PCIe tree."""
    found = {}
    for a, first in enumerate(handles):
        for b, second in enumerate(handles[a + 1 :], start=a + 1):
            links = _links(module, first, second)
            level = _ask(module, module.nvmlDeviceGetTopologyCommonAncestor, first, second)
            found[f"{a}-{b}"] = f"NV{links}" if links else _LEVELS.get(level, str(level))
    return found


def _links(module: Any, first: Any, second: Any) -> int:
    """Active NVLinks from one device to another."""
    there = _ask(module, module.nvmlDeviceGetPciInfo, second)
    count = 0
    for link in range(_MOST_LINKS):
        if not _ask(module, module.nvmlDeviceGetNvLinkState, first, link):
            continue
        remote = _ask(module, module.nvmlDeviceGetNvLinkRemotePciInfo, first, link)
        count += there is not None and remote is not None and remote.busId == there.busId
    return count


def _ask(module: Any, question: Callable[..., Any], *arguments: Any) -> Any:
    """The answer, or None where this device or this driver has none."""
    try:
        return question(*arguments)
    except (module.NVMLError, AttributeError):
        return None


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _plain(error: Exception) -> str:
    return str(error) or type(error).__name__

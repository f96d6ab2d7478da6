"""NVIDIA accelerators through nvidia-ml-py (module pynvml), where it is installed and a GPU is there.

What a device does not tell (many do not tell all, a MIG slice tells little) is left out, number by number.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from .host import Sample, labels

Looked = list[tuple[str, str, float]]

#: numbers of NVML's enumerations (nvml.h): they never change
_TEMPERATURE_GPU, _CLOCK_SM, _CLOCK_MEMORY = 0, 1, 2

_Read = Callable[[Any, Any], float]


def _reasons(nvml: Any, device: Any) -> float:
    """The bit mask of why clocks are below the highest; a driver before 535 knows it by its old name."""
    current = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    return float((current or nvml.nvmlDeviceGetCurrentClocksThrottleReasons)(device))


#: name -> how it is read, in the unit of its name
_READINGS: dict[str, _Read] = {
    "gpu_utilization_ratio": lambda nvml, device: nvml.nvmlDeviceGetUtilizationRates(device).gpu / 100,
    "gpu_sm_clock_hertz": lambda nvml, device: nvml.nvmlDeviceGetClockInfo(device, _CLOCK_SM) * 1e6,
    "gpu_memory_clock_hertz": lambda nvml, device: nvml.nvmlDeviceGetClockInfo(device, _CLOCK_MEMORY) * 1e6,
    "gpu_temperature_celsius": lambda nvml, device: float(nvml.nvmlDeviceGetTemperature(device, _TEMPERATURE_GPU)),
    "gpu_power_watts": lambda nvml, device: nvml.nvmlDeviceGetPowerUsage(device) / 1e3,
    "gpu_energy_joules_total": lambda nvml, device: nvml.nvmlDeviceGetTotalEnergyConsumption(device) / 1e3,
    "gpu_memory_used_bytes": lambda nvml, device: float(nvml.nvmlDeviceGetMemoryInfo(device).used),
    "gpu_clocks_event_reasons": _reasons,
}


class Accelerators:
    """The GPUs of this machine; none where the library or a device is missing. A context manager: NVML is shut down at
    its end."""

    def __init__(self, module: str = "pynvml") -> None:
        self._nvml: Any = None
        self._readings: list[tuple[Any, str, str, _Read]] = []
        try:
            nvml = importlib.import_module(module)
            nvml.nvmlInit()
        except Exception:  # no library, no driver: a machine without accelerators
            return
        self._nvml = nvml
        self._readings = list(self._told())

    def _told(self) -> Iterator[tuple[Any, str, str, _Read]]:
        for index in range(self._count()):
            device = self._nvml.nvmlDeviceGetHandleByIndex(index)
            for name, read in _READINGS.items():
                try:
                    read(self._nvml, device)
                except Exception:  # NVMLError: not supported by this device
                    continue
                yield device, labels(gpu=str(index)), name, read

    def _count(self) -> int:
        try:
            return int(self._nvml.nvmlDeviceGetCount())
        except Exception:
            return 0

    def look(self) -> Looked:
        """Every number that every device told at first and tells now."""
        found = []
        for device, told, name, read in self._readings:
            try:
                found.append((name, told, read(self._nvml, device)))
            except Exception:
                continue
        return found

    def samples(self, looked: Looked) -> Iterator[Sample]:
        """What a look found, as samples."""
        return (Sample(*row) for row in looked)

    def __enter__(self) -> Accelerators:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._nvml is not None:
            try:
                self._nvml.nvmlShutdown()
            except Exception:
                return

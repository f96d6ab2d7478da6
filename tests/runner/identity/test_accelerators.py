"""Accelerators, asked through a scripted stand-in for nvidia-ml-py."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from benchcard.runner.identity import accelerators
from benchcard.runner.identity.accelerators import NAMES, accelerator_fields


class NVMLError(Exception):
    """As pynvml's."""


class Script:
    """Two H100 with four NVLinks between them; a question that is not scripted is one that the driver does not know."""

    NVMLError = NVMLError
    NVML_CLOCK_GRAPHICS, NVML_CLOCK_SM, NVML_CLOCK_MEM = 0, 1, 2

    def __init__(self, count: int = 2, **changes: Any) -> None:
        self.count, self.changes, self.shut = count, changes, False

    def nvmlInit(self) -> None:  # noqa: N802
        if self.changes.get("driver") == "none":
            raise NVMLError("Driver Not Loaded")

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.shut = True

    def __getattr__(self, name: str) -> Any:
        answers: dict[str, Any] = {
            "nvmlDeviceGetCount": lambda: self.count,
            "nvmlDeviceGetHandleByIndex": lambda number: number,
            "nvmlDeviceGetComputeRunningProcesses": lambda h: [SimpleNamespace(pid=100 + h)],
            "nvmlSystemGetDriverVersion": lambda: b"570.86.15",
            "nvmlDeviceGetName": lambda h: "NVIDIA H100 80GB HBM3",
            "nvmlDeviceGetUUID": lambda h: f"GPU-{h}",
            "nvmlDeviceGetVbiosVersion": lambda h: (
                "96.00.99.00.01" if h == 0 else self.changes.get("vbios", "96.00.99.00.01")
            ),
            "nvmlDeviceGetMemoryInfo": lambda h: SimpleNamespace(total=85_520_809_984),
            "nvmlDeviceGetMaxClockInfo": lambda h, kind: (1980, 1980, 2619)[kind],
            "nvmlDeviceGetClockInfo": lambda h, kind: (345, 345, 2619)[kind],
            "nvmlDeviceGetEnforcedPowerLimit": lambda h: 700_000,
            "nvmlDeviceGetEccMode": lambda h: [1, 1],
            "nvmlDeviceGetTopologyCommonAncestor": lambda a, b: self.changes.get("level", 50),
            "nvmlDeviceGetPciInfo": lambda h: SimpleNamespace(busId=f"bus-{h}"),
            "nvmlDeviceGetNvLinkState": lambda h, link: int(link < self.changes.get("links", 4)),
            "nvmlDeviceGetNvLinkRemotePciInfo": lambda h, link: SimpleNamespace(busId=f"bus-{1 - h}"),
        }
        if name not in answers:
            raise AttributeError(name)
        return answers[name]


def values(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: field["value"] for name, field in fields.items()}


def test_every_fact_of_two_devices() -> None:
    script = Script()
    fields = accelerator_fields(module=script)
    assert script.shut
    assert values(fields) == {
        "gpu.count": 2,
        "gpu.model": "NVIDIA H100 80GB HBM3",
        "gpu.uuid": ["GPU-0", "GPU-1"],
        "gpu.driver": "570.86.15",
        "gpu.vbios": "96.00.99.00.01",
        "gpu.memory": 85_520_809_984,
        "gpu.clocks": {"max": {"graphics": 1980, "sm": 1980, "memory": 2619}},
        "gpu.clocks_now": {"graphics": 345, "sm": 345, "memory": 2619},
        "gpu.power_limit": 700.0,
        "gpu.ecc": True,
        "gpu.mig": None,
        "gpu.topology": {"0-1": "NV4"},
    }
    assert fields["gpu.mig"]["why"] == "the device does not tell"
    assert [name for name, field in fields.items() if field.get("volatile")] == ["gpu.clocks_now"]


def test_devices_that_differ_are_told_one_by_one() -> None:
    assert values(accelerator_fields(module=Script(vbios="other")))["gpu.vbios"] == ["96.00.99.00.01", "other"]


def test_the_devices_that_the_server_uses() -> None:
    fields = values(accelerator_fields([7, 101], Script()))
    assert (fields["gpu.count"], fields["gpu.uuid"], fields["gpu.topology"]) == (1, ["GPU-1"], None)


def test_without_links_the_way_over_the_bus() -> None:
    assert values(accelerator_fields(module=Script(links=0)))["gpu.topology"] == {"0-1": "SYS"}
    assert values(accelerator_fields(module=Script(links=0, level=30)))["gpu.topology"] == {"0-1": "PHB"}


def test_no_device_no_driver_no_module() -> None:
    none = accelerator_fields(module=Script(count=0))
    assert none["gpu.count"] == {"value": 0, "source": "observed"}
    assert none["gpu.model"] == {"value": None, "source": "unknown", "why": "there is no NVIDIA device"}
    silent = accelerator_fields(module=Script(driver="none"))
    assert {field["why"] for field in silent.values()} == {"no NVIDIA driver answers (Driver Not Loaded)"}
    assert set(silent) == set(NAMES)


def test_without_the_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(accelerators, "_DRIVER", tmp_path)
    why = "nvidia-ml-py is not installed, so no NVIDIA device can be asked"
    assert {field["why"] for field in accelerator_fields().values()} == {why}
    monkeypatch.setattr(accelerators, "_DRIVER", tmp_path / "none")
    assert {field["why"] for field in accelerator_fields().values()} == {"this host shows no NVIDIA driver"}

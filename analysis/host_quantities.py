"""The quantities of a machine: name, unit and meaning, and how each is made from the samples. A machine that does not
tell one has none of it (None), which is not the same as undefined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .host import Floats, Found, Looks, Window, at_most_one, gauge, over, rate, ratio, undefined

Compute = Callable[[Looks, Window], Found | None]

CPU = "node_cpu_seconds_total"
_BUSY = ("user", "nice", "system", "irq", "softirq")
_MODES = (*_BUSY, "idle", "iowait", "steal")
NO_SERVER = "the server was not started by this run, so that its share of the CPU is not known"
#: why an NVIDIA GPU's clocks are held down (nvml.h): power cap, hardware slowdown, thermal slowdown by software and by
#: hardware, power brake. Idle, a setting and synchronised boost are none
_HELD_DOWN = 0x04 | 0x08 | 0x20 | 0x40 | 0x80


@dataclass(frozen=True)
class Quantity:
    """A quantity of the machine that benchcard ran on."""

    name: str
    unit: str
    title: str
    compute: Compute


def _modes(looked: Looks, modes: Sequence[str]) -> Floats | None:
    found = [values for mode in modes for values in looked.of(CPU, cpu="all", mode=mode)]
    # the kernel lets iowait fall a little now and then
    return over([np.maximum.accumulate(values) for values in found], "sum") if found else None


def _share_of_modes(*modes: str) -> Compute:
    def compute(looked: Looks, window: Window) -> Found | None:
        """Time in these modes over the time in all of them, of all cores."""
        part, whole = _modes(looked, modes), _modes(looked, _MODES)
        return None if part is None or whole is None else at_most_one(ratio(looked, window, part, whole))

    return compute


def _process_share(process: str) -> Compute:
    def compute(looked: Looks, window: Window) -> Found | None:
        """CPU time of the process over the CPU time of all cores."""
        part, whole = looked.of("process_cpu_seconds_total", process=process), _modes(looked, _MODES)
        return ratio(looked, window, part[0], whole) if part and whole is not None else None

    return compute


def _others(looked: Looks, window: Window) -> Found | None:
    """Busy time of neither the server nor the client. CPU time is told in ticks of 10 ms: a little below 0 is 0."""
    busy, whole = _modes(looked, _BUSY), _modes(looked, _MODES)
    ours = [looked.of("process_cpu_seconds_total", process=process) for process in ("server", "client")]
    if busy is None or whole is None:
        return None
    if not all(ours):
        return undefined(NO_SERVER)
    own = over([found[0] for found in ours], "sum")
    both = ratio(looked, window, own, whole)
    if both.mean is None:
        return both
    rest = busy - np.maximum.accumulate(own)
    return ratio(looked, window, np.maximum.accumulate(rest), whole)


def _busiest_core(looked: Looks, window: Window) -> Found | None:
    cores = {labels["cpu"] for labels, _ in looked.series.get(CPU, []) if labels.get("cpu") not in (None, "all")}
    found = []
    for core in sorted(cores):
        parts = [looked.of(CPU, cpu=core, mode=mode) for mode in ("busy", "idle", "steal")]
        if all(parts):
            values = [np.maximum.accumulate(part[0]) for part in parts]
            found.append(at_most_one(ratio(looked, window, values[0], over(values, "sum"))))
    known = [core for core in found if core.mean is not None]
    return max(known, key=lambda core: core.mean or 0.0) if known else (found[0] if found else None)


def _gauge(name: str, how: str = "sum", **match: str) -> Compute:
    def compute(looked: Looks, window: Window) -> Found | None:
        """The gauge over the window, its series combined by `how`."""
        found = looked.of(name, **match)
        return gauge(looked, window, over(found, how)) if found else None

    return compute


def _rate(*names: str, how: str = "sum", **match: str) -> Compute:
    def compute(looked: Looks, window: Window) -> Found | None:
        """What the counters grew by a second, their series combined by `how`."""
        found = [values for name in names for values in looked.of(name, **match)]
        return rate(looked, window, over(found, how)) if found else None

    return compute


def _temperature(looked: Looks, window: Window) -> Found | None:
    found = looked.of("node_thermal_zone_temp") + looked.of("node_hwmon_temp_celsius")
    return gauge(looked, window, over(found, "max")) if found else None


def _throttled(*names: str) -> Compute:
    """Of several counters of throttled time, the one that grew most."""

    def compute(looked: Looks, window: Window) -> Found | None:
        """The counter that grew most a second; undefined where none is defined."""
        found = [rate(looked, window, values) for name in names for values in looked.of(name)]
        known = [one for one in found if one.mean is not None]
        return max(known, key=lambda one: one.mean or 0.0) if known else (found[0] if found else None)

    return compute


def _network(loopback: bool) -> Compute:
    """Bytes received and sent; the loopback counts each byte once, as sent."""

    def compute(looked: Looks, window: Window) -> Found | None:
        """Bytes a second over the network devices."""
        names = ["node_network_transmit_bytes_total"] + ["node_network_receive_bytes_total"] * (not loopback)
        found = [
            values
            for name in names
            for labels, values in looked.series.get(name, [])
            if (labels.get("device") == "lo") == loopback
        ]
        return rate(looked, window, over(found, "sum")) if found else None

    return compute


def _gpu_power(looked: Looks, window: Window) -> Found | None:
    found = _rate("gpu_energy_joules_total")(looked, window)
    return found if found is not None and found.mean is not None else _gauge("gpu_power_watts")(looked, window)


def _gpu_held_down(looked: Looks, window: Window) -> Found | None:
    found = looked.of("gpu_clocks_event_reasons")
    if not found:
        return None
    held = [
        np.where(np.isnan(values), np.nan, (np.nan_to_num(values).astype(np.int64) & _HELD_DOWN) != 0)
        for values in found
    ]
    return gauge(looked, window, over(held, "max"))


QUANTITIES: tuple[Quantity, ...] = (
    Quantity("host.cpu_busy", "1", "CPU busy, of all cores", _share_of_modes(*_BUSY)),
    Quantity("host.cpu_server", "1", "CPU of the server, of all cores", _process_share("server")),
    Quantity("host.cpu_client", "1", "CPU of the client, of all cores", _process_share("client")),
    Quantity("host.cpu_other", "1", "CPU of anything else, of all cores", _others),
    Quantity("host.cpu_busiest", "1", "CPU busy, of the busiest core", _busiest_core),
    Quantity("host.cpu_steal", "1", "CPU time taken by the hypervisor", _share_of_modes("steal")),
    Quantity("host.cpu_iowait", "1", "CPU waiting for disks", _share_of_modes("iowait")),
    Quantity(
        "host.cpu_pressure", "1", "Time in which a task waited for a core (PSI)",
        _rate("node_pressure_cpu_waiting_seconds_total"),
    ),
    Quantity("host.load", "tasks", "Load average over a minute", _gauge("node_load1")),
    Quantity("host.context_switches", "per s", "Context switches", _rate("node_context_switches_total")),
    Quantity("host.cpu_frequency", "Hz", "CPU frequency, mean core", _gauge("node_cpu_frequency_hertz", "mean")),
    Quantity("host.temperature", "°C", "Temperature, hottest sensor", _temperature),
    Quantity(
        "host.throttled", "1", "Time throttled for heat",
        _throttled("node_cpu_core_throttled_seconds_total", "node_cpu_package_throttled_seconds_total"),
    ),
    Quantity(
        "host.throttles", "per s", "Thermal throttlings",
        _throttled("node_cpu_core_throttles_total", "node_cpu_package_throttles_total"),
    ),
    Quantity(
        "host.quota_throttled", "1", "Time stopped for the cgroup's CPU quota",
        _rate("cgroup_cpu_throttled_seconds_total"),
    ),
    Quantity("host.power", "W", "Power of processor and memory (RAPL)", _rate("node_rapl_joules_total")),
    Quantity("host.memory_available", "bytes", "Memory available", _gauge("node_memory_MemAvailable_bytes")),
    Quantity(
        "host.memory_server", "bytes", "Resident memory of the server",
        _gauge("process_resident_memory_bytes", process="server"),
    ),
    Quantity("host.network_loopback", "bytes/s", "Network, loopback", _network(True)),
    Quantity("host.network", "bytes/s", "Network, other interfaces, both ways", _network(False)),
    Quantity("host.telemetry_cpu", "1", "CPU of this telemetry, of one core", _rate("telemetry_cpu_seconds_total")),
    Quantity("gpu.utilization", "1", "GPU utilization, mean", _gauge("gpu_utilization_ratio", "mean")),
    Quantity("gpu.sm_clock", "Hz", "GPU SM clock, mean", _gauge("gpu_sm_clock_hertz", "mean")),
    Quantity("gpu.memory_clock", "Hz", "GPU memory clock, mean", _gauge("gpu_memory_clock_hertz", "mean")),
    Quantity("gpu.temperature", "°C", "GPU temperature, hottest", _gauge("gpu_temperature_celsius", "max")),
    Quantity("gpu.throttled", "1", "Looks at which a GPU's clocks were held down", _gpu_held_down),
    Quantity("gpu.power", "W", "GPU power, sum", _gpu_power),
    Quantity("gpu.memory_used", "bytes", "GPU memory used, sum", _gauge("gpu_memory_used_bytes")),
)  # fmt: skip
BY_NAME = {quantity.name: quantity for quantity in QUANTITIES}

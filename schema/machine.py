"""The quantities of the machine that benchcard ran on: name, unit and title. How each is made stands in
`analysis/host_quantities.py`; a test checks that the two tables agree."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MachineQuantity:
    """What a row of `telemetry` in verdict.json is of. `unit` is a base unit."""

    name: str
    unit: str
    title: str


MACHINE: tuple[MachineQuantity, ...] = (
    MachineQuantity("host.cpu_busy", "1", "CPU busy, of all cores"),
    MachineQuantity("host.cpu_server", "1", "CPU of the server, of all cores"),
    MachineQuantity("host.cpu_client", "1", "CPU of the client, of all cores"),
    MachineQuantity("host.cpu_other", "1", "CPU of anything else, of all cores"),
    MachineQuantity("host.cpu_busiest", "1", "CPU busy, of the busiest core"),
    MachineQuantity("host.cpu_steal", "1", "CPU time taken by the hypervisor"),
    MachineQuantity("host.cpu_iowait", "1", "CPU waiting for disks"),
    MachineQuantity("host.cpu_pressure", "1", "Time in which a task waited for a core (PSI)"),
    MachineQuantity("host.load", "tasks", "Load average over a minute"),
    MachineQuantity("host.context_switches", "per s", "Context switches"),
    MachineQuantity("host.cpu_frequency", "Hz", "CPU frequency, mean core"),
    MachineQuantity("host.temperature", "°C", "Temperature, hottest sensor"),
    MachineQuantity("host.throttled", "1", "Time throttled for heat"),
    MachineQuantity("host.throttles", "per s", "Thermal throttlings"),
    MachineQuantity("host.quota_throttled", "1", "Time stopped for the cgroup's CPU quota"),
    MachineQuantity("host.power", "W", "Power of processor and memory (RAPL)"),
    MachineQuantity("host.memory_available", "bytes", "Memory available"),
    MachineQuantity("host.memory_server", "bytes", "Resident memory of the server"),
    MachineQuantity("host.network_loopback", "bytes/s", "Network, loopback"),
    MachineQuantity("host.network", "bytes/s", "Network, other interfaces, both ways"),
    MachineQuantity("host.telemetry_cpu", "1", "CPU of this telemetry, of one core"),
    MachineQuantity("gpu.utilization", "1", "GPU utilization, mean"),
    MachineQuantity("gpu.sm_clock", "Hz", "GPU SM clock, mean"),
    MachineQuantity("gpu.memory_clock", "Hz", "GPU memory clock, mean"),
    MachineQuantity("gpu.temperature", "°C", "GPU temperature, hottest"),
    MachineQuantity("gpu.throttled", "1", "Looks at which a GPU's clocks were held down"),
    MachineQuantity("gpu.power", "W", "GPU power, sum"),
    MachineQuantity("gpu.memory_used", "bytes", "GPU memory used, sum"),
)

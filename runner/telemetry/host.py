"""What Linux tells of the machine, as samples: pure parsers, one a file. Names and units are those of the Prometheus
node exporter where it has them; counters stay counters, rates are made in the analysis.

Linux: Documentation/filesystems/proc.rst (stat, meminfo, net/dev), accounting/psi.rst, power/powercap/powercap.rst,
admin-guide/cgroup-v2.rst (cpu.stat).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ...schema.digest import canonical_json


class Sample(NamedTuple):
    """One number: its name, its labels as canonical JSON, its value in the name's unit."""

    name: str
    labels: str
    value: float


Parse = Callable[[str], Iterable[Sample]]

#: the times of a line of /proc/stat, in its order; guest times are in user and nice already
CPU_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
#: interfaces that carry again what another one carries, or nothing
_VIRTUAL = ("veth", "br-", "docker", "virbr", "cali", "ifb", "dummy", "tunl")


@functools.lru_cache(maxsize=8192)
def labels(**pairs: str) -> str:
    """Labels as canonical JSON."""
    return canonical_json(pairs).decode()


def cpu_times(text: str, ticks_per_s: int) -> Iterator[Sample]:
    """/proc/stat: seconds of the whole machine by mode (cpu "all"); of each core busy, idle (with iowait) and steal;
    context switches."""
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "ctxt":
            yield Sample("node_context_switches_total", "{}", float(rest))
        elif word.startswith("cpu"):
            # An old kernel has fewer times, a new one more.
            ticks = [*map(int, rest.split()[: len(CPU_MODES)]), *([0] * len(CPU_MODES))][: len(CPU_MODES)]
            seconds = dict(zip(CPU_MODES, (tick / ticks_per_s for tick in ticks), strict=True))
            core = word.removeprefix("cpu") or "all"
            if core != "all":
                idle, steal = seconds["idle"] + seconds["iowait"], seconds["steal"]
                seconds = {"busy": sum(ticks) / ticks_per_s - idle - steal, "idle": idle, "steal": steal}
            for mode, value in seconds.items():
                yield Sample("node_cpu_seconds_total", labels(cpu=core, mode=mode), value)


def memory(text: str) -> Iterator[Sample]:
    """/proc/meminfo: total and available bytes."""
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name in ("MemTotal", "MemAvailable"):
            yield Sample(f"node_memory_{name}_bytes", "{}", float(rest.split()[0]) * 1024)


def network(text: str) -> Iterator[Sample]:
    """/proc/net/dev: bytes received and sent by each interface that ever carried any."""
    for line in text.splitlines():
        device, colon, rest = line.partition(":")
        device, numbers = device.strip(), rest.split()
        if not colon or device.startswith(_VIRTUAL) or numbers[0] == numbers[8] == "0":
            continue
        yield Sample("node_network_receive_bytes_total", labels(device=device), float(numbers[0]))
        yield Sample("node_network_transmit_bytes_total", labels(device=device), float(numbers[8]))


def load_average(text: str) -> Iterator[Sample]:
    """/proc/loadavg: the load average over a minute."""
    yield Sample("node_load1", "{}", float(text.split()[0]))


def cpu_pressure(text: str) -> Iterator[Sample]:
    """/proc/pressure/cpu: for how long at least one task waited for a core."""
    for line in text.splitlines():
        if line.startswith("some "):
            total = line.rpartition("total=")[2]
            yield Sample("node_pressure_cpu_waiting_seconds_total", "{}", int(total) / 1e6)


def cpuinfo(text: str) -> Iterator[Sample]:
    """/proc/cpuinfo: MHz of each core, in Hz. In a virtual machine that is often a constant."""
    core = None
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "processor":
            core = value.strip()
        elif name.strip() == "cpu MHz" and core is not None:
            yield Sample("node_cpu_frequency_hertz", labels(cpu=core, source="cpuinfo"), float(value) * 1e6)


def cgroup_cpu(text: str) -> Iterator[Sample]:
    """cpu.stat of a cgroup (v2): for how long its processes were stopped since they had used up their quota."""
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "throttled_usec":
            yield Sample("cgroup_cpu_throttled_seconds_total", "{}", int(value) / 1e6)


def scaled(name: str, factor: float, **pairs: str) -> Parse:
    """A parser of a file that holds one number, in another unit."""
    told = labels(**pairs)

    def parse(text: str) -> Iterator[Sample]:
        """The number in the file, times the factor."""
        yield Sample(name, told, float(text) * factor)

    return parse


def process_tree(process: str, stats: Iterable[str], ticks_per_s: int, page_bytes: int) -> Iterator[Sample]:
    """/proc/<pid>/stat of each process of a tree: CPU seconds (of those that have ended too, once their parent has
    waited for them), resident bytes (memory that several share counts in each) and how many there are."""
    cpu = resident = number = 0
    for text in stats:
        # The name stands in parentheses and may have spaces and parentheses in it.
        fields = text.rpartition(")")[2].split()
        cpu += sum(int(fields[at]) for at in (11, 12, 13, 14))
        resident += int(fields[21])
        number += 1
    if number:
        told = labels(process=process)
        yield Sample("process_cpu_seconds_total", told, cpu / ticks_per_s)
        yield Sample("process_resident_memory_bytes", told, float(resident * page_bytes))
        yield Sample("process_count", told, float(number))

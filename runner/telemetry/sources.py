"""The files in which a Linux machine tells how it is doing. What it does not have, or does not let us read, is left
out."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .host import (
    Parse,
    cgroup_cpu,
    cpu_pressure,
    cpu_times,
    cpuinfo,
    load_average,
    memory,
    network,
    scaled,
)

#: chips of hwmon whose first temperature is the processor's
_CPU_CHIPS = ("coretemp", "k10temp", "zenpower")
#: zones of RAPL that are not part of another one
_RAPL_ZONES = ("package", "dram")


@dataclass(frozen=True)
class Source:
    """A file and how it is read."""

    path: Path
    parse: Parse


def sources(root: Path = Path("/")) -> list[Source]:
    """Every source that the machine below `root` has and that can be read and understood now."""
    found = [*_proc(root), *_cpus(root), *_temperatures(root), *_energy(root), *_cgroup(root)]
    return [source for source in found if _answers(source)]


def _answers(source: Source) -> bool:
    try:
        return bool(list(source.parse(source.path.read_text())))
    except (OSError, ValueError, IndexError):
        return False


def _proc(root: Path) -> Iterator[Source]:
    proc = root / "proc"
    ticks = os.sysconf("SC_CLK_TCK")
    yield Source(proc / "stat", functools.partial(cpu_times, ticks_per_s=ticks))
    yield Source(proc / "meminfo", memory)
    yield Source(proc / "net" / "dev", network)
    yield Source(proc / "loadavg", load_average)
    yield Source(proc / "pressure" / "cpu", cpu_pressure)


def _cpus(root: Path) -> Iterator[Source]:
    """Frequency and thermal throttling of each core."""
    folder = root / "sys" / "devices" / "system" / "cpu"
    cores = sorted(folder.glob("cpu[0-9]*"), key=lambda path: int(path.name.removeprefix("cpu")))
    frequencies = [
        Source(
            core / "cpufreq" / "scaling_cur_freq",
            scaled("node_cpu_frequency_hertz", 1e3, cpu=core.name.removeprefix("cpu"), source="cpufreq"),
        )
        for core in cores
    ]
    frequencies = [source for source in frequencies if _answers(source)]
    yield from frequencies or [Source(root / "proc" / "cpuinfo", cpuinfo)]
    for core in cores:
        cpu, place = core.name.removeprefix("cpu"), core / "thermal_throttle"
        for part in ("core", "package"):
            yield Source(place / f"{part}_throttle_count", scaled(f"node_cpu_{part}_throttles_total", 1, cpu=cpu))
            yield Source(
                place / f"{part}_throttle_total_time_ms",
                scaled(f"node_cpu_{part}_throttled_seconds_total", 1e-3, cpu=cpu),
            )


def _temperatures(root: Path) -> Iterator[Source]:
    for zone in sorted((root / "sys" / "class" / "thermal").glob("thermal_zone*")):
        told = {"zone": zone.name.removeprefix("thermal_zone"), "type": _word(zone / "type")}
        yield Source(zone / "temp", scaled("node_thermal_zone_temp", 1e-3, **told))
    for chip in sorted((root / "sys" / "class" / "hwmon").glob("hwmon*")):
        name = _word(chip / "name")
        if name in _CPU_CHIPS:
            told = {"chip": f"{name}_{chip.name.removeprefix('hwmon')}", "sensor": "temp1"}
            yield Source(chip / "temp1_input", scaled("node_hwmon_temp_celsius", 1e-3, **told))


def _energy(root: Path) -> Iterator[Source]:
    """RAPL. Its counters start again from 0 at `wraps` joules."""
    for zone in sorted((root / "sys" / "class" / "powercap").glob("*rapl:*")):
        name = _word(zone / "name")
        if name.startswith(_RAPL_ZONES):
            limit = _word(zone / "max_energy_range_uj")
            wraps = f"{int(limit) / 1e6:.6f}" if limit.isdigit() else ""
            told = {"zone": name, "index": zone.name.rpartition("rapl:")[2], "wraps": wraps}
            yield Source(zone / "energy_uj", scaled("node_rapl_joules_total", 1e-6, **told))


def _cgroup(root: Path) -> Iterator[Source]:
    """The cgroup (v2) of this process; seen from inside a container that is the root of what is mounted."""
    mount = root / "sys" / "fs" / "cgroup"
    own = _word(root / "proc" / "self" / "cgroup").removeprefix("0::/")
    inner = mount / own / "cpu.stat"
    yield Source(inner if inner.is_file() else mount / "cpu.stat", cgroup_cpu)


def _word(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""

"""The machine's own numbers: parsers by hand, sources below a made root, processes that run, a scripted NVML."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path

import pytest
from benchcard.runner.telemetry import host
from benchcard.runner.telemetry.accelerators import Accelerators
from benchcard.runner.telemetry.host import Sample, labels
from benchcard.runner.telemetry.processes import Processes
from benchcard.runner.telemetry.sources import sources
from benchcard.runner.telemetry.watch import HostWatch

STAT = """\
cpu  100 20 30 400 50 6 7 8 0 0
cpu0 40 10 10 200 20 3 4 5 0 0
intr 5 0 1
ctxt 123456
btime 1700000000
"""


def told(samples: object) -> dict[tuple[str, str], float]:
    return {(sample.name, sample.labels): sample.value for sample in samples}  # type: ignore[attr-defined]


def test_cpu_times_of_the_machine_by_mode_and_of_a_core_as_busy_idle_and_steal() -> None:
    found = told(host.cpu_times(STAT, 100))
    modes = {json.loads(key)["mode"]: value for (_, key), value in found.items() if '"all"' in key}
    assert modes == {
        "user": 1.0, "nice": 0.2, "system": 0.3, "idle": 4.0, "iowait": 0.5, "irq": 0.06, "softirq": 0.07,
        "steal": 0.08,
    }  # fmt: skip
    core = {json.loads(key)["mode"]: value for (_, key), value in found.items() if '"0"' in key}
    # 292 ticks less 220 idle and 5 stolen
    assert core == {"busy": pytest.approx(0.67), "idle": 2.2, "steal": 0.05}
    assert found["node_context_switches_total", "{}"] == 123456


def test_an_old_kernel_has_fewer_times() -> None:
    found = told(host.cpu_times("cpu 1 2 3 4\n", 1))
    assert found["node_cpu_seconds_total", labels(cpu="all", mode="steal")] == 0
    assert found["node_cpu_seconds_total", labels(cpu="all", mode="idle")] == 4


def test_memory_network_load_and_pressure() -> None:
    assert list(host.memory("MemTotal:  10 kB\nMemFree: 1 kB\nMemAvailable:   3 kB\n")) == [
        Sample("node_memory_MemTotal_bytes", "{}", 10240.0),
        Sample("node_memory_MemAvailable_bytes", "{}", 3072.0),
    ]
    lines = "Inter-|   Receive\n face |bytes\n    lo: 11 1 0 0 0 0 0 0 11 1 0 0 0 0 0 0\n"
    lines += "veth1: 5 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0\n  eth1: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
    lines += "  eth0:7 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n"
    assert list(host.network(lines)) == [
        Sample("node_network_receive_bytes_total", '{"device":"lo"}', 11.0),
        Sample("node_network_transmit_bytes_total", '{"device":"lo"}', 11.0),
        Sample("node_network_receive_bytes_total", '{"device":"eth0"}', 7.0),
        Sample("node_network_transmit_bytes_total", '{"device":"eth0"}', 9.0),
    ]
    assert list(host.load_average("0.35 0.71 1.55 1/98 2005\n")) == [Sample("node_load1", "{}", 0.35)]
    pressure = "some avg10=3.41 avg60=2.87 avg300=2.25 total=2500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n"
    assert list(host.cpu_pressure(pressure)) == [Sample("node_pressure_cpu_waiting_seconds_total", "{}", 2.5)]
    assert list(host.cgroup_cpu("usage_usec 9\nnr_throttled 2\nthrottled_usec 1500000\n")) == [
        Sample("cgroup_cpu_throttled_seconds_total", "{}", 1.5)
    ]


def test_frequency_from_cpuinfo() -> None:
    text = "processor\t: 0\nmodel name\t: X\ncpu MHz\t\t: 2596.150\n\nprocessor\t: 1\ncpu MHz\t\t: 1000.0\n"
    assert [(sample.labels, sample.value) for sample in host.cpuinfo(text)] == [
        ('{"cpu":"0","source":"cpuinfo"}', 2596150000.0),
        ('{"cpu":"1","source":"cpuinfo"}', 1000000000.0),
    ]


def test_a_process_tree_is_summed_and_a_name_may_hold_anything() -> None:
    # after the name: state, ppid, … utime 10, stime 20, cutime 3, cstime 4 (fields 14 to 17), … rss 5 pages (24)
    fields = "S 1 1 1 0 -1 0 0 0 0 0 10 20 3 4 20 0 1 0 99 1000 5 0"
    stats = [f"7 (a ) b) {fields}", f"8 (worker) {fields}"]
    assert list(host.process_tree("server", stats, 100, 4096)) == [
        Sample("process_cpu_seconds_total", '{"process":"server"}', 0.74),
        Sample("process_resident_memory_bytes", '{"process":"server"}', 40960.0),
        Sample("process_count", '{"process":"server"}', 2.0),
    ]
    assert list(host.process_tree("server", [], 100, 4096)) == []


FILES = {
    "proc/stat": STAT,
    "proc/cpuinfo": "processor: 0\ncpu MHz: 1\n",
    "proc/self/cgroup": "0::/\n",
    "sys/fs/cgroup/cpu.stat": "usage_usec 1\nthrottled_usec 2\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "2400000\n",
    "sys/devices/system/cpu/cpu10/cpufreq/scaling_cur_freq": "1200000\n",
    "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": "3\n",
    "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_total_time_ms": "1500\n",
    "sys/class/thermal/thermal_zone0/temp": "61000\n",
    "sys/class/thermal/thermal_zone0/type": "x86_pkg_temp\n",
    "sys/class/thermal/thermal_zone1/temp": "broken\n",
    "sys/class/hwmon/hwmon2/name": "k10temp\n",
    "sys/class/hwmon/hwmon2/temp1_input": "55500\n",
    "sys/class/hwmon/hwmon3/name": "nvme\n",
    "sys/class/hwmon/hwmon3/temp1_input": "30000\n",
    "sys/class/powercap/intel-rapl:0/name": "package-0\n",
    "sys/class/powercap/intel-rapl:0/energy_uj": "5000000\n",
    "sys/class/powercap/intel-rapl:0/max_energy_range_uj": "262143328850\n",
    "sys/class/powercap/intel-rapl:0:0/name": "core\n",
    "sys/class/powercap/intel-rapl:0:0/energy_uj": "1\n",
}


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_what_a_machine_has_is_read_and_the_rest_left_out(tmp_path: Path) -> None:
    found = sources(machine(tmp_path, FILES))
    names = [source.path.relative_to(tmp_path).as_posix() for source in found]
    assert "proc/cpuinfo" not in names  # cpufreq tells it better
    assert "sys/class/thermal/thermal_zone1/temp" not in names
    samples = [sample for source in found for sample in source.parse(source.path.read_text())]
    assert [sample for sample in samples if not sample.name.startswith(("node_cpu_seconds", "node_context"))] == [
        Sample("node_cpu_frequency_hertz", '{"cpu":"0","source":"cpufreq"}', 2.4e9),
        Sample("node_cpu_frequency_hertz", '{"cpu":"10","source":"cpufreq"}', 1.2e9),
        Sample("node_cpu_core_throttles_total", '{"cpu":"0"}', 3.0),
        Sample("node_cpu_core_throttled_seconds_total", '{"cpu":"0"}', 1.5),
        Sample("node_thermal_zone_temp", '{"type":"x86_pkg_temp","zone":"0"}', 61.0),
        Sample("node_hwmon_temp_celsius", '{"chip":"k10temp_2","sensor":"temp1"}', 55.5),
        Sample("node_rapl_joules_total", '{"index":"0","wraps":"262143.328850","zone":"package-0"}', 5.0),
        Sample("cgroup_cpu_throttled_seconds_total", "{}", 2e-6),
    ]


def test_a_machine_that_tells_nothing_has_no_source(tmp_path: Path) -> None:
    assert sources(tmp_path) == []


def test_frequency_falls_back_on_cpuinfo(tmp_path: Path) -> None:
    (source,) = sources(machine(tmp_path, {"proc/cpuinfo": FILES["proc/cpuinfo"]}))
    assert source.path == tmp_path / "proc" / "cpuinfo"


def test_the_server_s_tree_holds_what_it_started_and_the_client_is_apart() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    server = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 20
        while True:
            processes = Processes(server.pid)
            found = {sample.labels: sample.value for sample in processes.samples(processes.look())
                     if sample.name == "process_count"}  # fmt: skip
            if found['{"process":"server"}'] == 2 or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        assert found == {'{"process":"server"}': 2.0, '{"process":"client"}': 1.0}
    finally:
        server.communicate(b"\n", timeout=20)
    gone = processes.look()
    assert gone["server"] == []
    assert [sample.labels for sample in processes.samples(gone) if sample.name == "process_count"] == [
        '{"process":"client"}'
    ]


def fake_nvml() -> tuple[types.ModuleType, list[str]]:
    """Two devices; the second, a MIG slice, tells its memory and nothing else. Also what was called."""
    calls: list[str] = []

    def only_whole(value: object) -> Callable[..., object]:
        def read(device: int, *_: object) -> object:
            if device == 1:
                raise RuntimeError("Not Supported")
            return value

        return read

    clocks = {1: only_whole(1410), 2: only_whole(1593)}
    module = types.ModuleType("fake_nvml")
    module.__dict__.update(
        nvmlInit=lambda: calls.append("init"),
        nvmlShutdown=lambda: calls.append("shutdown"),
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetUtilizationRates=only_whole(types.SimpleNamespace(gpu=75, memory=10)),
        nvmlDeviceGetClockInfo=lambda device, kind: clocks[kind](device),
        nvmlDeviceGetTemperature=only_whole(61),
        nvmlDeviceGetPowerUsage=only_whole(250_500),
        nvmlDeviceGetTotalEnergyConsumption=only_whole(9_000),
        nvmlDeviceGetMemoryInfo=lambda device: types.SimpleNamespace(used=2**30, total=2**31),
        nvmlDeviceGetCurrentClocksThrottleReasons=only_whole(0x24),
    )
    return module, calls


def test_accelerators_tell_what_they_can(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml, calls = fake_nvml()
    monkeypatch.setitem(sys.modules, "fake_nvml", nvml)
    with Accelerators("fake_nvml") as gpus:
        assert list(gpus.samples(gpus.look())) == [
            Sample("gpu_utilization_ratio", '{"gpu":"0"}', 0.75),
            Sample("gpu_sm_clock_hertz", '{"gpu":"0"}', 1.41e9),
            Sample("gpu_memory_clock_hertz", '{"gpu":"0"}', 1.593e9),
            Sample("gpu_temperature_celsius", '{"gpu":"0"}', 61.0),
            Sample("gpu_power_watts", '{"gpu":"0"}', 250.5),
            Sample("gpu_energy_joules_total", '{"gpu":"0"}', 9.0),
            Sample("gpu_memory_used_bytes", '{"gpu":"0"}', 2.0**30),
            Sample("gpu_clocks_event_reasons", '{"gpu":"0"}', 36.0),
            Sample("gpu_memory_used_bytes", '{"gpu":"1"}', 2.0**30),
        ]
    assert calls == ["init", "shutdown"]


def test_without_the_library_there_are_no_accelerators() -> None:
    with Accelerators("no_such_module") as gpus:
        assert gpus.look() == []


def test_a_watch_looks_before_and_after_and_what_vanishes_meanwhile_is_left_out(tmp_path: Path) -> None:
    temperature = {"sys/class/thermal/thermal_zone0/temp": "61000\n"}
    root = machine(tmp_path, temperature)
    place = root / "sys/class/thermal/thermal_zone0/temp"
    with HostWatch(None, 60.0, lambda: sources(root)) as watch:
        place.write_text("no")  # the same file: it is open
    frame = watch.frame("b01-baseline-l1", 0)
    assert frame["cell"].unique().to_list() == ["b01-baseline-l1"]
    assert frame["time"].n_unique() == 2
    assert frame.filter(frame["name"] == "node_thermal_zone_temp")["value"].to_list() == [61.0]
    assert frame.filter(frame["name"] == "telemetry_skipped_total")["value"].to_list() == [0.0]
    assert frame.filter(frame["name"] == "process_count")["value"].to_list() == [1.0, 1.0]

"""The machine over a window: rates and means by hand; what a machine does not tell; arms and blocks that differ."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from benchcard.analysis.host import Found, Looks, gauge, looks, ratio, unwrapped
from benchcard.analysis.host_quantities import BY_NAME, QUANTITIES
from benchcard.schema.event import HOST_COLUMNS
from benchcard.schema.machine import MACHINE
from hypothesis import given
from hypothesis import strategies as st

from .bundles import SECOND, Cell, Row, ab_card, analyse, baseline_card, build, frame

S = SECOND


def table(rows: dict[tuple[str, str], list[float | None]], times: list[int]) -> pl.DataFrame:
    """(name, labels) -> its value at each time (None: not told), as the samples of a cell."""
    found = [
        {"cell": "c", "time": time, "name": name, "labels": labels, "value": value}
        for (name, labels), values in rows.items()
        for time, value in zip(times, values, strict=True)
        if value is not None
    ]
    return frame(HOST_COLUMNS, found)


def of(name: str, rows: dict[tuple[str, str], list[float | None]], times: list[int], window: tuple[int, int]) -> Any:
    return BY_NAME[name].compute(looks(table(rows, times)), window)


def test_a_counter_is_read_on_straight_lines_between_the_looks() -> None:
    # 10 a second until 2 s, then 40; over [1, 3] it grows by 10 + 40
    rows = {("node_context_switches_total", "{}"): [100.0, 120.0, 160.0, 161.0]}
    found = of("host.context_switches", rows, [0, 2 * S, 3 * S, 4 * S], (S, 3 * S))
    assert found == Found(25.0, 10.0, 40.0, 2)


def test_a_counter_that_fell_in_the_window_is_undefined_and_one_outside_it_is_not() -> None:
    rows = {("node_context_switches_total", "{}"): [100.0, 120.0, 5.0, 15.0]}
    times = [0, S, 2 * S, 3 * S]
    reset = Found(None, None, None, 0, "a counter fell: it was reset, or its process ended")
    assert of("host.context_switches", rows, times, (S // 2, 3 * S)) == reset
    assert of("host.context_switches", rows, times, (2 * S, 3 * S)) == Found(10.0, 10.0, 10.0, 1)


def test_looks_that_do_not_enclose_the_window() -> None:
    rows = {("node_context_switches_total", "{}"): [1.0, 2.0]}
    outside = Found(None, None, None, 0, "the looks do not enclose the measured window")
    for window in ((S, 3 * S), (0, S), (3 * S // 2, 3 * S // 2)):
        assert of("host.context_switches", rows, [S, 2 * S], window) == outside
    assert of("host.context_switches", {("node_context_switches_total", "{}"): [1.0]}, [S], (S, 2 * S)) == outside


def test_a_gauge_is_of_the_looks_in_the_window_or_of_the_two_around_it() -> None:
    rows: dict[tuple[str, str], list[float | None]] = {("node_load1", "{}"): [1.0, 2.0, None, 6.0, 9.0]}
    rows["node_memory_MemAvailable_bytes", "{}"] = [1.0] * 5  # so that there is a look at 2 s
    times = [0, S, 2 * S, 3 * S, 4 * S]
    assert of("host.load", rows, times, (S, 3 * S)) == Found(4.0, 2.0, 6.0, 2)
    assert of("host.load", rows, times, (3 * S + 1, 4 * S - 1)) == Found(7.5, 6.0, 9.0, 2)
    assert of("host.load", rows, times, (2 * S, 2 * S + 1)) == Found(None, None, None, 0, "not told at every look")


def test_a_counter_that_wraps_goes_on() -> None:
    assert unwrapped(np.array([7.0, 9.0, 1.0, 3.0, 2.0]), "10").tolist() == [7.0, 9.0, 11.0, 13.0, 22.0]
    assert unwrapped(np.array([7.0, 1.0]), None).tolist() == [7.0, 1.0]
    rows = {("node_rapl_joules_total", '{"index":"0","wraps":"100.0","zone":"package-0"}'): [90.0, 10.0, 30.0]}
    assert of("host.power", rows, [0, S, 2 * S], (0, 2 * S)) == Found(20.0, 20.0, 20.0, 2)


def cpu(**modes: list[float | None]) -> dict[tuple[str, str], list[float | None]]:
    every = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    count = len(next(iter(modes.values())))
    return {
        ("node_cpu_seconds_total", f'{{"cpu":"all","mode":"{mode}"}}'): modes.get(mode, [0.0] * count) for mode in every
    }


def process(name: str, values: list[float | None]) -> dict[tuple[str, str], list[float | None]]:
    return {("process_cpu_seconds_total", f'{{"process":"{name}"}}'): values}


def test_shares_of_the_cpu_add_up() -> None:
    # two cores over 2 s: of 4 s of CPU time 2 were busy, 0.2 stolen, 0.2 waiting
    rows = cpu(user=[5.0, 5.5, 6.0], system=[1.0, 1.5, 2.0], steal=[0.0, 0.0, 0.2], iowait=[0.0, 0.2, 0.2],
               idle=[10.0, 10.8, 11.6])  # fmt: skip
    rows |= process("server", [3.0, 3.7, 4.2]) | process("client", [1.0, 1.1, 1.2])
    times, window = [0, S, 2 * S], (0, 2 * S)
    found = {name: of(f"host.cpu_{name}", rows, times, window) for name in ("busy", "server", "client", "other")}
    assert {name: one.mean for name, one in found.items()} == {
        "busy": pytest.approx(0.5), "server": pytest.approx(0.3), "client": pytest.approx(0.05),
        "other": pytest.approx(0.15),
    }  # fmt: skip
    assert (found["server"].min, found["server"].max) == (pytest.approx(0.25), pytest.approx(0.35))
    assert of("host.cpu_steal", rows, times, window).mean == pytest.approx(0.05)
    assert of("host.cpu_iowait", rows, times, window).mean == pytest.approx(0.05)


def test_without_the_server_s_process_the_rest_is_not_known() -> None:
    rows = cpu(user=[5.0, 6.0], idle=[1.0, 2.0]) | process("client", [1.0, 1.1])
    assert of("host.cpu_server", rows, [0, S], (0, S)) is None
    found = of("host.cpu_other", rows, [0, S], (0, S))
    assert found.undefined == "the server was not started by this run, so that its share of the CPU is not known"


def test_a_server_that_died_leaves_the_rest_undefined() -> None:
    rows = cpu(user=[5.0, 6.0], idle=[1.0, 2.0]) | process("client", [1.0, 1.1]) | process("server", [9.0, None])
    assert of("host.cpu_server", rows, [0, S], (0, S)).undefined == "not told at every look"
    assert of("host.cpu_other", rows, [0, S], (0, S)).undefined == "not told at every look"


def test_ticks_do_not_make_the_rest_negative() -> None:
    rows = cpu(user=[5.0, 6.0, 7.0], idle=[1.0, 2.0, 3.0]) | process("client", [0.0, 0.0, 0.0])
    found = of("host.cpu_other", rows | process("server", [0.0, 1.01, 2.01]), [0, S, 2 * S], (0, 2 * S))
    assert found == Found(0.0, 0.0, 0.0, 2)


def test_the_busiest_core_the_hottest_sensor_and_the_most_throttled() -> None:
    def core(number: int, mode: str, values: list[float | None]) -> dict[tuple[str, str], list[float | None]]:
        return {("node_cpu_seconds_total", f'{{"cpu":"{number}","mode":"{mode}"}}'): values}

    rows = core(0, "busy", [0.0, 0.2]) | core(0, "idle", [0.0, 0.8]) | core(0, "steal", [0.0, 0.0])
    rows |= core(1, "busy", [0.0, 0.9]) | core(1, "idle", [0.0, 0.1]) | core(1, "steal", [0.0, 0.0])
    rows |= {("node_thermal_zone_temp", '{"zone":"0"}'): [50.0, 70.0], ("node_hwmon_temp_celsius", "{}"): [60.0, 61.0]}
    rows |= {("node_cpu_core_throttled_seconds_total", f'{{"cpu":"{n}"}}'): [1.0, 1.0 + n / 10] for n in range(3)}
    window = (0, S)
    assert of("host.cpu_busiest", rows, [0, S], window).mean == pytest.approx(0.9)
    assert of("host.temperature", rows, [0, S], window) == Found(65.0, 60.0, 70.0, 2)
    assert of("host.throttled", rows, [0, S], window).mean == pytest.approx(0.2)


def test_the_network_counts_the_loopback_once_and_others_both_ways() -> None:
    def device(name: str, sent: float, received: float) -> dict[tuple[str, str], list[float | None]]:
        labels = f'{{"device":"{name}"}}'
        return {
            ("node_network_transmit_bytes_total", labels): [0.0, sent],
            ("node_network_receive_bytes_total", labels): [0.0, received],
        }

    rows = device("lo", 100.0, 100.0) | device("eth0", 7.0, 5.0) | device("eth1", 1.0, 2.0)
    assert of("host.network_loopback", rows, [0, S], (0, S)).mean == 100.0
    assert of("host.network", rows, [0, S], (0, S)).mean == 15.0


def test_accelerators() -> None:
    rows: dict[tuple[str, str], list[float | None]] = {}
    for gpu, share, reasons in (("0", 0.5, [0.0, 1.0]), ("1", 0.9, [2.0, 4.0])):
        labels = f'{{"gpu":"{gpu}"}}'
        rows |= {
            ("gpu_utilization_ratio", labels): [share, share],
            ("gpu_clocks_event_reasons", labels): reasons,
            ("gpu_power_watts", labels): [100.0, 200.0],
        }
    assert of("gpu.utilization", rows, [0, S], (0, S)).mean == pytest.approx(0.7)
    # idle (1) and a setting (2) hold nothing down; a power cap (4) does, at one of the two looks
    assert of("gpu.throttled", rows, [0, S], (0, S)) == Found(0.5, 0.0, 1.0, 2)
    assert of("gpu.power", rows, [0, S], (0, S)) == Found(300.0, 200.0, 400.0, 2)
    energy = {("gpu_energy_joules_total", '{"gpu":"0"}'): [0.0, 50.0]}
    assert of("gpu.power", rows | energy, [0, S], (0, S)).mean == 50.0


def test_a_machine_that_tells_nothing_has_no_quantity() -> None:
    empty = Looks(np.array([0, S]), {})
    assert [quantity.name for quantity in QUANTITIES if quantity.compute(empty, (0, S)) is not None] == []


def test_the_catalogue_is_that_of_the_reports() -> None:
    assert [(q.name, q.unit, q.title) for q in QUANTITIES] == [(q.name, q.unit, q.title) for q in MACHINE]


@given(
    st.lists(st.tuples(st.integers(1, 5 * S), st.floats(0, 1e9)), min_size=1, max_size=30),
    st.floats(0, 1), st.floats(0, 1),
)  # fmt: skip
def test_a_mean_rate_lies_between_its_least_and_its_most(steps: list[tuple[int, float]], a: float, b: float) -> None:
    times = np.cumsum([7, *(step for step, _ in steps)])
    counter = np.cumsum([3.0, *(grown for _, grown in steps)])
    start, end = sorted(int(times[0] + share * (times[-1] - times[0])) for share in (a, b))
    found = ratio(Looks(times, {}), (start, end), counter, times / S)
    if found.mean is None or found.min is None or found.max is None:
        assert start >= end or found.undefined is not None
    else:
        assert 0 <= found.min <= found.mean <= found.max


def test_a_gauge_without_any_look_is_undefined() -> None:
    assert gauge(Looks(np.array([], dtype=np.int64), {}), (0, S), np.array([])).undefined == "not told at every look"


Watch = Callable[[Cell], dict[tuple[str, str], list[float | None]]]


def watched(root: Path, card: Row, watch: Watch) -> Row:
    """The result of a card whose cells were looked at just before and after their load."""
    build(root, card)
    for path in sorted((root / "events").glob("*.parquet")):
        client = pl.read_parquet(root / "telemetry" / f"client-{path.stem}.parquet").to_dicts()[0]
        events = pl.read_parquet(path).to_dicts()[0]
        cell = Cell(path.stem, events["block"], events["arm"], events["load_point"], events["load"])
        times = [client["load_start"] - S, client["load_end"] + S]
        table(watch(cell), times).write_parquet(root / "telemetry" / f"host-{path.stem}.parquet")
    return analyse(root)


def machine_conditions(result: Row) -> list[tuple[str, str, str]]:
    titles = tuple(quantity.title for quantity in QUANTITIES)
    found = [row for row in result["conditions"] if row["name"].startswith((*titles, "not told by the machine"))]
    return [(row["name"], row["value"], row["source"]) for row in found]


NOT_TOLD = (
    "not told by the machine",
    "thermal throttling, power and accelerators: the machine that benchcard ran on does not tell, or not to it",
    "unknown",
)


def steady_machine(cell: Cell) -> dict[tuple[str, str], list[float | None]]:
    return {
        ("node_cpu_frequency_hertz", '{"cpu":"0","source":"cpufreq"}'): [2e9, 2e9],
        ("node_thermal_zone_temp", '{"zone":"0"}'): [60.0, 62.0],
    }


def test_rows_of_a_run_whose_machine_stood_still(tmp_path: Path) -> None:
    result = watched(tmp_path, ab_card(), steady_machine)
    rows = result["telemetry"]
    assert len(rows) == 2 * len({row["cell"] for row in result["metrics"]})
    assert rows[0] == {
        "cell": "b01-baseline-l1", "block": 1, "arm": "baseline", "load_point": 1, "load": 10.0,
        "metric": "host.cpu_frequency", "unit": "Hz", "mean": 2e9, "min": 2e9, "max": 2e9, "n": 2, "undefined": None,
    } | {key: rows[0][key] for key in ("cell", "arm", "load_point", "load")}  # fmt: skip
    assert machine_conditions(result) == [NOT_TOLD]


def test_nothing_is_said_where_nobody_looked(tmp_path: Path) -> None:
    build(tmp_path, ab_card())
    result = analyse(tmp_path)
    assert "telemetry" not in result
    assert machine_conditions(result) == []


def test_a_frequency_that_differs_between_the_arms_is_a_condition(tmp_path: Path) -> None:
    def watch(cell: Cell) -> dict[tuple[str, str], list[float | None]]:
        # at the second load point alone the candidate's cores run at 1.8 GHz
        slow = cell.arm == "candidate" and cell.load_point == 2
        rows = steady_machine(cell)
        rows["node_cpu_frequency_hertz", '{"cpu":"0","source":"cpufreq"}'] = [1.8e9 if slow else 2e9] * 2
        return rows

    result = watched(tmp_path, ab_card(), watch)
    blocks = len({row["block"] for row in result["telemetry"]})
    assert machine_conditions(result) == [
        (
            "CPU frequency, mean core: differs between the arms",
            f"at 20 req/s 2.00 GHz in the baseline and 1.80 GHz in the candidate, on average over {blocks} blocks (95% "
            "interval of the difference −0.20 GHz to −0.20 GHz). Exploratory: it might explain part of the effect, or "
            "follow from the treatment",
            "observed",
        ),
        NOT_TOLD,
    ]


def test_a_temperature_that_moves_over_the_blocks_is_a_condition(tmp_path: Path) -> None:
    def watch(cell: Cell) -> dict[tuple[str, str], list[float | None]]:
        rows = steady_machine(cell)
        rows["node_thermal_zone_temp", '{"zone":"0"}'] = [50.0 + 2 * cell.block] * 2
        return rows

    result = watched(tmp_path, ab_card(), watch)
    blocks = len({row["block"] for row in result["telemetry"]})
    assert machine_conditions(result) == [
        (
            "Temperature, hottest sensor: moves over the blocks",
            f"by +{2 * (blocks - 1)}.0 °C from the first of {blocks} blocks to the last (Theil–Sen), around "
            f"{50 + blocks + 1}.0 °C. Exploratory: arms are compared within blocks, so it widens the interval of the "
            "effect rather than moves it",
            "observed",
        ),
        NOT_TOLD,
    ]


def test_what_stays_within_the_margins_is_no_condition(tmp_path: Path) -> None:
    def watch(cell: Cell) -> dict[tuple[str, str], list[float | None]]:
        rows = steady_machine(cell)
        warmer = cell.arm == "candidate"
        rows["node_thermal_zone_temp", '{"zone":"0"}'] = [54.9 if warmer else 50.0] * 2
        rows["node_cpu_frequency_hertz", '{"cpu":"0","source":"cpufreq"}'] = [1.961e9 if warmer else 2e9] * 2
        return rows

    assert machine_conditions(watched(tmp_path, ab_card(), watch)) == [NOT_TOLD]


def test_a_baseline_has_rows_too(tmp_path: Path) -> None:
    result = watched(tmp_path, baseline_card(), steady_machine)
    assert {row["metric"] for row in result["telemetry"]} == {"host.cpu_frequency", "host.temperature"}
    assert machine_conditions(result) == [NOT_TOLD]

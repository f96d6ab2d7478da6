"""The section on the machine: nothing without rows, the table's whole text, undefined cells counted, a chart only where
something moved."""

from __future__ import annotations

from pathlib import Path

import bundles
from benchcard.reports import read
from benchcard.reports.document import Figure, Paragraph, Table
from benchcard.reports.machine import machine_sections


def row(metric: str, unit: str, arm: str, block: int, mean: float | None, **changes: object) -> bundles.Json:
    value: bundles.Json = {"mean": mean, "min": mean, "max": mean, "n": 4, "undefined": None}
    at = {"cell": f"b{block:02d}-{arm}-l2", "block": block, "arm": arm, "load_point": 2, "load": 12.0}
    return {**at, "metric": metric, "unit": unit, **value, **changes}


def machine(tmp_path: Path, rows: list[bundles.Json]) -> read.Bundle:
    result = bundles.supported()
    result["telemetry"] = rows
    return read.read_bundle(bundles.write(tmp_path / "bundle", result))


def test_no_section_without_rows(tmp_path: Path) -> None:
    assert machine_sections(machine(tmp_path, [])) == ()
    assert machine_sections(read.read_bundle(bundles.write(tmp_path / "old", bundles.supported()))) == ()


def test_the_table_and_the_chart(tmp_path: Path) -> None:
    reason = "a counter fell: it was reset, or its process ended"
    rows = [
        row("host.cpu_busy", "1", "baseline", 1, 0.5, min=0.25, max=1.0),
        row("host.cpu_busy", "1", "candidate", 1, 0.75, min=0.5, max=0.875),
        row("host.cpu_busy", "1", "baseline", 2, 0.625),
        row("host.cpu_busy", "1", "candidate", 2, None, min=None, max=None, n=0, undefined=reason),
        row("host.cpu_frequency", "Hz", "baseline", 1, 2.5e9),
        row("host.cpu_frequency", "Hz", "candidate", 1, 2.5e9),
        row("host.context_switches", "per s", "baseline", 1, 5880.0),
        row("host.network", "bytes/s", "baseline", 1, 2048.0),
        row("host.telemetry_cpu", "1", "baseline", 1, 0.0009),
        row("host.telemetry_cpu", "1", "candidate", 1, 0.0004),
    ]
    (section,) = machine_sections(machine(tmp_path, rows))
    (found,) = [block for block in section.blocks if isinstance(block, Table)]
    assert [column.heading for column in found.columns] == [
        "Quantity", "Mean, baseline", "Mean, candidate", "Lowest", "Highest", "Undefined",
    ]  # fmt: skip
    assert [[cell.text for cell in line] for line in found.rows] == [
        ["CPU busy, of all cores", "56.2%", "75%", "25%", "100%", f"of 4 cells: 1 ({reason})"],
        ["Context switches", "5,880 per s", "undefined", "5,880 per s", "5,880 per s", ""],
        ["CPU frequency, mean core", "2.5 GHz", "2.5 GHz", "2.5 GHz", "2.5 GHz", ""],
        ["Network, other interfaces, both ways", "2 KiB/s", "undefined", "2 KiB/s", "2 KiB/s", ""],
    ]
    (figure,) = [block for block in section.blocks if isinstance(block, Figure)]
    assert figure.caption == (
        "The machine over the blocks, in the order in which they ran: each cell's mean, and its lowest and highest."
    )
    # the frequency was the same in every cell: the table says it
    assert "CPU busy, of all cores (%)" in figure.svg
    assert "GHz" not in figure.svg
    assert [block.text for block in section.blocks if isinstance(block, Paragraph)][-1] == (
        "Looking took 0.09% of one core's time at most (the cell where it took most)."
    )


def test_a_machine_that_stood_still_has_no_chart(tmp_path: Path) -> None:
    rows = [row("host.cpu_frequency", "Hz", arm, 1, 2.5e9) for arm in ("baseline", "candidate")]
    (section,) = machine_sections(machine(tmp_path, rows))
    assert not [block for block in section.blocks if isinstance(block, Figure)]
    (found,) = [block for block in section.blocks if isinstance(block, Table)]
    assert [column.heading for column in found.columns][-1] == "Highest"

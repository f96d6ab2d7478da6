"""What the analysis must do on two cores: a million attempts of 100 chunk times, verdict and report, in 15 s, 1.5 GiB.

    python -m tests.performance.analysis_speed [--attempts 1000000] [--runs 3] [--keep DIR]

The bundle is synthetic and goes through the real commands, as processes of their own; wall time is the best of the
runs, memory the worst of them (peak resident set of one process). Nothing else may run meanwhile.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from benchcard.runner.analysis_process import installed_revision
from benchcard.schema.event import CLIENT_COLUMNS, EVENT_COLUMNS

from tests.analysis import bundles
from tests.analysis.bundles import MS, SECOND, Cell, Row, frame, polars_type

#: chunks of a reply; tokens come 20 ms apart, the first after 100 ms
CHUNKS, GAP, TTFT = 100, 20 * MS, 100 * MS
WARMUP_S, MEASURE_S = 2.5, 60.0
BLOCKS = 8
#: what must hold for the whole
WALL_S, PEAK_GIB = 15.0, 1.5
#: `benchcard report` without its analysis: rendering, and the digests of the manifest
_RENDER = "import sys; from pathlib import Path; from benchcard.runner.bundle import open_bundle; "
_RENDER += "from benchcard.runner.cli.finish import render_reports; render_reports(open_bundle(Path(sys.argv[1])))"
_WRITE = "import sys; from pathlib import Path; from tests.performance.analysis_speed import write_bundle; "
_WRITE += "write_bundle(Path(sys.argv[1]), int(sys.argv[2]))"


@dataclass(frozen=True)
class Used:
    """What a process used: wall and CPU time (s), and its peak resident set (GiB)."""

    wall: float
    cpu: float
    peak: float


def write_bundle(root: Path, attempts: int) -> Path:
    """A run of an ab card: 8 blocks of two arms at two loads, `attempts` in all, of `CHUNKS` chunks each."""
    mean = attempts / (BLOCKS * 4) / (WARMUP_S + MEASURE_S)
    loads = [round(mean * 0.992, 6), round(mean * 1.008, 6)]
    card = bundles.ab_card(
        analysis__revision=installed_revision(),
        claim__at=loads[:1],
        guards=[guard | {"at": loads[:1]} for guard in bundles.AB_CARD["guards"]],
        method__spare_blocks=0,
        workload__loads=loads,
        workload__window={"warmup": {"seconds": WARMUP_S}, "measure": {"seconds": MEASURE_S}, "drain": 2.0},
    )
    bundles.build(root, card, skip=lambda _: True)
    planned = pl.read_parquet(root / "plan" / "requests.parquet")
    numbers = np.random.default_rng(1)
    lines = []
    for number, cell in enumerate(bundles.cells_of(card)):
        cell.load_start = (number + 1) * 1000 * SECOND
        mine = planned.filter((pl.col("block") == cell.block) & (pl.col("load_point") == cell.load_point))
        events = _events(cell, mine.filter(pl.col("phase") != "drain"), numbers)
        events.write_parquet(root / "events" / f"{cell.cell}.parquet", compression="zstd", statistics=True)
        _telemetry(root, cell, events)
        lines.append(f'{{"seq": {number + 1}, "kind": "cell_ended", "cell": "{cell.cell}"}}\n')
    with (root / "attempts.jsonl").open("a") as log:
        log.writelines(lines)
    point = bundles.point(peak_in_flight=10**6, tokens_per_s=1e9, requests_per_s=1e9)
    bundles.write_json(root / "instrument" / "1.json", bundles.CERTIFICATE | {"points": [point]})
    return root


def _events(cell: Cell, planned: pl.DataFrame, numbers: np.random.Generator) -> pl.DataFrame:
    """Good replies: each gap lognormal about 20 ms, the first token after 100 ms and a bit for its block."""
    n = planned.height
    scheduled = cell.load_start + planned["offset"].to_numpy()
    gaps = numbers.lognormal(np.log(GAP), 0.2, (n, CHUNKS)).astype(np.int64)
    gaps[:, 0] = numbers.lognormal(np.log(TTFT + cell.block * MS), 0.3, n)
    times = scheduled[:, None] + np.cumsum(gaps, axis=1)
    ones = np.ones((n, CHUNKS), dtype=np.int32)
    columns: Row = {
        "run": "synthetic", "cell": cell.cell, "block": cell.block, "arm": cell.arm, "load_point": cell.load_point,
        "load": cell.load, "output_tokens": CHUNKS, "token_counts": "chunk", "outcome": "ok", "status": 200,
        "finish_reason": "length", "streamed": True, "reads": CHUNKS, "reused": True, "tries": 1, "worker": 0,
        "phase": planned["phase"], "index": planned["index"], "prompt_digest": planned["prompt_digest"],
        "asked_input_tokens": planned["input_tokens"], "input_tokens": planned["input_tokens"],
        "asked_output_tokens": CHUNKS, "scheduled": scheduled, "queued": scheduled + 50_000,
        "sent": scheduled + 100_000, "headers": times[:, 0], "first_chunk": times[:, 0], "first_token": times[:, 0],
        "first_answer_token": times[:, 0], "last_token": times[:, -1], "end": times[:, -1],
        "chunk_times": _lists(times), "chunk_tokens": _lists(ones), "chunk_bytes": _lists(ones * 6),
        "chunk_kinds": pl.Series(["content"]).new_from_index(0, n * CHUNKS).reshape((n, CHUNKS)).arr.to_list(),
    }  # fmt: skip
    return pl.select(
        **{
            column.name: pl.lit(columns.get(column.name)).cast(polars_type(column))
            if not isinstance(columns.get(column.name), (pl.Series, np.ndarray))
            else pl.Series(columns[column.name]).cast(polars_type(column))
            for column in EVENT_COLUMNS
        }
    )


def _lists(values: np.ndarray[Any, Any]) -> pl.Series:
    return pl.Series(values.ravel()).reshape(values.shape).arr.to_list()


def _telemetry(root: Path, cell: Cell, events: pl.DataFrame) -> None:
    start = cell.load_start + round(WARMUP_S * SECOND)
    ends: Any = events["end"].max()
    row = {
        "cell": cell.cell, "load_start": cell.load_start, "load_end": ends, "window_start": start,
        "window_end": start + round(MEASURE_S * SECOND), "wall_start": 0, "wall_end": ends - cell.load_start,
        "cpu": (ends - cell.load_start) // 5, "run_delay": 0, "loop_lag_p99": MS // 5, "peak_in_flight": 1000,
        "certificate": 1, "counted_planned": events.filter(pl.col("phase") == "measure").height,
        "plan_exhausted": False,
    }  # fmt: skip
    frame(CLIENT_COLUMNS, [row]).write_parquet(root / "telemetry" / f"client-{cell.cell}.parquet")


def run(*command: str) -> Used:
    """Run a Python process to its end and say what it used."""
    begun = time.perf_counter()
    pid = os.posix_spawn(sys.executable, [sys.executable, *command], os.environ)
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} ended with status {os.waitstatus_to_exitcode(status)}")
    return Used(time.perf_counter() - begun, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 2**20)


def _line(what: str, runs: list[Used]) -> tuple[float, float]:
    wall, cpu, peak = min(u.wall for u in runs), min(u.cpu for u in runs), max(u.peak for u in runs)
    print(f"| {what} | {wall:.1f} | {cpu:.1f} | {peak:.2f} |", flush=True)
    return wall, peak


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="How long the analysis takes, and how much memory.")
    parser.add_argument("--attempts", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="make the bundle here and leave it; one that is there is used again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = arguments.keep or Path(temporary) / "run"
        if not root.exists():
            # by a process of its own: a child's peak begins at what its parent had when it was started
            run("-c", _WRITE, str(root), str(arguments.attempts))
        events = [pl.scan_parquet(path).select(pl.len()).collect().item() for path in (root / "events").iterdir()]
        size = sum(path.stat().st_size for path in (root / "events").iterdir()) / 1e6
        print(f"{sum(events):,} attempts of {CHUNKS} chunks in {len(events)} cells, {size:,.0f} MB of events\n")
        print("| step | wall, s | CPU, s | peak, GiB |\n|---|---:|---:|---:|")
        found = [
            _line("verdict", [run("-m", "benchcard.analysis", "verdict", str(root)) for _ in range(arguments.runs)]),
            _line("report and manifest", [run("-c", _RENDER, str(root)) for _ in range(arguments.runs)]),
        ]
    wall, peak = sum(wall for wall, _ in found), max(peak for _, peak in found)
    good = wall <= WALL_S and peak <= PEAK_GIB
    print(f"| together | {wall:.1f} | | {peak:.2f} |")
    print(f"\nmust be at most {WALL_S:g} s and {PEAK_GIB:g} GiB: {'yes' if good else 'NO'}")


if __name__ == "__main__":
    main()

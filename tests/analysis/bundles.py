"""Synthetic bundles: a card, a plan, and events whose every number is chosen by the test.

`build` writes a whole run directory. By default each cell offers `load` requests a second at a constant gap, each a
good reply (TTFT 100 ms, five chunks of one token 20 ms apart); `good` says how many of the counted ones are good, the
others have a TTFT of 900 ms. On a card of cold starts each server was launched 3 s before its load and ready 1 s before
it. `rows`, `client`, `server` and `start` are hooks that see what is about to be written for a cell and change it.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from benchcard.analysis.__main__ import main
from benchcard.schema.event import CLIENT_COLUMNS, EVENT_COLUMNS, SERVER_COLUMNS, START_COLUMNS, Column

MS = 1_000_000
SECOND = 1_000_000_000

Row = dict[str, Any]

AB_CARD: Row = {
    "card": 1,
    "kind": "ab",
    "id": "synthetic-ab",
    "title": "Does prefix caching raise goodput?",
    "decision": {"question": "Keep prefix caching on?", "owner": "serving", "budget": 300.0},
    "hypothesis": {"chain": ["prefill shrinks", "TTFT falls"], "may_cost": ["longer decode steps"]},
    "claim": {
        "metric": "goodput",
        "direction": "must_rise_by",
        "threshold": {"value": 0.05, "scale": "relative"},
        "scope": "loads",
        "at": [20.0],
    },
    "guards": [
        {
            "metric": "tpot.p50",
            "direction": "may_rise_by",
            "margin": {"value": 0.03, "scale": "relative"},
            "at": [20.0],
        },
        {
            "metric": "error_rate",
            "direction": "may_rise_by",
            "margin": {"value": 0.005, "scale": "points"},
            "at": [20.0],
        },
    ],
    "evidence": [
        {"metric": "server.prefix_cache_hit_rate", "arm": "candidate", "direction": "at_least", "limit": 0.5},
        {"metric": "server.prefix_cache_hit_rate", "arm": "baseline", "direction": "at_most", "limit": 0.0},
    ],
    "level": "service",
    "system": {
        "engine": {"kind": "simulated", "version": "any", "costs": "atlas", "speedup": 10.0},
        "model": {
            "name": "atlas-70b",
            "path": None,
            "weights_sha256": {"unknown": "the embedded engine has no weights"},
            "tokenizer": "words",
            "precision": "bfloat16",
            "context_limit": 32768,
        },
        "flags": {"max-num-batched-tokens": 2048, "max-num-seqs": 32},
        "hardware": {"accelerators": {"unknown": "embedded engine"}},
        "launch": {
            "python": None,
            "command": None,
            "env": {},
            "restart": "each_arm_in_block",
            "idle": "stopped",
            "ready_within": 60.0,
        },
        "neighbours": "none",
    },
    "arms": {
        "baseline": {"flags": {"enable-prefix-caching": False}, "env": {}, "server": None, "expect": {}},
        "candidate": {"flags": {"enable-prefix-caching": True}, "env": {}, "server": None, "expect": {}},
    },
    "tuning": None,
    "identity": {"confounded": []},
    "workload": {
        "arrivals": {"process": "constant"},
        "load_kind": "rate",
        "loads": [10.0, 20.0],
        "operating_point": None,
        "window": {"warmup": {"seconds": 0.5}, "measure": {"seconds": 5.0}, "drain": 2.0},
        "endpoint": "completions",
        "requests": {
            "lengths": {
                "input": {"median": 120.0, "sigma": 0.4},
                "output": {"median": 60.0, "sigma": 0.5},
                "correlation": 0.0,
            },
            "prefix": {"documents": 12, "tokens": 1500, "choice": {"law": "zipf", "exponent": 1.1}},
        },
        "modality": "text",
        "priority": "none",
        "sampling": {"temperature": 0.0, "ignore_eos": True, "seed": None},
        "cache_state": "cold",
        "client": {
            "timeout_connect": 5.0,
            "timeout_idle": 30.0,
            "timeout_total": 60.0,
            "retries": 0,
            "connections": "reuse",
            "in_flight": None,
            "workers": "auto",
            "token_counts": "chunk",
        },
    },
    "objectives": {
        "success": True,
        "ttft": {"at_most": 0.6},
        "itl": {"every": 0.15},
        "output": {"finish": ["stop", "length"], "min_tokens": 1},
    },
    "quality": [],
    "method": {"blocks": 8, "seed": 1, "spare_blocks": 2, "pause_between_cells": 2.0},
    "power": None,
    "validity": {
        "schedule_lag_p99": 0.005,
        "delivered_load_within": 0.02,
        "client_cpu": 0.85,
        "clock_ratio": 0.001,
        "loop_lag_p99": 0.01,
        "client_starved": 0.05,
        "coalesced_chunks": 0.2,
        "client_error": 0.001,
    },
    "analysis": {"revision": "sha256:" + "0" * 64, "confidence": 0.95, "attainment": 0.99},
    "second_day": {"agreement": 0.1},
    "outputs": {"raw_events": "always", "prompts": "digest", "texts": "digest", "publish": "any_verdict"},
}


def ab_card(**changes: Any) -> Row:
    """The ab card with values at dotted paths changed (dots written as __)."""
    return changed(AB_CARD, changes)


def baseline_card(**changes: Any) -> Row:
    """A baseline card: one arm, a closed-loop sweep over concurrency 1 and 4, three repeats."""
    card = changed(
        AB_CARD,
        {
            "kind": "baseline",
            "id": "synthetic-baseline",
            "title": "What do later experiments stand on?",
            "claim": None,
            "guards": [],
            "evidence": [],
            "hypothesis": None,
            "objectives": None,
            "second_day": None,
            "arms": {"baseline": {"flags": {}, "env": {}, "server": None, "expect": {}}},
            "workload__arrivals": {"process": "closed", "think_time": 0.0},
            "workload__load_kind": "concurrency",
            "workload__loads": [1.0, 4.0],
            "workload__window": {"warmup": {"requests": 4}, "measure": {"requests": 40}, "drain": 2.0},
            "method": {"blocks": 3, "seed": 1, "spare_blocks": 0, "pause_between_cells": 0.0},
        },
    )
    return changed(card, changes)


def changed(card: Row, changes: Row) -> Row:
    card = copy.deepcopy(card)
    for path, value in changes.items():
        *parents, last = path.split("__")
        place = card
        for key in parents:
            place = place[key]
        place[last] = value
    return card


def polars_type(column: Column) -> Any:
    if column.type.startswith("List("):
        return pl.List(getattr(pl, column.type[5:-1]))
    return getattr(pl, column.type)


def frame(columns: Iterable[Column], rows: list[Row]) -> pl.DataFrame:
    """Rows as a table with exactly the schema's columns; what a row does not have is null."""
    names = {column.name: polars_type(column) for column in columns}
    return pl.DataFrame([{name: row.get(name) for name in names} for row in rows], schema=names)


def event(index: int = 0, *, scheduled: int = 0, **changes: Any) -> Row:
    """One attempt that never got a token; times of `changes` are ns since the run's epoch."""
    row: Row = {
        "run": "synthetic",
        "cell": "b01-baseline-l1",
        "block": 1,
        "arm": "baseline",
        "load_point": 1,
        "load": 1.0,
        "phase": "measure",
        "index": index,
        "prompt_digest": f"prompt-{index}",
        "scheduled": scheduled,
        "queued": scheduled,
        "sent": scheduled,
        "chunk_times": [],
        "chunk_bytes": [],
        "chunk_tokens": [],
        "chunk_kinds": [],
        "token_counts": "chunk",
        "outcome": "no_token",
        "streamed": True,
        "tries": 1,
        "end": scheduled,
    }
    return row | changes


def reply(
    index: int,
    chunks_ms: list[float],
    *,
    scheduled: int = 0,
    tokens: list[int] | None = None,
    output_tokens: int | None = None,
    kinds: list[str] | None = None,
    **changes: Any,
) -> Row:
    """One ok attempt with token-bearing chunks at the given ms after its scheduled time."""
    times = [scheduled + round(ms * MS) for ms in chunks_ms]
    tokens = tokens or [1] * len(times)
    kinds = kinds or ["content"] * len(times)
    answers = [time for time, kind in zip(times, kinds, strict=True) if kind != "reasoning"]
    return event(
        index,
        scheduled=scheduled,
        **{
            "chunk_times": times,
            "chunk_tokens": tokens,
            "chunk_kinds": kinds,
            "chunk_bytes": [1] * len(times),
            "first_token": times[0],
            "first_answer_token": answers[0] if answers else None,
            "last_token": times[-1],
            "end": times[-1],
            "output_tokens": sum(tokens) if output_tokens is None else output_tokens,
            "outcome": "ok",
            "status": 200,
            "finish_reason": "length",
        }
        | changes,
    )


@dataclass
class Cell:
    """A planned cell as the hooks see it."""

    cell: str
    block: int
    arm: str
    load_point: int
    load: float
    planned: list[Row] = field(default_factory=list)
    load_start: int = 0


def _keep(_: Cell, rows: Any) -> Any:
    return rows


def always_good(_: int, __: str, ___: int) -> float:
    return 1.0


def build(
    root: Path,
    card: Row | None = None,
    *,
    good: Callable[[int, str, int], float] = always_good,
    rows: Callable[[Cell, list[Row]], list[Row]] = _keep,
    client: Callable[[Cell, Row], Row | None] = _keep,
    server: Callable[[Cell, list[Row]], list[Row] | None] = _keep,
    start: Callable[[Cell, Row], Row | None] = _keep,
    skip: Callable[[Cell], bool] = lambda cell: cell.block > 8,
    seed: int = 1,
    run: str = "synthetic/20260101T000000Z-00000000",
    identity: bool = True,
) -> Path:
    """Write a whole run directory. `good(block, arm, load_point)` is the share of counted attempts that are good;
    `skip` says which cells were never run (by default the spares)."""
    card = card or ab_card()
    open_loop = card["workload"]["arrivals"]["process"] != "closed"
    cells = cells_of(card)
    for number, cell in enumerate(cells):
        cell.planned = _planned(card, cell, open_loop)
        cell.load_start = (number + 1) * 1000 * SECOND
    for folder in ("plan", "events", "telemetry", "identity", "instrument"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    _write_plan(root, card, cells, seed)
    for cell in cells:
        if not skip(cell):
            _write_cell(root, card, cell, good, rows, client, server)
            if card["workload"].get("test") == "cold_start":
                _write_start(root, cell, start)
    write_json(root / "instrument" / "1.json", CERTIFICATE)
    for arm in card["arms"] if identity else ():
        write_json(root / "identity" / f"{arm}.json", _identity(card, arm))
    lines = [{"seq": 0, "kind": "run_started", "run": run, "card_digest": DIGEST, "epoch_ns": 0, "wall_ns": 0}]
    lines += [{"seq": i, "kind": "cell_ended", "cell": c.cell} for i, c in enumerate(cells, 1) if not skip(c)]
    (root / "attempts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return root


DIGEST = "sha256:" + "c" * 64


def point(**changes: Any) -> Row:
    """A point of a certificate at which the client held: 64 streams, 25,000 tokens/s."""
    return {
        "rate": None, "tokens": 40, "lost": 0, "ttft_p50_error": 0.0003, "ttft_p99_error": 0.0005,
        "itl_p99_error": 0.0002, "peak_in_flight": 64, "tokens_per_s": 25_000.0, "requests_per_s": 600.0,
    } | changes  # fmt: skip


CERTIFICATE: Row = {
    "certificate_version": 1,
    "client": {"workers": 1, "loop": "uvloop", "timer": "timerfd", "costs": []},
    "points": [point(), point(rate=100.0, tokens=5, peak_in_flight=5, tokens_per_s=500.0, requests_per_s=100.0)],
}


def cells_of(card: Row) -> list[Cell]:
    """The planned cells, as yet without requests."""
    cells = []
    spares = card["method"]["spare_blocks"]
    for block in range(1, card["method"]["blocks"] + spares + 1):
        points = list(enumerate(card["workload"]["loads"], start=1))
        arms = list(card["arms"])
        if block % 2:
            points.reverse()
            arms.reverse()
        cells += [
            Cell(f"b{block:02d}-{arm}-l{point}", block, arm, point, load) for point, load in points for arm in arms
        ]
    return cells + _aa_cells(card)


def _aa_cells(card: Row) -> list[Cell]:
    """A/A blocks (no spare among them), numbered after all others."""
    aa, loads = card["method"].get("aa"), card["workload"]["loads"]
    first = card["method"]["blocks"] + card["method"]["spare_blocks"]
    return [
        Cell(f"a{k:02d}-{arm}-l{loads.index(load) + 1}", first + k, arm, loads.index(load) + 1, load)
        for k in range(1, (aa["blocks"] if aa else 0) + 1)
        for load in aa["at"]
        for arm in ("baseline", "baseline_aa")
    ]


def _planned(card: Row, cell: Cell, open_loop: bool) -> list[Row]:
    window = card["workload"]["window"]
    if open_loop:
        warmup, measure = window["warmup"]["seconds"], window["measure"]["seconds"]
        count = round((warmup + measure) * cell.load) + 3
        offsets: list[int | None] = [round((i + 0.5) / cell.load * SECOND) for i in range(count)]
        phases = [
            "warmup" if o < warmup * SECOND else "measure" if o < (warmup + measure) * SECOND else "drain"
            for o in offsets
            if o is not None
        ]
    else:
        warmup, measure = window["warmup"]["requests"], window["measure"]["requests"]
        count = warmup + measure + 12
        offsets = [None] * count
        phases = ["warmup" if i < warmup else "measure" if i < warmup + measure else "drain" for i in range(count)]
    return [
        {
            "block": cell.block,
            "load_point": cell.load_point,
            "index": i,
            "phase": phases[i],
            "offset": offsets[i],
            "client": None if open_loop else i % round(cell.load),
            "prefix_group": i % 3,
            "prefix_tokens": 1500,
            "input_tokens": 1620,
            "output_tokens": 5,
            "prompt_digest": f"{cell.block}-{cell.load_point}-{i}",
        }
        for i in range(count)
    ]


PLAN_TYPES: dict[str, Any] = {
    "block": pl.Int32,
    "load_point": pl.Int32,
    "index": pl.Int64,
    "phase": pl.String,
    "offset": pl.Int64,
    "client": pl.Int32,
    "prefix_group": pl.Int64,
    "prefix_tokens": pl.Int32,
    "input_tokens": pl.Int32,
    "output_tokens": pl.Int32,
    "prompt_digest": pl.String,
}


def _write_plan(root: Path, card: Row, cells: list[Cell], seed: int) -> None:
    write_json(root / "card.resolved.json", card)
    blocks: dict[int, list[Cell]] = {}
    for cell in cells:
        blocks.setdefault(cell.block, []).append(cell)
    plan = {
        "plan_version": 1,
        "card_id": card["id"],
        "card_digest": DIGEST,
        "seed": seed,
        "seed_source": "card" if seed == card["method"]["seed"] else "second_day",
        "blocks": [
            {
                "block": block,
                "spare": block > card["method"]["blocks"] and members[0].cell.startswith("b"),
                **({"aa": True} if members[0].cell.startswith("a") else {}),
                "loads": list(dict.fromkeys(cell.load_point for cell in members)),
                "arms": list(dict.fromkeys(cell.arm for cell in members)),
                "cells": [cell.cell for cell in members],
            }
            for block, members in blocks.items()
        ],
        "cells": [
            {"cell": c.cell, "block": c.block, "arm": c.arm, "load_point": c.load_point, "load": c.load} for c in cells
        ],
        "requests_digest": "sha256:" + "d" * 64,
    }
    write_json(root / "plan.json", plan)
    arm = next(iter(card["arms"]))
    planned = [row for cell in cells if cell.arm == arm for row in cell.planned]
    pl.DataFrame(planned, schema=PLAN_TYPES).write_parquet(root / "plan" / "requests.parquet")


def _write_cell(
    root: Path,
    card: Row,
    cell: Cell,
    good: Callable[[int, str, int], float],
    rows: Callable[[Cell, list[Row]], list[Row]],
    client: Callable[[Cell, Row], Row | None],
    server: Callable[[Cell, list[Row]], list[Row] | None],
) -> None:
    counted = sum(row["phase"] == "measure" for row in cell.planned)
    wanted = round(good(cell.block, cell.arm, cell.load_point) * counted)
    events, seen = [], 0
    for planned in cell.planned:
        # good attempts are spread evenly over the window
        is_good = planned["phase"] != "measure" or (seen + 1) * wanted // counted > seen * wanted // counted
        seen += planned["phase"] == "measure"
        events.append(_event(cell, planned, 100.0 if is_good else 900.0))
    telemetry = _client_row(card, cell, events)
    events = rows(cell, events)
    frame(EVENT_COLUMNS, events).write_parquet(root / "events" / f"{cell.cell}.parquet")
    one = client(cell, telemetry)
    if one is not None:
        frame(CLIENT_COLUMNS, [one]).write_parquet(root / "telemetry" / f"client-{cell.cell}.parquet")
    samples = server(cell, _server_rows(cell))
    if samples is not None:
        frame(SERVER_COLUMNS, samples).write_parquet(root / "telemetry" / f"server-{cell.cell}.parquet")


def _write_start(root: Path, cell: Cell, start: Callable[[Cell, Row], Row | None]) -> None:
    ready = cell.load_start - SECOND
    row = {"cell": cell.cell, "launched": ready - 2 * SECOND, "looked": ready - 10 * MS, "ready": ready}
    one = start(cell, row)
    if one is not None:
        frame(START_COLUMNS, [one]).write_parquet(root / "telemetry" / f"start-{cell.cell}.parquet")


def _event(cell: Cell, planned: Row, ttft_ms: float) -> Row:
    closed = planned["offset"] is None
    # a closed-loop client is free again when its last reply has ended
    offset = (planned["index"] // round(cell.load)) * 200 * MS if closed else planned["offset"]
    # a spread of a few ms from request to request and block to block, so that no percentile is a lump
    wobble = (planned["index"] * 7 + cell.block * 3) % 11 / 10
    step = 20.0 + (cell.block * 5 + len(cell.arm)) % 7 / 100
    chunks = [ttft_ms + wobble + step * i for i in range(5)]
    row = reply(planned["index"], chunks, scheduled=cell.load_start + offset)
    row |= {"cell": cell.cell, "block": cell.block, "arm": cell.arm, "load_point": cell.load_point, "load": cell.load}
    return row | {
        "phase": planned["phase"],
        "prompt_digest": planned["prompt_digest"],
        "asked_input_tokens": planned["input_tokens"],
        "input_tokens": planned["input_tokens"],
        "asked_output_tokens": planned["output_tokens"],
        "queued": row["scheduled"] + 50_000,
        "sent": row["scheduled"] + 100_000,
    }


def _client_row(card: Row, cell: Cell, events: list[Row]) -> Row:
    window = card["workload"]["window"]
    counted = [row["scheduled"] for row in events if row["phase"] == "measure"]
    if "seconds" in window["measure"]:
        start = cell.load_start + round(window["warmup"]["seconds"] * SECOND)
        end = start + round(window["measure"]["seconds"] * SECOND)
    else:
        start = min(counted)
        end = min(row["scheduled"] for row in events if row["phase"] == "drain")
    load_end = max(row["end"] for row in events)
    wall = 1_700_000_000 * SECOND
    return {
        "cell": cell.cell,
        "load_start": cell.load_start,
        "load_end": load_end,
        "window_start": start,
        "window_end": end,
        "wall_start": wall,
        "wall_end": wall + load_end - cell.load_start,
        "cpu": (load_end - cell.load_start) // 5,
        "run_delay": 0,
        "loop_lag_p99": MS // 5,
        "peak_in_flight": 9,
        "certificate": 1,
        "counted_planned": len(counted),
        "plan_exhausted": False,
    }


def _server_rows(cell: Cell) -> list[Row]:
    hits, queries = (8000.0, 10000.0) if cell.arm == "candidate" else (0.0, 0.0)
    labels = '{"engine":"0","model_name":"atlas-70b"}'
    rows = []
    for when, share in (("before", 1.0), ("after", 2.0)):
        for name, value in (("hits", hits), ("queries", queries)):
            full = f"vllm:prefix_cache_{name}_total"
            rows.append({"cell": cell.cell, "when": when, "name": full, "labels": labels, "value": value * share})
    return rows


def _identity(card: Row, arm: str) -> Row:
    fields = {
        "engine.version": {"value": "0.1.0", "source": "observed", "why": None},
        "host.cpu": {"value": "Example CPU, 2 cores", "source": "observed", "why": None},
        "gpu.name": {"value": None, "source": "unknown", "why": "no accelerator was found"},
        "engine.cache_config.enable_prefix_caching": {
            "value": card["arms"][arm]["flags"].get("enable-prefix-caching"),
            "source": "observed",
            "why": None,
        },
    }
    return {"arm": arm, "fields": fields}


def write_json(path: Path, value: Row) -> None:
    path.write_text(json.dumps(value, indent=1))


def analyse(bundle: Path, *, apart: bool = False) -> Row:
    """The verdict (or baseline) as the command writes it; `apart` runs it as a process of its own."""
    if apart:
        done = process("verdict", str(bundle))
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    else:
        assert main(["verdict", str(bundle)]) == 0
    names = [name for name in ("verdict.json", "inference_baseline.json") if (bundle / name).is_file()]
    result: Row = json.loads((bundle / names[0]).read_text())
    return result


def process(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run the analysis as a process."""
    command = [sys.executable, "-m", "benchcard.analysis", *arguments]
    return subprocess.run(command, capture_output=True, text=True, input=stdin, timeout=120, check=False)

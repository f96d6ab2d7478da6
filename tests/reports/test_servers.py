"""The section on what the servers said of themselves, word for word."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import bundles
import lint
from benchcard.reports.render import render

Report = Callable[..., tuple[str, str]]
UNITS = {
    "server.running.mean": "requests", "server.running.max": "requests", "server.queue.mean": "requests",
    "server.queue.max": "requests", "server.kv_cache_usage.mean": "1", "server.kv_cache_usage.max": "1",
    "server.preemptions": "per request", "server.prefix_cache_hit_rate": "1",
    "server.iteration_tokens.mean": "tokens/step", "server.queue_time.mean": "s",
}  # fmt: skip


def rows(arm: str, point: int, load: float, *values: float | None, engine: str | None = None) -> list[bundles.Json]:
    return [
        {
            "arm": arm, "load_point": point, "load": load, "engine": engine, "metric": metric, "unit": unit,
            "meaning": "what it is", "value": value, "cells": 8, "samples": None, "empty": False,
            "undefined": None if value is not None else "b01: not exposed",
        }
        for (metric, unit), value in zip(UNITS.items(), values, strict=True)
    ]  # fmt: skip


def compared(what: str, check: str, unit: str, **changes: Any) -> bundles.Json:
    return {
        "cell": "b01-baseline-l1", "block": 1, "arm": "baseline", "load_point": 1, "load": 6.0, "what": what,
        "check": check, "unit": unit, "client": 60, "client_most": 64, "server": 60, "difference": 0.0, "excess": 0.0,
        "limit": 0.01, "word": "agree", "why": None, "note": f"client: its {what}; server: its own",
    } | changes  # fmt: skip


def verdict() -> bundles.Json:
    document = bundles.supported()
    nothing = rows("baseline", 2, 12.0, 7.25, 16, 2.5, 9, 0.61, 0.995, 0.125, None, 88.5, 0.412)
    nothing[7] |= {"empty": True, "undefined": "no prompt token was looked up in the cache"}
    document["server"] = {
        "rows": [
            *nothing, *rows("candidate", 2, 12.0, 5.5, 14, 0.25, 3, 0.4, 0.71, 0, 0.831, 40.25, 0.0123),
            *rows("baseline", 1, 6.0, 2.5, 6, 0, 0, 0.2, 0.31, 0, None, 41.0, 0.001),
            *rows("candidate", 1, 6.0, *[None] * 10),
        ],
        "warnings": [
            {"kind": "reset", "text": "process_start_time_seconds changed", "cells": ["b03-candidate-l1"]},
            {"kind": "missing", "text": "the server does not expose vllm:num_preemptions_total", "cells": ["b1", "b2"]},
        ],
    }  # fmt: skip
    document["crosscheck"] = [
        compared("requests", "server_requests", "requests"),
        compared("requests", "server_requests", "requests", server=59, difference=-1.0, excess=0.0156, word="differ"),
        compared("ttft", "server_latency", "s", client=0.1277, client_most=None, server=0.1226, difference=0.0051,
                 excess=0.0054, limit=0.1),
        compared("in_system", "littles_law", "requests", client=None, client_most=None, server=None, difference=None,
                 excess=None, limit=0.2, word="unknown", why="3 samples of the gauges; 20 are needed"),
    ]  # fmt: skip
    return document


SECTION = (Path(__file__).parent / "golden" / "servers.txt").read_text(encoding="utf-8")


def section(text: str) -> str:
    return text[text.index("## What the servers said") :].split("\n## ")[0] + "\n"


def test_the_whole_section(report: Report) -> None:
    markdown, html = report(verdict())
    assert section(markdown) == SECTION
    assert "What the servers said of themselves" in html


def test_every_number_of_it_follows(tmp_path: Path) -> None:
    folder = bundles.write(tmp_path / "bundle", verdict())
    render(folder)
    assert lint.lint(folder) == []


def test_several_engines_have_a_column(report: Report) -> None:
    document = verdict()
    document["server"]["rows"] = [
        *rows("baseline", 1, 6.0, 2, 6, 0, 0, 0.2, 0.3, 0, None, 41.0, 0.001),
        *rows("baseline", 1, 6.0, 1, 4, 0, 0, 0.1, 0.2, 0, None, 40.0, 0.002, engine="0"),
        *rows("baseline", 1, 6.0, 1, 2, 0, 0, 0.3, 0.3, 0, None, 42.0, 0.001, engine="1"),
    ]
    lines = [line for line in report(document)[0].splitlines() if line.startswith("| 6 req/s | baseline |")]
    assert "| 6 req/s | baseline | all | 2 (6) | 0 (0) | 20% (30%) | 0 | undefined | 41 | 1 ms |" in lines
    assert "| 6 req/s | baseline | 1 | 1 (2) | 0 (0) | 30% (30%) | 0 | undefined | 42 | 1 ms |" in lines


def test_a_bundle_from_before_has_no_section(report: Report) -> None:
    assert "What the servers said" not in report(bundles.supported())[0]


def test_nothing_to_warn_of_is_not_spoken_of(report: Report) -> None:
    document = verdict()
    document["server"]["warnings"] = []
    assert "nothing was taken for 0" not in report(document)[0]

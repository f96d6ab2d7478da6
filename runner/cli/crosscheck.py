"""benchcard crosscheck RUN [--python PATH] [--load N] [--json] [--out FILE]"""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import click

from ...schema.errors import InputError
from ..bundle import open_bundle
from ..files import read_json, write_json


@click.command(
    name="crosscheck",
    help="Start the server of a run's baseline once more, let `vllm bench serve` and then benchcard's client put the "
    "run's load on it, and show where the two differ and why. Nothing of the run changes.",
)
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--python", type=click.Path(path_type=Path), help="A Python that has vllm; by default the card's.")
@click.option("--tokenizer", help="The folder of a tokenizer, for vllm bench; by default the card's model.")
@click.option("--load", type=float, help="A load of the card; by default its operating point.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the result to this file, as JSON.")
@click.option("--json", "as_json", is_flag=True, help="The result as one JSON document on stdout.")
def command(
    run: Path, python: Path | None, tokenizer: str | None, load: float | None, out: Path | None, as_json: bool
) -> None:
    """Put another client beside ours."""
    from ..crosscheck.bench import interpreter
    from ..crosscheck.crosscheck import crosscheck

    bundle = open_bundle(run)
    if out is not None and (not out.resolve().parent.is_dir() or out.resolve().is_relative_to(bundle.root)):
        raise InputError(f"--out {out}: wanted a file outside of the run, in a folder that exists")
    found = crosscheck(bundle, interpreter(read_json(bundle.resolved), python), tokenizer, load, _say)
    if out is not None:
        write_json(out, found)
    click.echo(json.dumps(found, indent=2, allow_nan=False) if as_json else text(found))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def text(found: dict[str, Any]) -> str:
    """The result for people."""
    unit = "concurrent" if found["load_kind"] == "concurrency" else "req/s"
    lines = [
        f"{found['arm']} of {found['run']} at {found['load']:g} {unit} ({found['endpoint']}): benchcard's cell "
        f"{found['cell']} and vllm bench serve {found['vllm_bench_version']}, once each on one server",
        "",
        _line(["metric", "benchcard", "vllm bench", "difference", *_same(found, "same requests"), "in the run"]),
        *(_line(_cells(found, row)) for row in found["rows"]),
        "",
    ]
    for name in ("benchcard", "vllm_bench"):
        counts = found["requests"][name]
        lines.append(f"{name.replace('_', ' ')}: {counts['attempted']} requests, {counts['failed']} failed")
    lines += ["", *_notes(found), "", "Why they may differ:"]
    reasons: dict[str, list[str]] = {}
    for row in found["rows"]:
        reasons.setdefault(row["why"], []).append(row["metric"])
    others = [(found["percentiles"], ["percentiles"]), (found["requests"]["why"], ["failures"])]
    for why, metrics in [*reasons.items(), *others]:
        lines += textwrap.wrap(f"{', '.join(metrics)}: {why}", 110, initial_indent="  ", subsequent_indent="    ")
    return "\n".join(lines)


def _notes(found: dict[str, Any]) -> list[str]:
    if found["same_requests"]:
        notes = [
            "Both sent the requests of the plan: the same times, lengths and shared beginnings, other tokens. Same "
            "requests: vllm bench's own times of the requests that benchcard counts, so without the warm-up."
        ]
    else:
        notes = [
            "vllm bench sent prompts of the plan's mean lengths, each its own: on chat it cannot replay the plan, so "
            "what requests share, and how lengths scatter, differs too."
        ]
    notes.append(
        "In the run: mean ± stdev over its blocks. With one cell of each client, a difference of that size may be "
        "chance. What neither chance nor a definition explains is a client that was late: benchcard watches itself for "
        "that, vllm bench does not."
    )
    if found["failed_checks"]:
        notes.append(
            f"benchcard's cell failed {', '.join(found['failed_checks'])}: its numbers are not to be relied on."
        )
    return [line for note in notes for line in textwrap.wrap(note, 110)]


def _same(found: dict[str, Any], *cells: str) -> list[str]:
    return list(cells) if found["same_requests"] else []


def _cells(found: dict[str, Any], row: dict[str, Any]) -> list[str]:
    unit, difference = row["unit"], row["difference"]
    run = _value(row["run_mean"], unit)
    if row["run_mean"] is not None and row["run_stdev"] is not None:
        run = f"{_number(row['run_mean'], unit)} ± {_value(row['run_stdev'], unit)}"
    return [
        row["metric"],
        _value(row["benchcard"], unit),
        _value(row["vllm_bench"], unit),
        "–" if difference is None else f"{100 * difference:+.1f}%".replace("-", "−"),
        *_same(found, _value(row["vllm_bench_same_requests"], unit)),
        run,
    ]


def _number(value: float, unit: str) -> str:
    scaled = value * 1e3 if unit == "s" else value
    return f"{scaled:,.1f}" if abs(scaled) >= 10 else f"{scaled:.3g}"


def _value(value: float | None, unit: str) -> str:
    return "–" if value is None else f"{_number(value, unit)} {'ms' if unit == 's' else unit}"


def _line(cells: list[str]) -> str:
    return (f"{cells[0]:<20}" + "".join(f"  {cell:>16}" for cell in cells[1:-1]) + f"  {cells[-1]:>24}").rstrip()

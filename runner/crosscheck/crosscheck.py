"""The cross-check of a run: its baseline's server started once more, vllm bench on it, then our client with one cell of
the run's plan. All of it happens in a folder that is removed: a bundle is evidence, and closed."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...schema.digest import digest_json
from ...schema.errors import InputError
from ..analysis_process import Analysis, installed_revision
from ..bundle import Bundle
from ..descriptors import allow_many_descriptors
from ..engines.fleet import Fleet, Running
from ..engines.launch import is_cold_start, model_name
from ..engines.probe import Probe
from ..files import read_json
from ..inputs import kept_inputs
from ..measure import Session, measure_cell
from ..plan.blocks import BASELINE, Cell
from ..plan.plan import Plan, make_plan
from ..progress import Progress
from .bench import bench_version, run_bench
from .compare import PERCENTILES, compared, failures
from .trace import Work, work_of

Say = Callable[[str], None]


def crosscheck(
    bundle: Bundle, python: str, tokenizer: str | None = None, load: float | None = None, say: Say = lambda _: None
) -> dict[str, Any]:
    """What both clients say of the same server under the same load, as one JSON document; nothing of the run changes.

    Raises InputError where vllm bench is missing or cannot send what the card has, SystemUnderTestError where the
    server does not start or vllm bench fails.
    """
    card = read_json(bundle.resolved)
    require_sendable(card, bundle)
    point = load_point(card, load)
    version = bench_version(python)
    recorded = read_json(bundle.plan)
    plan = make_plan(card, digest_json(card), recorded["seed"], recorded["seed_source"], kept_inputs(bundle, card))
    cell = _cell(plan, point)
    work = work_of(plan, (cell.block, point), _taken(bundle, card, cell))
    allow_many_descriptors()
    with tempfile.TemporaryDirectory(prefix="benchcard-crosscheck-") as name:
        scratch = _scratch(bundle, Path(name) / bundle.name)
        fleet = Fleet(card, scratch.logs, _verify(bundle, say), lambda *_, **__: None)
        try:
            say(f"starting the server of the {BASELINE}")
            running = fleet.server_for(cell)
            say(f"vllm bench serve {version}: {work.requests} requests")
            theirs = _bench(python, running, card, tokenizer, work, Path(name))
            say(f"benchcard: cell {cell.cell}")
            session = Session(scratch, plan, time.monotonic_ns())
            events = measure_cell(session, cell, running, Progress(card))
        finally:
            fleet.stop_all()
        answer = Analysis(installed_revision(), "benchcard.analysis", None).run("cell", str(scratch.root), cell.cell)
    counted = events.filter(events["phase"] == "measure")["index"].to_list() if work.same else None
    return document(bundle, card, cell, version, json.loads(answer), theirs, counted)


def document(
    bundle: Bundle, card: dict[str, Any], cell: Cell, version: str, ours: dict[str, Any], theirs: dict[str, Any],
    counted: list[int] | None,
) -> dict[str, Any]:  # fmt: skip
    """The result of a cross-check."""
    result = bundle.result()
    summary = (read_json(result).get("summary") or []) if result.exists() else []
    run = {row["metric"]: row for row in summary if (row["arm"], row["load_point"]) == (BASELINE, cell.load_point)}
    values = {row["metric"]: row for row in ours["metrics"]}
    broken = [check["name"] for check in ours["checks"] if not check["passed"] and check["name"] != "certified_load"]
    return {
        "crosscheck_version": 1,
        "run": bundle.name,
        "cell": cell.cell,
        "arm": cell.arm,
        "load": cell.load,
        "load_kind": card["workload"]["load_kind"],
        "endpoint": card["workload"]["endpoint"],
        "vllm_bench_version": version,
        "same_requests": counted is not None,
        "failed_checks": broken,
        "percentiles": PERCENTILES,
        "requests": failures(ours["outcomes"], theirs),
        "rows": compared(values, theirs, counted, run),
    }


def require_sendable(card: dict[str, Any], bundle: Bundle) -> None:
    """Refuse what vllm bench cannot send."""
    workload = card["workload"]
    refused = {
        "conversations (later turns wait for answers)": workload["requests"].get("conversations") is not None,
        "recorded requests": workload["requests"].get("file") is not None,
        "cold starts": is_cold_start(card),
        "a warm cache": isinstance(workload.get("cache_state"), dict),
        "structured output": workload["sampling"].get("json_schema") is not None,
    }
    for what, has in refused.items():
        if has:
            raise InputError(f"{bundle.root}: its card has {what}, which vllm bench serve cannot send alike")


def load_point(card: dict[str, Any], load: float | None) -> int:
    """The load point: the one named, else the operating point, else the first that the claim is about, else the
    first."""
    loads = [float(value) for value in card["workload"]["loads"]]
    named = load if load is not None else card["workload"].get("operating_point")
    if named is None:
        named = (card.get("claim") or {}).get("at", loads)[0]
    if float(named) not in loads:
        raise InputError(
            f"--load {named:g}: not a load of the card; it has {', '.join(f'{value:g}' for value in loads)}"
        )
    return loads.index(float(named)) + 1


def _cell(plan: Plan, point: int) -> Cell:
    """The baseline's cell of the first block at that load."""
    return next(cell for cell in plan.cells() if cell.arm == BASELINE and cell.load_point == point)


def _taken(bundle: Bundle, card: dict[str, Any], cell: Cell) -> int | None:
    """In a closed loop, how many requests that cell of the run sent before its window was over."""
    if card["workload"]["load_kind"] != "concurrency":
        return None
    import polars as pl

    path = bundle.events(cell.cell)
    if not path.exists():
        raise InputError(f"{path}: not there, and how many requests a closed loop sends is known from it alone")
    return pl.read_parquet(path, columns=["phase"]).filter(pl.col("phase") != "drain").height


def _scratch(bundle: Bundle, root: Path) -> Bundle:
    """A folder in which one cell can be measured and analysed: card, plan and log of the run, and nothing else."""
    scratch = Bundle(root)
    for folder in ("events", "telemetry", "logs"):
        (root / folder).mkdir(parents=True)
    shutil.copytree(bundle.root / "plan", root / "plan")
    for path in (bundle.resolved, bundle.plan, bundle.log):
        shutil.copy(path, root / path.name)
    return scratch


def _verify(bundle: Bundle, say: Say) -> Callable[[Running, Probe], None]:
    """Says where the server is not of the version that the run had."""

    def verify(_: Running, probe: Probe) -> None:
        """Compare the version that the server tells with the run's."""
        path = bundle.identity(BASELINE)
        fields = read_json(path)["fields"] if path.exists() else {}
        was = (fields.get("engine.version") or {}).get("value")
        told = probe.json(f"{probe.endpoint.root}/version")
        now = told.get("version") if isinstance(told, dict) else None
        if was is not None and now is not None and was != now:
            say(f"the run's baseline was version {was}, this server is {now}")

    return verify


def _bench(
    python: str, running: Running, card: dict[str, Any], tokenizer: str | None, work: Work, folder: Path
) -> dict[str, Any]:
    model = card["system"]["model"]
    files = Path(tokenizer or str(model.get("path") or model["name"]))
    named = str(files.resolve()) if files.exists() else str(files)
    folder = folder / "bench"
    folder.mkdir()
    program = str(Path(python).absolute()) if "/" in python else python
    return run_bench(program, running.endpoint, card, model_name(card), named, work, folder)

"""A whole run in virtual time: the embedded engine's model in place of its server, a perfect client in place of ours.

The bundle it writes is read by the same analysis as a live one, so the true effect of a card is known in seconds. It
marks itself: the log's first line says `virtual`, and there are no server logs. Open loop only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..schema.errors import InputError
from ..schema.versions import CERTIFICATE_VERSION
from .analysis_process import installed_source
from .attempts import AttemptLog
from .bundle import Bundle, archive_source
from .client.cell import CellLoad
from .client.record import event_frame
from .engines.fleet import Start
from .engines.launch import arm_flags, is_cold_start, model_name
from .engines.simulated.misbehave import parse_misbehaviour
from .engines.simulated.sequence import Timing
from .engines.simulated.virtual import virtual_timings
from .execute import cell_digests
from .files import write_json, write_parquet
from .measure import counted_planned
from .plan.blocks import Cell, arms_run
from .plan.plan import Plan, write_plan
from .plan.requests import PlannedRequest
from .plan.window import Phases
from .telemetry.record import client_frame, server_frame, start_frame

#: cells follow one another at this distance on the virtual clock, ns
CELL_SPACING = 3_600_000_000_000
_FOLDERS = ("plan", "events", "telemetry", "identity", "instrument", "logs", "analysis")
#: in virtual time nobody takes times late, at any load
_CERTIFICATE = {
    "certificate_version": CERTIFICATE_VERSION,
    "client": {"workers": 1, "loop": "virtual time", "timer": "virtual time", "costs": []},
    "points": [
        {
            "streams": None, "rate": 1e9, "tokens": 1, "lost": 0, "ttft_p50_error": 0.0,
            "ttft_p99_error": 0.0, "itl_p99_error": 0.0, "peak_in_flight": 10**9, "tokens_per_s": 1e9,
            "requests_per_s": 1e9,
        }
    ],
}  # fmt: skip


def virtual_run(plan: Plan, root: Path, card_text: str) -> Bundle:
    """Play every planned block (no spares) in virtual time and write the bundle at `root`."""
    card = plan.card
    if card["system"]["engine"]["kind"] != "simulated" or card["workload"]["load_kind"] != "rate":
        raise InputError("virtual time needs the simulated engine and an open loop")
    shape = card["workload"]["requests"]
    if shape.get("conversations") is not None or shape.get("file") is not None:
        raise InputError("virtual time has no conversations and no recorded requests: it knows token counts alone")
    for folder in _FOLDERS:
        (root / folder).mkdir(parents=True)
    bundle = Bundle(root)
    bundle.card.write_text(card_text)
    write_json(bundle.resolved, card)
    write_plan(plan, root)
    archive_source(installed_source(), bundle, card["analysis"]["revision"])
    log = AttemptLog(bundle.log)
    log.append(
        "run_started", run=bundle.name, card_digest=plan.card_digest, plan_digest=plan.digest(),
        revision=card["analysis"]["revision"], epoch_ns=0, wall_ns=0, virtual=True,
    )  # fmt: skip
    for arm in arms_run(card):
        fields = {"model.name": {"value": model_name(card), "source": "observed"}}
        write_json(bundle.identity(arm), {"arm": arm, "fields": fields})
    write_json(bundle.certificate(1), _CERTIFICATE)
    cells = [cell for block in plan.blocks if not block.spare for cell in block.cells]
    for number, cell in enumerate(cells):
        log.append("cell_started", cell=cell.cell)
        virtual_cell(plan, cell, bundle, number * CELL_SPACING)
        log.append("cell_ended", cell=cell.cell, **cell_digests(bundle, cell), valid=True, checks=[])
    log.append("run_ended", why="complete")
    return bundle


def virtual_cell(plan: Plan, cell: Cell, bundle: Bundle, start: int) -> None:
    """Play one cell that starts at `start` (ns) and write its events and telemetry."""
    card, key = plan.card, (cell.block, cell.load_point)
    requests = plan.requests[key]
    engine = card["system"]["engine"]
    timings = virtual_timings(
        (
            (r.index, r.offset_ns or 0, plan.prompts.tokens(key, r), r.output_tokens)
            for r in requests
        ),
        _flags(card, cell.arm),
        costs=engine["costs"],
        speedup=engine["speedup"],
        # A server that is never restarted was started with the run, at 0; any other is new (drift counts from there).
        uptime_ns=start if card["system"]["launch"]["restart"] == "never" else 0,
    )  # fmt: skip
    rows = [
        _row(plan, cell, bundle.name, start, request, digest, timings[request.index])
        | {"population": request.population, "reusable_tokens": reusable, "own_tokens": request.own_tokens}
        for request, digest, reusable in zip(requests, plan.prompt_digests[key], plan.reusable(*key), strict=True)
    ]
    # The load goes on until the last counted attempt has ended, and no longer.
    over = max((row["end"] for row in rows if row["phase"] == "measure"), default=start)
    rows = [_cut(row, over) for row in rows if row["scheduled"] <= over]
    write_parquet(bundle.telemetry("client", cell.cell), _client(card, cell, requests, start, over, len(rows)))
    write_parquet(bundle.telemetry("server", cell.cell), _server(cell, start, over, timings, rows))
    if is_cold_start(card):
        # In virtual time a process is up at once; what is left of a start is the delay that the engine was asked for.
        spec = parse_misbehaviour(str(_flags(card, cell.arm).get("misbehave") or ""))
        begun = Start(start - round(spec.slow_start_s * 1e9), None, start)
        write_parquet(bundle.telemetry("start", cell.cell), start_frame(cell.cell, 0, begun))
    write_parquet(bundle.events(cell.cell), event_frame(rows))


def _flags(card: dict[str, Any], arm: str) -> dict[str, Any]:
    flags = arm_flags(card, arm)
    limit = card["system"]["model"].get("context_limit")
    if isinstance(limit, int):
        flags.setdefault("max-model-len", limit)
    return flags


def _row(
    plan: Plan, cell: Cell, run: str, start: int, request: PlannedRequest, digest: str, timing: Timing
) -> dict[str, Any]:
    scheduled = start + (request.offset_ns or 0)
    times = [start + at for at in timing.token_ns]
    limit = scheduled + round(plan.card["workload"]["client"]["timeout_total"] * 1e9)
    late = not times or times[-1] > limit
    kept = [at for at in times if at <= limit]
    return {
        "run": run, "cell": cell.cell, "block": cell.block, "arm": cell.arm, "load_point": cell.load_point,
        "load": cell.load, "phase": request.phase, "index": request.index, "prefix_group": request.prefix_group,
        "prompt_digest": digest, "asked_input_tokens": request.input_tokens,
        "asked_output_tokens": request.output_tokens, "input_tokens": timing.prompt_tokens,
        "output_tokens": len(kept), "cached_tokens": timing.cached_tokens, "scheduled": scheduled,
        "queued": scheduled, "sent": scheduled, "headers": scheduled,
        "first_chunk": kept[0] if kept else None, "first_token": kept[0] if kept else None,
        "first_answer_token": kept[0] if kept else None, "last_token": kept[-1] if kept else None,
        "end": limit if late else times[-1], "chunk_times": kept, "chunk_bytes": [6] * len(kept),
        "chunk_tokens": [1] * len(kept), "chunk_kinds": ["content"] * len(kept), "token_counts": "chunk",
        "outcome": "timeout_total" if late else "ok", "status": 200,
        "finish_reason": None if late else "length", "streamed": True, "reads": len(kept), "reused": True,
        "tries": 1, "worker": 0,
    }  # fmt: skip


def _cut(row: dict[str, Any], over: int) -> dict[str, Any]:
    """An uncounted attempt that was under way when the load was over was cancelled."""
    if row["end"] <= over:
        return row
    kept = [at for at in row["chunk_times"] if at <= over]
    return {
        **row, "chunk_times": kept, "chunk_bytes": [6] * len(kept), "chunk_tokens": [1] * len(kept),
        "chunk_kinds": ["content"] * len(kept), "first_chunk": kept[0] if kept else None,
        "first_token": kept[0] if kept else None, "first_answer_token": kept[0] if kept else None,
        "last_token": kept[-1] if kept else None, "end": over, "outcome": "cancelled", "finish_reason": None,
    }  # fmt: skip


def _client(
    card: dict[str, Any], cell: Cell, requests: list[PlannedRequest], start: int, over: int, attempts: int
) -> Any:
    phases = Phases(card["workload"]["window"])
    for request in requests:
        phases.of(request.index, request.offset_ns or 0)
    window = [None if at is None else start + at for at in (phases.window_start, phases.window_end)]
    load = CellLoad(start, over, window[0], window[1], start, over, 0, attempts, False, 0, (0,))
    return client_frame(cell.cell, 0, load, counted_planned(card, requests), 1)


def _server(cell: Cell, start: int, over: int, timings: dict[int, Timing], rows: list[dict[str, Any]]) -> Any:
    sent = [timings[row["index"]] for row in rows]
    totals = {
        "vllm:prefix_cache_queries_total": sum(timing.prompt_tokens for timing in sent),
        "vllm:prefix_cache_hits_total": sum(timing.cached_tokens for timing in sent),
    }
    samples = [
        (at, when, name, "{}", float(value if when == "after" else 0))
        for at, when in ((start, "before"), (over, "after"))
        for name, value in totals.items()
    ]
    return server_frame(cell.cell, 0, samples)

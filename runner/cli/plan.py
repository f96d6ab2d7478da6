"""benchcard plan CARD [--json]"""

from __future__ import annotations

import json
from pathlib import Path

import click

from ...schema.card import load_card
from ...schema.provenance import render_card
from ..analysis_process import installed_revision
from ..people import people_time
from ..plan.duration import Duration, plan_duration, require_budget, require_size
from ..plan.plan import Plan, make_plan
from ..prospects import prospects
from ..secrets import open_card
from .prospects_text import prospect_lines, require_answerable
from .warn import show_warnings, warnings_as_json


@click.command(name="plan", help="Show cells, order, duration, requests and what can be detected; run nothing.")
@click.argument("path", metavar="CARD", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option("--seed", type=click.IntRange(0, 2**53 - 1), help="Plan with another seed than the card's.")
def command(path: Path, as_json: bool, seed: int | None) -> None:
    """Print the plan of a card."""
    card = load_card(path, installed_revision=installed_revision())
    open_card(card.resolved, card.standalone)
    if not as_json:
        show_warnings(card)
    require_size(card.resolved)
    plan = make_plan(card.resolved, card.digest, seed, inputs=card.inputs)
    duration = plan_duration(card.resolved)
    looked = prospects(plan)
    if as_json:
        power = None if looked is None else looked.as_json()
        more = {"duration": duration.__dict__, "power": power, "warnings": warnings_as_json(card)}
        click.echo(json.dumps({**plan.as_json(), **more}, indent=1))
    else:
        click.echo(render_card(card))
        click.echo("\n".join(_lines(plan, duration) + prospect_lines(plan.card, looked)))
    require_budget(card.resolved, duration)
    require_answerable(plan.card, looked)


def _lines(plan: Plan, duration: Duration) -> list[str]:
    unit = "req/s" if plan.card["workload"]["load_kind"] == "rate" else "concurrent"
    lines = ["", f"Plan {plan.digest()}", f"  card digest {plan.card_digest}", f"  seed {plan.seed}", ""]
    lines.append(
        f"{'block':>5}  cells in order (loads: {', '.join(f'{x:g}' for x in plan.card['workload']['loads'])} {unit})"
    )
    for block in plan.blocks:
        cells = "  ".join(f"{cell.arm}@{cell.load:g}" for cell in block.cells)
        notes = ", ".join(word for word, is_so in (("A/A", block.aa), ("spare", block.spare)) if is_so)
        lines.append(f"{block.block:>5}  {cells}{f'   ({notes})' if notes else ''}")
    counted = sum(request.phase == "measure" for rows in plan.requests.values() for request in rows)
    total = sum(len(rows) for rows in plan.requests.values())
    lines += _traffic_lines(plan)
    included = "A/A and spare blocks included" if plan.card["method"].get("aa") else "spares included"
    lines += ["", f"Requests: {total} planned for each arm, {counted} of them in measured windows ({included})"]
    if duration.load is None:
        lines.append("Duration: the system's speed decides (closed loop, window by count); server starts come on top")
    else:
        lines.append(
            f"Duration: {people_time(duration.load)} of load, {people_time(duration.spares or 0.0)} more if every "
            f"spare is needed, {people_time(duration.drain)} more in the worst drains; server starts come on top"
        )
    return lines


def _traffic_lines(plan: Plan) -> list[str]:
    """What a trace's clock runs at, what its reader left out, and what a prefix cache could reuse."""
    workload = plan.card["workload"]
    lines = []
    if workload["arrivals"]["process"] == "trace":
        file = workload["arrivals"]["file"]
        factors = ", ".join(f"{file['rate'] / load:.4g}" for load in workload["loads"])
        lines.append(
            f"Trace: {file['name']}, {file['rows']} rows over {people_time(file['span'])}, {file['rate']:.4g} req/s on "
            f"average; slowed down by {factors}; {file['left_out']} rows of failed requests left out"
        )
    shares = []
    for point, load in enumerate(workload["loads"], 1):
        reusable = plan.reusable(1, point)
        prompts = sum(request.input_tokens or 0 for request in plan.requests[1, point])
        if None not in reusable and prompts:
            shares.append(f"{sum(tokens or 0 for tokens in reusable) / prompts:.1%} at {load:.4g}")
    if shares:
        lines.append(f"Prefix cache: at most {', '.join(shares)} of the prompt tokens can be reused (block 1)")
    return ["", *lines] if lines else []

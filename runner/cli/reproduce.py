"""benchcard reproduce RUN"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import click

from ...schema.card import Card, load_card
from ...schema.errors import BundleError
from ..analysis_process import pinned_analysis
from ..attempts import read_log
from ..bundle import Bundle, open_bundle, write_manifest
from ..files import read_json
from ..inputs import kept_by_name
from .finish import render_reports
from .run import run_card


@click.command(name="reproduce", help="Run a run's card again with a fresh seed, then put the two days side by side.")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Where runs go; by default beside the first day.")
@click.option("--seed", type=click.IntRange(0, 2**53 - 1), help="The second day's seed; fresh by default.")
def command(run: Path, out: Path | None, seed: int | None) -> None:
    """A second day: same card, fresh seed. Days are compared, never pooled."""
    first = open_bundle(run)
    if first.is_pilot:
        raise BundleError(f"{run}: a pilot: it has no verdict to reproduce, and its data enter none")
    card = card_of(first)
    if card.resolved["kind"] != "ab":
        raise BundleError(f"{run}: a baseline has no claim to reproduce; run its card again and compare the two")
    if not first.result().exists() or not any(line["kind"] == "run_ended" for line in read_log(first.log)):
        raise BundleError(f"{run}: the first day is not finished; go on with `benchcard run --resume {run}`")
    if read_json(first.result())["verdict"] == "invalid":
        raise BundleError(
            f"{run}: the first day's verdict is invalid, so there is nothing to compare a second day with"
        )
    used = read_json(first.plan)["seed"]
    if seed is None:
        seed = fresh_seed(used)
    elif seed == used:
        raise BundleError(f"seed {seed} is the first day's: it would repeat the same requests; leave --seed out")
    second = run_card(card, first.card, out or first.root.parent.parent, seed, "second_day")
    click.echo(compare_days(first, second))
    click.echo(second.root / "report.html")


def card_of(bundle: Bundle) -> Card:
    """The bundle's card, which must still resolve to what the run was made with."""
    resolved = read_json(bundle.resolved)
    pinned = resolved["analysis"]["revision"]
    card = load_card(bundle.card, installed_revision=pinned, files=kept_by_name(bundle, resolved))
    if card.resolved != resolved:
        raise BundleError(f"{bundle.card}: does not resolve to {bundle.resolved.name}; `benchcard audit` says more")
    return card


def fresh_seed(used: int, what: str = "second day") -> int:
    """A seed other than the one used, from that and the time."""
    text = f"{used}/{what}/{time.time_ns()}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 11


def compare_days(first: Bundle, second: Bundle) -> str:
    """Write reproduction.json into the second day's bundle and render its report again; returns a line for people."""
    target = second.root / "reproduction.json"
    with pinned_analysis(second) as analysis:
        analysis.run("compare", str(first.root), str(second.root), "--out", str(target))
    render_reports(second)
    write_manifest(second)
    result = read_json(target)
    because = "; ".join(str(reason.get("text", reason)) for reason in result.get("because", []))
    return f"second day: {result['word']}" + (f" ({because})" if because else "")

"""benchcard run CARD [--out DIR] [--resume RUN]"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import click

from ...schema.card import Card, load_card
from ...schema.digest import digest_json
from ...schema.errors import InputError, SystemUnderTestError
from ..analysis_process import installed_revision, installed_source
from ..attempts import AttemptLog
from ..bundle import Bundle, archive_source, new_bundle, open_bundle
from ..execute import Execution
from ..files import read_json, write_bytes, write_json
from ..inputs import keep_inputs, kept_inputs
from ..plan.duration import plan_duration, require_budget, require_size
from ..plan.plan import PILOT, Plan, make_plan, write_plan
from ..progress import Progress
from ..prospects import prospects
from ..quality.items import require_questions
from ..resumption import check_resumable
from ..secrets import open_card, open_files
from .finish import analyse_and_render, headline
from .pilot import pilot_text, require_ab
from .prospects_text import require_answerable
from .warn import show_warnings


@click.command(
    name="run", help="Execute a card, analyse, render. Progress on stderr; the report's path is printed last."
)
@click.argument("card", required=False, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Where runs go.")
@click.option("--resume", type=click.Path(path_type=Path), metavar="RUN", help="Go on with a run that was stopped.")
@click.option("--pilot", is_flag=True, help="Three blocks of the card, to plan with: no verdict, its data enter none.")
def command(card: Path | None, out: Path, resume: Path | None, pilot: bool) -> None:
    """Run a card, or resume a run."""
    if (card is None) == (resume is None):
        raise InputError("wanted either a CARD to run or --resume RUN")
    if pilot and resume is not None:
        raise InputError("a run is resumed as what it was begun as: leave --pilot out")
    if resume is not None:
        bundle = open_bundle(resume)
        resolved = read_json(bundle.resolved)
        recorded = read_json(bundle.plan)
        inputs = kept_inputs(bundle, resolved)
        plan = make_plan(resolved, digest_json(resolved), recorded["seed"], recorded["seed_source"], inputs)
        log = AttemptLog(bundle.log)
        check_resumable(bundle, plan, log)
        open_card(resolved)
        execute(bundle, plan, log, resumed=True)
        return
    assert card is not None
    loaded = load_card(card, installed_revision=installed_revision())
    show_warnings(loaded)
    if pilot:
        require_ab(loaded.resolved, card)
        run_card(loaded, card, out, other_seed(loaded.resolved["method"]["seed"]), PILOT)
    else:
        run_card(loaded, card, out)


def other_seed(used: int) -> int:
    """A pilot's seed: its requests are not those of the run that it plans."""
    from .reproduce import fresh_seed

    return fresh_seed(used, "pilot")


def run_card(card: Card, source: Path, out: Path, seed: int | None = None, seed_source: str = "card") -> Bundle:
    """Start a run of a card: write what is fixed before the first event, execute, analyse, render."""
    if card.resolved["analysis"]["revision"] != installed_revision():
        raise InputError(
            f"{source}: the card pins analysis revision {card.resolved['analysis']['revision']}; installed is "
            f"{installed_revision()}. Install the pinned one, or pin this one with `benchcard pin`"
        )
    open_card(card.resolved, card.standalone)
    open_files(card.inputs.paths.values())
    require_budget(card.resolved, plan_duration(card.resolved))
    require_size(card.resolved)
    plan = make_plan(card.resolved, card.digest, seed, seed_source, card.inputs)
    if not plan.is_pilot:
        require_questions(plan)
        require_answerable(card.resolved, prospects(plan))
    bundle = new_bundle(out, card.resolved["id"], card.digest, "-pilot" if plan.is_pilot else "")
    # A card that extends another stands alone in its bundle.
    write_bytes(bundle.card, card.standalone.encode())
    write_json(bundle.resolved, card.resolved)
    keep_inputs(bundle, card.inputs)
    write_plan(plan, bundle.root)
    archive_source(installed_source(), bundle, card.resolved["analysis"]["revision"])
    execute(bundle, plan, AttemptLog(bundle.log), resumed=False, source=source)
    return bundle


def _stop_politely() -> None:
    """SIGTERM stops a run as Ctrl-C does. (Started in the background of a script, SIGINT would be ignored.)"""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    sys.unraisablehook = _not_lost


#: how long after it was lost an interrupt comes again, s
_AGAIN_S = 0.05


def _not_lost(found: sys.UnraisableHookArgs) -> None:
    """An interrupt that comes while a finalizer runs (a collection calls many) is raised in it, and dropped there."""
    if found.exc_type is KeyboardInterrupt:
        threading.Timer(_AGAIN_S, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(found)


def execute(
    bundle: Bundle, plan: Plan, log: AttemptLog, *, resumed: bool, source: Path | None = None
) -> dict[str, Any]:
    """Run what is left, then analyse and render; a run that a server ended gets a partial report, and exit 3."""
    _stop_politely()
    progress = Progress(plan.card)
    progress.say(f"{'pilot' if plan.is_pilot else 'run'} {bundle.root}")
    try:
        Execution(bundle, plan, log, progress).run(resumed=resumed)
    except SystemUnderTestError as error:
        log.append("run_stopped", why=str(error).splitlines()[0])
        analyse_and_render(bundle)
        raise SystemUnderTestError(
            f"{error}\nNothing more was measured."
            + ("" if plan.is_pilot else f" The partial report says so: {bundle.root / 'report.html'}")
            + "\n"
            f"If the server is to blame, mend it and go on with: benchcard run --resume {bundle.root}\n"
            "If the card is, mend the card and start a new run."
        ) from None
    progress.say("analysing")
    result = analyse_and_render(bundle)
    if plan.is_pilot:
        click.echo(pilot_text(bundle, source))
        return result
    click.echo(headline(result))
    click.echo(bundle.root / "report.html")
    return result

"""benchcard verdict RUN [--json] [--exit-code]"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ...schema.errors import VERDICT_EXIT_CODES, BundleError
from ..bundle import open_bundle
from ..files import read_json
from .finish import headline


@click.command(name="verdict", help="Print a run's verdict, as it stands in verdict.json.")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="verdict.json on stdout, and nothing else.")
@click.option(
    "--exit-code",
    is_flag=True,
    help="Exit 0 supported, 10 falsified, 11 inconclusive, 12 mixed, 13 invalid.",
)
def command(run: Path, as_json: bool, exit_code: bool) -> None:
    """Show the verdict."""
    bundle = open_bundle(run)
    if bundle.is_pilot:
        raise BundleError(f"{run}: a pilot, so it has no verdict; `benchcard report {run}` prints what it found")
    path = bundle.result()
    if not path.exists():
        raise BundleError(f"{run}: it has no {path.name} yet; `benchcard report {run}` makes it from the raw events")
    result = read_json(path)
    click.echo(path.read_text().rstrip() if as_json else headline(result))
    if exit_code and "verdict" in result:
        sys.exit(VERDICT_EXIT_CODES[result["verdict"]])

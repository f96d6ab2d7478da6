"""benchcard verdict RUN [--json] [--exit-code], benchcard verdict --schema"""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path

import click

from ...schema.errors import VERDICT_EXIT_CODES, BundleError
from ..bundle import open_bundle
from ..files import read_json
from .finish import headline


@click.command(name="verdict", help="Print a run's verdict, as it stands in verdict.json; or their schema.")
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="verdict.json on stdout, and nothing else.")
@click.option(
    "--exit-code",
    is_flag=True,
    help="Exit 0 supported, 10 falsified, 11 inconclusive, 12 mixed, 13 invalid.",
)
@click.option("--schema", is_flag=True, help="The JSON Schema of verdict.json on stdout; takes no RUN.")
def command(run: Path | None, as_json: bool, exit_code: bool, schema: bool) -> None:
    """Show the verdict, or the schema of all verdicts."""
    if schema:
        if run is not None or as_json or exit_code:
            raise click.UsageError("--schema goes with no RUN and no other option: it is the same for every verdict")
        click.echo(verdict_schema().rstrip())
        return
    if run is None:
        raise click.UsageError("Missing argument 'RUN' (or --schema)")
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


def verdict_schema() -> str:
    """schema/verdict.schema.json, as text."""
    return resources.files("benchcard.schema").joinpath("verdict.schema.json").read_text(encoding="utf-8")

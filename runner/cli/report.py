"""benchcard report RUN"""

from __future__ import annotations

from pathlib import Path

import click

from ..bundle import open_bundle
from .finish import analyse_and_render, headline
from .pilot import pilot_text


@click.command(name="report", help="Analyse and render a run again, with the analysis revision that its card pins.")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--run-bundled-code", is_flag=True, help="Run analysis code from the bundle that benchcard never released."
)
def command(run: Path, run_bundled_code: bool) -> None:
    """Rewrite verdict.json, series/, REPORT.md, report.html and the manifest."""
    bundle = open_bundle(run)
    result = analyse_and_render(bundle, run_bundled_code=run_bundled_code)
    if bundle.is_pilot:
        click.echo(pilot_text(bundle))
        return
    click.echo(headline(result))
    click.echo(bundle.root / "report.html")

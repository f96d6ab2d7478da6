"""benchcard engine simulated …"""

from __future__ import annotations

import runpy
import sys

import click


@click.command(
    name="engine",
    help="Run the embedded engine on its own: benchcard engine simulated --port 8000 … (--help then lists flags).",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
)
@click.argument("kind", type=click.Choice(["simulated"]))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(kind: str, arguments: tuple[str, ...]) -> None:
    """Hand the arguments to the embedded engine's own command line."""
    sys.argv = [f"benchcard engine {kind}", *arguments]
    runpy.run_module("benchcard.runner.engines.simulated", run_name="__main__")

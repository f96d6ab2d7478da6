"""benchcard explain [KEY]"""

from __future__ import annotations

import click

from ...schema.explain import explain


@click.command(name="explain", help="Explain a card key and the failure mode it guards; without KEY, list them all.")
@click.argument("key", required=False)
def command(key: str | None) -> None:
    """Print what a key means, e.g. workload.window.drain."""
    click.echo(explain(key))

"""benchcard new NAME --kind ab|baseline"""

from __future__ import annotations

from pathlib import Path

import click

from ...schema.errors import InputError
from ...schema.template import new_card


@click.command(name="new", help="Write a commented card that validates.")
@click.argument("name")
@click.option("--kind", type=click.Choice(["ab", "baseline"]), default="ab", show_default=True, help="Kind of card.")
@click.option("--force", is_flag=True, help="Overwrite a file that exists.")
def command(name: str, kind: str, force: bool) -> None:
    """Write NAME.yaml in the current directory."""
    path = Path(f"{name}.yaml")
    text = new_card(name, kind)
    if path.exists() and not force:
        raise InputError(f"{path} exists already; choose another name or pass --force")
    path.write_text(text)
    click.echo(f"{path} written. Next: benchcard validate {path} && benchcard plan {path} && benchcard run {path}")

"""benchcard validate CARD…"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from ...schema.card import load_card
from ...schema.errors import EXIT_INPUT, CardError
from .warn import show_warnings, warnings_as_json


@click.command(name="validate", help="Check cards; show every error with its place. Exit 2 if there is any.")
@click.argument("cards", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(cards: tuple[Path, ...], as_json: bool) -> None:
    """Validate each card and report all of its problems."""
    results: list[dict[str, Any]] = []
    for path in cards:
        try:
            card = load_card(path)
            warnings = warnings_as_json(card)
            results.append(
                {"file": str(path), "valid": True, "digest": card.digest, "problems": [], "warnings": warnings}
            )
            if not as_json:
                show_warnings(card)
        except CardError as error:
            results.append({"file": str(path), "valid": False, "problems": [asdict(p) for p in error.problems]})
            if not as_json:
                click.echo(str(error), err=True)
    if as_json:
        click.echo(json.dumps(results, indent=1))
    else:
        for result in results:
            count = len(result["problems"])
            click.echo(f"{result['file']}: " + ("valid" if result["valid"] else f"{count} problem{'s' * (count != 1)}"))
    if not all(result["valid"] for result in results):
        sys.exit(EXIT_INPUT)

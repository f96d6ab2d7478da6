"""What a card's author should know: shown on stderr, and never in the way."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from ...schema.card import Card


def show_warnings(card: Card) -> None:
    """Print each warning of a card on stderr, as `file:line:column: warning: …`."""
    for problem in card.warnings:
        click.echo(problem.as_warning(), err=True)


def warnings_as_json(card: Card) -> list[dict[str, Any]]:
    """The warnings of a card, with the keys of a problem."""
    return [asdict(problem) for problem in card.warnings]

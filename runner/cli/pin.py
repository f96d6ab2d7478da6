"""benchcard pin CARD"""

from __future__ import annotations

import re
from pathlib import Path

import click

from ...schema.card import load_card
from ...schema.errors import InputError
from ..analysis_process import installed_revision
from ..files import write_bytes

_REVISION = re.compile(r"(^\s*revision:\s*|\brevision:\s*)(installed|sha256:[0-9a-f]{64})", re.M)


@click.command(name="pin", help="Write the installed analysis revision into a card, so that no other may judge it.")
@click.argument("path", metavar="CARD", type=click.Path(path_type=Path))
def command(path: Path) -> None:
    """Replace or add analysis.revision; every other byte of the card stays."""
    load_card(path)
    revision = installed_revision()
    text = path.read_text()
    pinned = pin(text, revision)
    write_bytes(path, pinned.encode())
    if load_card(path).resolved["analysis"]["revision"] != revision:
        write_bytes(path, text.encode())
        raise InputError(f"{path}: cannot find where to write the revision; add `analysis: {{revision: {revision}}}`")
    click.echo(f"{path}: analysis.revision is {revision}")


def pin(text: str, revision: str) -> str:
    """The card's text with the revision written into it."""
    if _REVISION.search(text):
        return _REVISION.sub(lambda match: match[1] + revision, text, count=1)
    block = re.search(r"^analysis:\s*\{", text, re.M)
    if block:
        return text[: block.end()] + f"revision: {revision}, " + text[block.end() :]
    block = re.search(r"^analysis:[ \t]*(#.*)?\n(?P<indent>[ ]+)", text, re.M)
    if block:
        at = block.start("indent")
        return text[:at] + f"{block['indent']}revision: {revision}\n" + text[at:]
    return text.rstrip("\n") + f"\nanalysis: {{revision: {revision}}}\n"

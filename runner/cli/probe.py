"""benchcard probe [--pid PID | --port PORT]"""

from __future__ import annotations

import json

import click


@click.command(
    name="probe",
    help="Print, as JSON, what this host tells of a server that runs on it: its process, libraries, packages and "
    "environment (secrets masked), its model's digests, container, host and accelerators. For a card's external "
    "server: run it on the server's host, and name the file under the arm's server as `probe`.",
)
@click.option("--pid", type=click.IntRange(min=1), help="The server's process, or the one that launched it.")
@click.option("--port", type=click.IntRange(1, 65535), help="The TCP port on which the server listens.")
@click.option("--model", help="The model's folder, where the server's command does not name it.")
def command(pid: int | None, port: int | None, model: str | None) -> None:
    """Look at a server of this host."""
    from ..identity.here import probe_document

    click.echo(json.dumps(probe_document(pid, port, model), indent=1, ensure_ascii=False, allow_nan=False))

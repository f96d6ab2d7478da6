"""benchcard identity RUN [--json] [--rebuild [--out DIR]]"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ...schema.digest import digest_json
from ...schema.errors import BundleError, InputError
from ..bundle import Bundle, open_bundle
from ..files import read_json, write_bytes
from ..identity.flat import differences, unknowns
from ..identity.rebuild import rebuild
from ..identity.rebuild_files import rebuild_files, rebuild_text
from ..identity.show import identity_text


@click.command(
    name="identity", help="What each arm of a run was: differences first, every fact with who told it, what is unknown."
)
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option("--rebuild", "again", is_flag=True, help="What it takes to build the same systems, and what is missing.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="With --rebuild: write it as files there.")
def command(run: Path, as_json: bool, again: bool, out: Path | None) -> None:
    """Show the identity of a run's arms, or what rebuilds them."""
    if out is not None and not again:
        raise click.UsageError("--out goes with --rebuild")
    bundle = open_bundle(run)
    arms = {arm: document["fields"] for arm, document in _arms(bundle, run).items()}
    if again:
        card = read_json(bundle.resolved)
        document = rebuild(bundle.name, card, digest_json(card), arms)
        if out is not None:
            if out.resolve().is_relative_to(bundle.root.resolve()):
                raise InputError(f"--out {out}: it lies in the run, whose files are fixed; wanted a folder outside it")
            _write(out, rebuild_files(document))
        if as_json:
            click.echo(json.dumps(document, indent=1, ensure_ascii=False))
        elif out is None:
            click.echo(rebuild_text(document))
        return
    cells = [_read(file) for file in sorted((bundle.root / "identity" / "cells").glob("*.json"))]
    if as_json:
        found = {"differences": differences(arms), "unknown": unknowns(arms)}
        click.echo(
            json.dumps({"run": bundle.name, "arms": arms, "cells": cells, **found}, indent=1, ensure_ascii=False)
        )
    else:
        click.echo(identity_text(bundle.name, arms, cells))


def _arms(bundle: Bundle, run: Path) -> dict[str, dict[str, Any]]:
    """The arms' identities, baseline first. Raises BundleError where there is none."""
    found = {file.stem: _read(file) for file in sorted((bundle.root / "identity").glob("*.json"))}
    if not found:
        raise BundleError(f"{run}: it has no identity: no server of it came up")
    order = {"baseline": 0, "candidate": 1}
    return dict(sorted(found.items(), key=lambda item: (order.get(item[0], 2), item[0])))


def _read(file: Path) -> dict[str, Any]:
    try:
        document = read_json(file)
    except (OSError, ValueError):
        document = None
    if not isinstance(document, dict) or not isinstance(document.get("fields"), dict):
        raise BundleError(f"{file}: not an identity: wanted a JSON object with fields")
    return document


def _write(out: Path, files: dict[str, str]) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            write_bytes(out / name, text.encode())
            if name.endswith(".sh"):
                (out / name).chmod(0o755)
    except OSError as error:
        raise InputError(f"cannot write to {out}: {error.strerror}") from None
    for name in files:
        click.echo(out / name)

"""benchcard audit RUN [--json]"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from ...schema.errors import EXIT_AUDIT_FAILED
from ..audit.audit import Audit, audit
from ..bundle import open_bundle


@click.command(
    name="audit", help="Recompute a run from its raw events and name what cannot be trusted. Exit 20 if a check fails."
)
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option(
    "--run-bundled-code", is_flag=True, help="Run analysis code from the bundle that benchcard never released."
)
def command(run: Path, as_json: bool, run_bundled_code: bool) -> None:
    """Audit a bundle; it is only read."""
    from benchcard.reports.render import render

    result = audit(open_bundle(run), render, run_bundled_code=run_bundled_code)
    click.echo(json.dumps(result.as_json(), indent=1) if as_json else _text(result))
    if not result.passed:
        sys.exit(EXIT_AUDIT_FAILED)


def _text(result: Audit) -> str:
    lines = [f"audit of {result.run}"]
    for finding in result.findings:
        lines.append(f"  {'pass' if finding.passed else 'FAIL'}  {finding.name:<13} {finding.meaning}")
        lines += [f"        {fault}" for fault in finding.faults]
    lines += [f"  note  {note}" for note in result.notes]
    failed = [finding.name for finding in result.findings if not finding.passed]
    lines.append("nothing failed" if not failed else f"failed: {', '.join(failed)}")
    return "\n".join(lines)

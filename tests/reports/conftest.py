"""Fixtures of the report tests: a bundle on disk, rendered."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from benchcard.reports.render import render

sys.path.insert(0, str(Path(__file__).parent))

import bundles

Rendered = tuple[str, str]


def rendered(folder: Path) -> Rendered:
    """(REPORT.md, report.html) of the bundle."""
    markdown, html = render(folder)
    return markdown.read_text(encoding="utf-8"), html.read_text(encoding="utf-8")


@pytest.fixture
def report(tmp_path: Path) -> Callable[[bundles.Json], Rendered]:
    """Write a result as a bundle and render it."""

    def of(result: bundles.Json, **options: object) -> Rendered:
        card = bundles.baseline_card() if "baseline_version" in result else None
        options.setdefault("card", card)
        return rendered(bundles.write(tmp_path / "bundle", result, **options))  # type: ignore[arg-type]

    return of

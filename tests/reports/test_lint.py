"""Every number of a report follows from its files; a changed one is found."""

from __future__ import annotations

from pathlib import Path

import bundles
import lint
import pytest
from benchcard.reports.render import render
from test_markdown import _bundle

PUBLISHED = [p.parent for p in (Path(__file__).parents[2] / "reports" / "published").glob("*/*/manifest.json")]


@pytest.mark.parametrize(
    "name", ["supported", "falsified", "inconclusive", "mixed", "invalid", "baseline", "second-day", "populations"]
)
def test_every_number_follows(name: str, tmp_path: Path) -> None:
    folder = _bundle(name, tmp_path / "bundle")
    render(folder)
    assert lint.lint(folder) == []


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda path: path.parent.name)
def test_every_number_of_a_published_report_follows(folder: Path) -> None:
    assert lint.lint(folder) == []


@pytest.mark.parametrize(
    ("shown", "instead"),
    [
        ("+10.1%", "+10.7%"),
        ("8.8% to 11.4%", "9.8% to 11.4%"),
        ("+1.01 req/s", "+1.31 req/s"),
        ("+0.09620", "+0.09640"),
        ("0.0035", "0.0045"),
        ("| +0.70% |", "| −0.70% |"),
        ("83.5 ± 1.1%", "84.5 ± 1.1%"),
        ("| 12.00 | 10.02 | 0.11 |", "| 12.00 | 10.02 | 0.31 |"),
        ("5,760", "5,770"),
        ("+9.40%", "+7.40%"),
        ("187.0 ± 9.4 ms", "178.0 ± 9.4 ms"),
        ("1 of 5 conditions", "3 of 7 conditions"),
    ],
)
def test_a_changed_number_is_found(shown: str, instead: str, tmp_path: Path) -> None:
    folder = bundles.write(tmp_path / "bundle", bundles.supported())
    report, _ = render(folder)
    text = report.read_text(encoding="utf-8")
    assert shown in text
    report.write_text(text.replace(shown, instead, 1), encoding="utf-8")
    assert lint.lint(folder)

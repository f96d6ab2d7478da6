"""An analysis that has moved on: the archive in a published bundle still gives its verdict, and other library versions
are said and are no fault."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from benchcard.reports.render import render
from benchcard.runner.analysis_process import installed_revision, pinned_analysis
from benchcard.runner.audit.audit import audit
from benchcard.runner.bundle import Bundle, write_manifest

from .cards import benchcard
from .test_audit import edit_json
from .test_published import PUBLISHED

bundles = pytest.mark.parametrize("bundle", PUBLISHED, ids=lambda path: path.parent.name)


def _without_libraries(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text())
    assert document.pop("libraries")
    return document


def _revision(bundle: Path) -> str:
    return str(json.loads((bundle / "verdict.json").read_text())["revision"])


#: made by a revision that is no longer the installed one
OLDER = [bundle for bundle in PUBLISHED if _revision(bundle) != installed_revision()]


def test_there_is_an_older_one() -> None:
    assert OLDER


@pytest.mark.parametrize("bundle", OLDER, ids=lambda path: path.parent.name)
def test_the_archived_analysis_gives_the_same_document(bundle: Path, tmp_path: Path) -> None:
    published = _without_libraries(bundle / "verdict.json")
    with pinned_analysis(Bundle(bundle)) as analysis:
        assert analysis.revision == published["revision"]
        assert (analysis.module, analysis.path is None) == ("analysis", False)
        analysis.run("verdict", str(bundle), "--out", str(tmp_path))
    assert _without_libraries(tmp_path / "verdict.json") == published


@bundles
def test_other_library_versions_are_noted_and_are_no_fault(bundle: Path, tmp_path: Path) -> None:
    """The verdict as it would be had it been made with older libraries: the same numbers, other versions."""
    run = tmp_path / bundle.name
    shutil.copytree(bundle, run)
    now = json.loads((run / "verdict.json").read_text())["libraries"]
    older = {"numpy": "1.26.0", "polars": "1.9.0", "scipy": "1.11.0"}
    edit_json(run / "verdict.json", lambda verdict: verdict.update(libraries=older))
    render(run)

    found = audit(Bundle(run), None)
    assert [finding.name for finding in found.findings if not finding.passed] == ["manifest"]  # as the files changed
    write_manifest(Bundle(run))
    printed = benchcard("audit", run).stdout
    assert printed.splitlines()[-1] == "nothing failed"
    document = json.loads(benchcard("audit", run, "--json").stdout)
    assert document["passed"] is True
    assert document["notes"] == [
        f"{name} was {older[name]} when the verdict was made, and is {now[name]} here" for name in sorted(older)
    ]
    for note in document["notes"]:
        assert note in printed

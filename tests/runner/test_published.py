"""The published bundles: real evidence, which passes the audit, and gives itself away when it is touched."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .cards import benchcard
from .test_audit import (
    edit_events,
    edit_json,
    findings,
    later_first_tokens,
    one_row_less,
    other_threshold,
    swap_order,
)

ROOT = Path(__file__).parents[2]
PUBLISHED = sorted(path.parent for path in (ROOT / "reports" / "published").glob("*/*/manifest.json"))


def test_there_is_one_on_a_real_vllm() -> None:
    assert any("vllm" in path.parent.name for path in PUBLISHED)


@pytest.mark.parametrize("bundle", PUBLISHED, ids=lambda path: path.parent.name)
def test_it_passes_the_audit(bundle: Path) -> None:
    assert benchcard("audit", bundle).stdout.splitlines()[-1] == "nothing failed"


# one of them: an audit takes half a minute, and test_audit.py has every check's own change
@pytest.mark.parametrize("bundle", PUBLISHED[:1], ids=lambda path: path.parent.name)
@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda run: edit_events(run, later_first_tokens), "events"),
        (lambda run: edit_events(run, one_row_less), "events"),
        (lambda run: other_threshold(run), "card"),
        (swap_order, "plan"),
        (lambda run: edit_json(run / "verdict.json", lambda verdict: verdict.update(verdict="mixed")), "verdict"),
    ],
    ids=["an event's time", "a row", "the threshold", "the order", "the verdict"],
)
def test_each_change_is_named(bundle: Path, tmp_path: Path, change: object, named: str) -> None:
    run = tmp_path / bundle.name
    shutil.copytree(bundle, run)
    change(run)  # type: ignore[operator]
    found = findings(run)
    assert named in found
    assert "manifest" in found


@pytest.mark.parametrize("bundle", PUBLISHED, ids=lambda path: path.parent.name)
def test_its_reports_verdict_is_the_readmes(bundle: Path) -> None:
    import json

    verdict = json.loads((bundle / "verdict.json").read_text())
    assert verdict["sentence"] in (ROOT / "README.md").read_text().replace("\n> ", " ")

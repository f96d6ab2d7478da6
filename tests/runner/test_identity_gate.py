"""The runner asks before it measures: a system that is not the one of the card ends the run, and is named."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from benchcard.runner.analysis_process import CellChecks
from benchcard.runner.audit.checks import complete
from benchcard.runner.identity.refusal import table

from .cards import benchcard, only_run, small_card

#: starts the embedded engine, with flags of its own from some start on; each start is counted in a file
WRAPPER = """\
#!/bin/bash
n=$(cat {folder}/starts 2>/dev/null || echo 0)
echo $((n + 1)) > {folder}/starts
more=()
if {condition}; then more=({more}); fi
exec {python} -m benchcard.runner.engines.simulated --host 127.0.0.1 --served-model-name atlas-70b \\
  --costs atlas --speedup 10 --max-model-len 32768 "$@" "${{more[@]}}"
"""


def wrapped(folder: Path, condition: str, more: str, identity: str = "") -> Path:
    """A card whose servers are started through the script."""
    script = folder / "serve.sh"
    script.write_text(WRAPPER.format(folder=folder, condition=condition, more=more, python=sys.executable))
    script.chmod(0o755)
    card = small_card(folder, measure="0.3 s")
    # the script gives this flag; one that the card gives too is held against the server at its start (exit 3)
    text = card.read_text().replace(", block-size: 16", "")
    text = text.replace("  launch: {", f'  launch: {{command: ["{script}", "--port", "{{port}}"], ')
    card.write_text(text + (f"identity: {identity}\n" if identity else ""))
    return card


def lines(run: Path, kind: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (run / "attempts.jsonl").read_text().splitlines()]
    return [line for line in found if line["kind"] == kind]


def test_a_flag_that_changes_at_a_restart(tmp_path: Path) -> None:
    """Both arms were started once (block 1); from the third start on there is another flag."""
    card = wrapped(tmp_path, "[ $n -ge 2 ]", "--block-size 32")
    result = benchcard("run", card, "--out", tmp_path / "runs")
    run = only_run(tmp_path / "runs")
    verdict = json.loads((run / "verdict.json").read_text())
    assert verdict["verdict"] == "invalid"
    assert verdict["because"][0]["code"] == "identity"
    rows = [row for row in verdict["identity"]["rows"] if row["word"] == "forbidden"]
    assert {row["class"] for row in rows} == {"drift"}
    (row,) = [row for row in rows if row["field"] == "engine.config.cache_config.block_size"]
    assert (row["expected"], row[row["arm"]], row["cell"][:3]) == ("16", "32", "b02")
    # nothing was measured on it, and the end is said in the log, on the terminal and in the report
    (refused,) = lines(run, "identity_refused")
    assert refused["cell"] == row["cell"]
    assert row["cell"] not in {line["cell"] for line in lines(run, "cell_started")}
    assert lines(run, "run_ended")[-1]["why"].startswith(
        "identity: an arm did not stay the system that it was at first"
    )
    assert "engine.config.cache_config.block_size" in result.stderr
    assert "nothing more is measured" in result.stderr
    assert "or under identity.treatment or identity.confounded (benchcard explain identity)" in result.stderr
    assert "## Not the systems that the card declares" in (run / "REPORT.md").read_text()
    assert benchcard("audit", run).stdout.splitlines()[-1] == "nothing failed"


def test_a_flag_that_only_one_arm_has(tmp_path: Path) -> None:
    """In the script, not on the card."""
    undeclared = '[[ " $* " == *" --enable-prefix-caching "* ]]'
    benchcard("run", wrapped(tmp_path, undeclared, "--block-size 32"), "--out", tmp_path / "runs")
    run = only_run(tmp_path / "runs")
    verdict = json.loads((run / "verdict.json").read_text())
    assert verdict["verdict"] == "invalid"
    fields = {row["field"] for row in verdict["identity"]["rows"] if row["word"] == "forbidden"}
    assert "engine.config.cache_config.block_size" in fields
    # both arms were started, the second of them measured nothing
    assert len({line["cell"] for line in lines(run, "cell_started")}) == 1
    assert benchcard("audit", run).stdout.splitlines()[-1] == "nothing failed"


def test_the_same_flag_accepted_by_name(tmp_path: Path) -> None:
    """The card accepts what differs, and the verdict says so."""
    undeclared = '[[ " $* " == *" --enable-prefix-caching "* ]]'
    accepted = "{confounded: [block-size]}"
    card = wrapped(tmp_path, undeclared, "--block-size 32", accepted)
    benchcard("run", card, "--out", tmp_path / "runs")
    run = only_run(tmp_path / "runs")
    verdict = json.loads((run / "verdict.json").read_text())
    assert lines(run, "run_ended")[-1]["why"] == "complete"
    assert verdict["verdict"] != "invalid", verdict["because"]
    assert "block-size" in verdict["sentence"]
    assert {"confounded"} <= {row["class"] for row in verdict["identity"]["rows"]}


def test_an_honest_run_has_the_treatment_alone(tmp_path: Path) -> None:
    benchcard("run", small_card(tmp_path, measure="0.3 s"), "--out", tmp_path / "runs")
    run = only_run(tmp_path / "runs")
    identity = json.loads((run / "verdict.json").read_text())["identity"]
    assert {(row["class"], row["word"]) for row in identity["rows"] if row["word"] != "not comparable"} == {
        ("treatment", "allowed")
    }
    assert identity["looks"] == 12
    assert identity["compared"] > 50
    assert lines(run, "identity_refused") == []
    assert benchcard("audit", run).stdout.splitlines()[-1] == "nothing failed"


def test_an_end_by_identity_that_the_files_do_not_show(tmp_path: Path) -> None:
    """The audit holds the log's reason against the identity files."""
    ended = [{"why": "identity: x"}]
    found = SimpleNamespace(
        bundle=SimpleNamespace(is_pilot=False), result_again={"identity": {"rows": []}}, lines=lambda *_: ended
    )
    fault = "incomplete: the log says 'identity: x', and the identity files show no forbidden difference"
    assert list(complete(found)) == [fault]  # type: ignore[arg-type]
    found.result_again = {"identity": {"rows": [{"word": "forbidden"}]}}
    assert list(complete(found)) == []  # type: ignore[arg-type]


@pytest.mark.parametrize("knows", [False, True])
def test_an_older_revision_is_not_asked(knows: bool) -> None:
    """It would end at a question that it does not understand, and the run with it."""
    questions = io.StringIO()
    answers = io.StringIO('{"identity": {"rows": [{"field": "x"}], "texts": ["y"]}}\n')
    found = CellChecks(questions, answers, knows).identity()
    assert found == (([{"field": "x"}], ["y"]) if knows else ([], []))
    assert questions.getvalue() == ("identity\n" if knows else "")


def test_the_table_on_the_terminal() -> None:
    row = {"field": "a.b", "expected": "16", "baseline": None, "candidate": "8", "cell": "b02-candidate-l1"}
    other = {"field": "engine.version", "expected": None, "baseline": "0.32.0", "candidate": "x" * 60, "cell": None}
    assert table([row, other]) == [
        "  field                   expected  A: baseline  B: candidate",
        "  a.b (b02-candidate-l1)  16                     8",
        f"  engine.version                    0.32.0       {'x' * 43}…",
    ]
    assert table([other]) == [
        "  field           A: baseline  B: candidate",
        f"  engine.version  0.32.0       {'x' * 43}…",
    ]

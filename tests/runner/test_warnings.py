"""validate, plan and run show a card's warnings on stderr; they change no exit code and nothing on stdout."""

from __future__ import annotations

import json
from pathlib import Path

from .cards import benchcard, small_card

WARNING = (
    "card.yaml:13:52: warning: arms.candidate.flags.speculative-config: found speculation (speculative-config) with "
    "prompts of random tokens and ignore_eos; wanted requests: {file: …} and ignore_eos: false (drafts are accepted at "
    "another rate than on the service's text)\n"
)


def card(folder: Path, **changes: str) -> None:
    small_card(folder, candidate=", speculative-config: ngram", **changes)


def test_validate(tmp_path: Path) -> None:
    card(tmp_path)
    result = benchcard("validate", "card.yaml", cwd=tmp_path)
    assert (result.stdout, result.stderr) == ("card.yaml: valid\n", WARNING)
    result = benchcard("validate", "card.yaml", "--json", cwd=tmp_path)
    [found] = json.loads(result.stdout)
    assert result.stderr == ""
    assert (found["valid"], found["problems"]) == (True, [])
    assert found["warnings"] == [{
        "file": "card.yaml", "line": 13, "column": 52, "path": "arms.candidate.flags.speculative-config",
        "found": "speculation (speculative-config) with prompts of random tokens and ignore_eos",
        "wanted": "requests: {file: …} and ignore_eos: false",
        "hint": "drafts are accepted at another rate than on the service's text",
    }]  # fmt: skip


def test_plan(tmp_path: Path) -> None:
    card(tmp_path)
    result = benchcard("plan", "card.yaml", cwd=tmp_path)
    assert result.stderr == WARNING
    assert "warning" not in result.stdout
    result = benchcard("plan", "card.yaml", "--json", cwd=tmp_path)
    assert result.stderr == ""
    assert [warning["line"] for warning in json.loads(result.stdout)["warnings"]] == [13]


def test_run_says_it_before_anything_else(tmp_path: Path) -> None:
    card(tmp_path, measure="30 min")
    result = benchcard("run", "card.yaml", cwd=tmp_path, code=2)
    assert result.stderr.startswith(WARNING)
    assert "decision.budget is 10 min" in result.stderr


def test_a_card_that_is_refused_has_no_warnings(tmp_path: Path) -> None:
    card(tmp_path, measure="many")
    result = benchcard("validate", "card.yaml", cwd=tmp_path, code=2)
    assert "warning" not in result.stderr
    [found] = json.loads(benchcard("validate", "card.yaml", "--json", cwd=tmp_path, code=2).stdout)
    assert "warnings" not in found

"""The command line as a person uses it: what it prints, where, and how it exits."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from benchcard.runner.analysis_process import installed_revision
from benchcard.runner.cli.pin import pin
from benchcard.schema.card import load_card
from benchcard.schema.errors import VERDICT_EXIT_CODES

from .cards import benchcard, only_run, small_card


def test_version_and_help() -> None:
    assert re.fullmatch(r"benchcard \d+\.\d+\.\d+\n", benchcard("--version").stdout)
    assert "Recompute a run from its raw events" in benchcard("--help").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rn"], "no command 'rn'; did you mean run?"),
        (["run"], "wanted either a CARD to run or --resume RUN"),
        (["run", "missing.yaml"], "missing.yaml"),
        (["audit", "missing"], "not a run"),
        (["verdict", "."], "not a run"),
        (["new", "Bad Name"], "a-z"),
        (["explain", "workload.windw"], "workload.window"),
        (["validate", "/dev/null"], "/dev/null"),
    ],
)
def test_bad_input(tmp_path: Path, arguments: list[str], message: str) -> None:
    result = benchcard(*arguments, code=2, cwd=tmp_path)
    assert message in result.stderr


@pytest.mark.parametrize("kind", ["ab", "baseline"])
def test_new_cards_validate_and_plan(tmp_path: Path, kind: str) -> None:
    benchcard("new", "mine", "--kind", kind, cwd=tmp_path)
    assert benchcard("validate", "mine.yaml", cwd=tmp_path).stdout == "mine.yaml: valid\n"
    document = json.loads(benchcard("plan", "mine.yaml", "--json", cwd=tmp_path).stdout)
    assert document["card_id"] == "mine"
    assert "exists already" in benchcard("new", "mine", code=2, cwd=tmp_path).stderr


def test_validate_as_json(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("card: 1\nkind: ab\nid: x\nclaims: 1\n")
    result = benchcard("validate", "bad.yaml", "--json", code=2, cwd=tmp_path)
    (found,) = json.loads(result.stdout)
    assert found["valid"] is False
    assert {"file", "line", "column", "path", "found", "wanted", "hint"} == set(found["problems"][0])
    assert any(problem["path"] == "claims" and problem["line"] == 4 for problem in found["problems"])


def test_a_plan_that_outgrows_its_budget_is_refused(tmp_path: Path) -> None:
    path = small_card(tmp_path, measure="30 min")
    message = benchcard("plan", path, code=2).stderr
    assert "decision.budget is 10 min" in message
    assert benchcard("run", path, code=2, cwd=tmp_path).stderr == message
    assert not (tmp_path / "runs").exists()


def test_a_plan_too_large_to_make_is_refused_before_it_is_made(tmp_path: Path) -> None:
    path = small_card(tmp_path)
    path.write_text(path.read_text().replace("40 req/s", "1000000000 req/s"))
    assert "requests; wanted at most 5,000,000" in benchcard("plan", path, code=2).stderr


@pytest.mark.parametrize("candidate", ['max-num-seqs: "32"', "port: 18732"])
def test_arms_that_are_started_alike_are_no_comparison(tmp_path: Path, candidate: str) -> None:
    path = small_card(tmp_path, treatment=f"enable-prefix-caching: false, {candidate}")
    assert "arms that differ in nothing" in benchcard("validate", path, code=2).stderr


@pytest.mark.parametrize(
    "tail",
    [
        "",
        "analysis: {confidence: 95%}\n",
        "analysis:\n  confidence: 95%\n",
        "analysis: {revision: installed}\n",
        "analysis:\n  revision: installed # by whom\n",
    ],
)
def test_pin_writes_the_revision_and_nothing_else(tmp_path: Path, tail: str) -> None:
    path = small_card(tmp_path)
    path.write_text(path.read_text() + tail)
    before = yaml.safe_load(path.read_text())
    benchcard("pin", path)
    after = yaml.safe_load(path.read_text())
    assert after.pop("analysis")["revision"] == installed_revision()
    before.pop("analysis", None)
    assert after == before
    assert load_card(path).resolved["analysis"]["revision"] == installed_revision()
    assert pin(path.read_text(), installed_revision()) == path.read_text()


def test_another_pinned_revision_is_refused_by_name(tmp_path: Path) -> None:
    path = small_card(tmp_path)
    path.write_text(path.read_text() + f"analysis: {{revision: sha256:{'0' * 64}}}\n")
    message = benchcard("run", path, "--out", tmp_path / "runs", code=2).stderr
    assert f"sha256:{'0' * 64}" in message
    assert installed_revision() in message


def test_verdict(good_run: Path) -> None:
    verdict = json.loads((good_run / "verdict.json").read_text())
    assert json.loads(benchcard("verdict", good_run, "--json").stdout) == verdict
    code = VERDICT_EXIT_CODES[verdict["verdict"]]
    shown = benchcard("verdict", good_run, "--exit-code", code=code).stdout
    assert shown == f"verdict: {verdict['verdict']}\n{verdict['sentence']}\n"


def test_report_gives_the_same_bytes_again(good_run: Path) -> None:
    names = ("verdict.json", "REPORT.md", "report.html", "manifest.json")
    before = {name: (good_run / name).read_bytes() for name in names}
    assert benchcard("report", good_run).stdout.splitlines()[-1] == str(good_run / "report.html")
    assert {name: (good_run / name).read_bytes() for name in names} == before


def test_both_arms_of_a_block_get_the_same_requests(good_run: Path) -> None:
    import polars as pl

    plan = json.loads((good_run / "plan.json").read_text())
    for block in plan["blocks"][:6]:
        frames = [pl.read_parquet(good_run / "events" / f"{cell}.parquet") for cell in block["cells"]]
        columns = ["index", "prompt_digest", "asked_input_tokens", "asked_output_tokens"]
        one, other = (frame.filter(pl.col("phase") != "drain").select(columns) for frame in frames)
        assert one.equals(other)
        offsets = [frame.filter(pl.col("phase") != "drain")["scheduled"] for frame in frames]
        assert (offsets[0] - offsets[0][0]).to_list() == (offsets[1] - offsets[1][0]).to_list()


def test_reproduce(good_run: Path, tmp_path: Path) -> None:
    result = benchcard("reproduce", good_run, "--out", tmp_path / "second")
    second = only_run(tmp_path / "second")
    assert result.stdout.splitlines()[-1] == str(second / "report.html")
    days = json.loads((second / "reproduction.json").read_text())
    assert days["word"] in ("reproduced", "conflict", "indeterminate")
    assert f"second day: {days['word']}" in result.stdout
    plans = [json.loads((run / "plan.json").read_text()) for run in (good_run, second)]
    assert plans[0]["card_digest"] == plans[1]["card_digest"]
    assert plans[1]["seed_source"] == "second_day"
    assert plans[0]["seed"] != plans[1]["seed"]
    assert "Second day" in (second / "REPORT.md").read_text()
    assert benchcard("audit", second).stdout.splitlines()[-1] == "nothing failed"
    message = benchcard("reproduce", good_run, "--seed", plans[0]["seed"], code=2).stderr
    assert "is the first day's" in message

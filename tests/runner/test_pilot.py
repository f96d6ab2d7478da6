"""A pilot from the command line to the card that plans with it; refusals and the override."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from benchcard.runner.bundle import Bundle
from benchcard.runner.cli.pilot import pilot_text
from benchcard.schema.card import load_card
from benchcard.schema.errors import CardError

from .cards import benchcard, only_run, small_card

GUARD = "guards: [{metric: tpot.p50, may_rise_by: 30%}]\n"


@pytest.fixture(scope="module")
def pilot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a card and the pilot of it, run on the embedded engine."""
    folder = tmp_path_factory.mktemp("pilot")
    path = small_card(folder)
    (folder / "goodput.yaml").write_text(path.read_text())
    path.write_text(path.read_text().replace("goodput, must_rise_by", "ttft.p50, must_fall_by") + GUARD)
    done = benchcard("run", path, "--pilot", "--out", folder / "runs")
    assert "verdict:" not in done.stdout
    (folder / "stdout.txt").write_text(done.stdout)
    return folder


def test_a_pilot_is_marked_and_has_no_verdict(pilot: Path) -> None:
    run = only_run(pilot / "runs")
    assert run.name.endswith("-pilot")
    plan = json.loads((run / "plan.json").read_text())
    assert (plan["seed_source"], plan["pilot"]) == ("pilot", True)
    assert [block["spare"] for block in plan["blocks"]] == [False] * 3 + [True] * 2
    assert plan["seed"] != 11
    assert json.loads((run / "attempts.jsonl").read_text().splitlines()[0])["pilot"] is True
    assert not any((run / name).exists() for name in ("verdict.json", "REPORT.md", "report.html"))
    found = json.loads((run / "pilot.json").read_text())
    assert not {"verdict", "word"} & set(found)
    assert '"word"' not in json.dumps(found)
    assert [(row["kind"], row["metric"], row["blocks"], row["df"]) for row in found["differences"]] == [
        ("claim", "ttft.p50", 3, 2), ("guard", "tpot.p50", 3, 2),
    ]  # fmt: skip
    for row in found["differences"]:
        mean = sum(row["d"]) / 3
        stdev = (sum((d - mean) ** 2 for d in row["d"]) / 2) ** 0.5
        assert (row["mean"], row["stdev"]) == (pytest.approx(mean), pytest.approx(stdev))
    assert found["seconds_a_block"] > 2 * 0.6  # two cells of .1 s and .5 s


def test_what_a_pilot_prints(pilot: Path) -> None:
    lines = (pilot / "stdout.txt").read_text().splitlines()
    assert lines[0] == "pilot: 3 of 3 blocks; no verdict, and its data enter none"
    path = only_run(pilot / "runs").relative_to(pilot) / "pilot.json"
    assert lines[-2:] == [
        "To plan with it, on the card:",
        f"power: {{expect: …, chance: 80%, spread: {{from: {path}}}}}",
    ]


def test_a_pilot_without_a_spread_offers_nothing_to_paste(pilot: Path, tmp_path: Path) -> None:
    run = tmp_path / "lost"
    shutil.copytree(only_run(pilot / "runs"), run)
    found = json.loads((run / "pilot.json").read_text())
    none = {"blocks": 0, "d": [], "mean": None, "stdev": None, "df": None, "baseline": [], "reason": "no valid block"}
    found |= {"blocks_used": 0, "differences": [row | none for row in found["differences"]]}
    (run / "pilot.json").write_text(json.dumps(found))
    text = pilot_text(Bundle(run))
    assert text.startswith("pilot: 0 of 3 blocks; no verdict, and its data enter none\n")
    assert text.endswith("\nThere is nothing to plan with: no spread of the claim's metric was found")
    assert "power: {" not in text


def test_an_incomplete_joint_chance_is_not_told_as_the_whole(tmp_path: Path) -> None:
    path = small_card(tmp_path)
    path.write_text(path.read_text() + GUARD + "power: {expect: 5%, spread: 3%}\n")
    done = benchcard("plan", path, code=2)
    assert (
        "Joint chance at the expected effect of 5%: 48%; wanted 80%\n"
        "  not in it: tpot.p50 at 40 req/s, whose spread is not known; with them it can only be lower\n"
    ) in done.stdout
    assert "6 blocks give at most 48%; 11 blocks would give 82% for the parts whose spread is known: " in done.stderr


def test_every_command_says_that_it_is_a_pilot(pilot: Path) -> None:
    run = only_run(pilot / "runs")
    assert benchcard("report", run).stdout.startswith("pilot: 3 of 3 blocks; no verdict")
    assert "a pilot, so it has no verdict" in benchcard("verdict", run, code=2).stderr
    assert "a pilot: it has no verdict to reproduce" in benchcard("reproduce", run, code=2).stderr
    done = benchcard("audit", run)
    assert "note  this is a pilot: it has no verdict, and its data enter none" in done.stdout
    assert done.stdout.endswith("nothing failed\n")


def planned(pilot: Path, name: str, power: str, base: str = "card.yaml", **swap: tuple[str, str]) -> Path:
    """A card beside the pilot: another one with changes, and what it says of its power."""
    path = pilot / name
    text = (pilot / base).read_text()
    for before, after in swap.values():
        assert before in text
        text = text.replace(before, after)
    path.write_text(f"{text}power: {{{power}}}\n")
    return path


def test_a_card_plans_with_its_pilot(pilot: Path) -> None:
    source = only_run(pilot / "runs").relative_to(pilot) / "pilot.json"
    path = planned(
        pilot, "with.yaml", f"expect: 90%, chance: 1%, spread: {{from: {source}}}",
        blocks=("blocks: 6, seed: 11", "blocks: 7, seed: 12"), title=("id: small", "id: other"),
        threshold=("must_fall_by: 2%", "must_fall_by: 3%"),
    )  # fmt: skip
    found = json.loads(benchcard("plan", path, "--json").stdout)["power"]
    numbers = json.loads((pilot / source).read_text())
    assert found["source"] == "pilot"
    assert [part["estimate"] for part in found["parts"]] == [row["stdev"] for row in numbers["differences"]]
    # df = 2: sqrt(2 / chi-squared(.2, 2)), and that quantile is -2 ln .8
    assert found["parts"][0]["spread"] == pytest.approx(found["parts"][0]["estimate"] * (2 / 0.446287) ** 0.5, rel=1e-5)
    assert found["complete"] is True


def test_a_pilot_of_another_card_is_refused(pilot: Path) -> None:
    source = only_run(pilot / "runs").relative_to(pilot) / "pilot.json"
    path = planned(
        pilot, "another.yaml", f"expect: 50%, spread: {{from: {source}}}",
        flag=("max-num-seqs: 32", "max-num-seqs: 31"),
    )  # fmt: skip
    with pytest.raises(CardError, match=r"a pilot of another card: system.flags.max-num-seqs was 32, and is 31"):
        load_card(path)


def test_too_small_a_joint_chance_is_refused_before_anything_starts(pilot: Path) -> None:
    path = planned(pilot, "small.yaml", "expect: 5%, spread: 3%", base="goodput.yaml")
    for arguments in (("plan", path), ("run", path, "--out", pilot / "none")):
        error = benchcard(*arguments, code=2).stderr
        assert error == (
            "error: the experiment cannot answer:\n"
            "  - the joint chance is too small: power.chance is 80%, and 6 blocks give 48%; 11 blocks would give 82%: "
            "method.blocks: 11 (about 13 s; server starts come on top)\n"
            "Or say on the card why to run it all the same: "
            'power: {expect: …, override: "why"}; the verdict will say so\n'
        )
    assert not (pilot / "none").exists()
    text = benchcard("plan", path, code=2).stdout
    assert (
        "Power, claim: goodput at 40 req/s: declared spread 3.00%; 6 blocks detect 6.5% with chance 80%, threshold "
        "included; chance at the expected effect 48%\n"
        "Joint chance at the expected effect of 5%: 48%; wanted 80%\n"
        "  11 blocks give 82% (about 13 s; server starts come on top)\n"
    ) in text


def test_an_override_runs_and_stands_in_the_conditions(pilot: Path) -> None:
    path = planned(
        pilot, "override.yaml", 'expect: 5%, spread: 3%, override: "the window is booked"', guard=(GUARD, "")
    )
    assert "Override: the window is booked\n" in benchcard("plan", path).stdout
    benchcard("run", path, "--out", pilot / "overridden")
    run = only_run(pilot / "overridden")
    verdict = json.loads((run / "verdict.json").read_text())
    assert {"name": "power override", "value": "the window is booked", "source": "declared"} in verdict["conditions"]
    assert (verdict["power"]["known"], verdict["power"]["override"], verdict["flags"]) == (
        True, "the window is booked", [],
    )  # fmt: skip
    assert "Run in spite of a plan that could fall short: the window is booked" in (run / "REPORT.md").read_text()
    assert benchcard("audit", run).stdout.endswith("nothing failed\n")


def test_a_claim_out_of_reach_is_refused_by_virtual_time(pilot: Path) -> None:
    path = pilot / "reach.yaml"
    text = (pilot / "goodput.yaml").read_text().replace("at_most: 14 ms", "at_most: 900 ms")
    path.write_text(text)
    error = benchcard("plan", path, code=2).stderr
    assert error == (
        "error: the experiment cannot answer:\n"
        "  - the claim is out of reach at 40 req/s: in virtual time the baseline already met every objective in 100.0% "
        "of the requests, so goodput can rise by 0% at most, and must rise by more than 2%. What would mend it: a "
        "higher load or tighter objectives\n"
        'Or say on the card why to run it all the same: power: {expect: …, override: "why"}; the verdict will say so\n'
    )


def test_a_baseline_has_no_pilot(tmp_path: Path) -> None:
    card = Path(__file__).parents[2] / "cards" / "day-profile.yaml"
    error = benchcard("run", card, "--pilot", "--out", tmp_path, code=2).stderr
    assert "a baseline has no differences between arms; a pilot is for a card of kind ab" in error

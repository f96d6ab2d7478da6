"""A/A blocks, live and in virtual time: the baseline against itself among the other blocks."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from benchcard.reports.render import render
from benchcard.runner.analysis_process import Analysis, installed_revision
from benchcard.runner.attempts import AttemptLog
from benchcard.runner.bundle import Bundle, write_manifest
from benchcard.runner.execute import Execution
from benchcard.runner.plan.blocks import plan_blocks
from benchcard.runner.plan.plan import Plan, make_plan
from benchcard.runner.prospects import in_virtual_time, seconds_a_block, seconds_of_aa
from benchcard.runner.virtual_run import virtual_run
from benchcard.schema.card import load_card

from .cards import benchcard, kill, only_run, small_card, start_benchcard, wait_gone
from .test_audit import edit_json, edit_log, findings, later_first_tokens
from .test_resume import lines_of


def aa_card(folder: Path, aa: str = "{blocks: 5, within: 50%}", **changes: str) -> Path:
    path = small_card(folder, **changes)
    path.write_text(path.read_text().replace("{blocks: 6,", f"{{aa: {aa}, blocks: 6,"))
    return path


@pytest.fixture(scope="module")
def aa_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was killed inside an A/A block and resumed; all three servers stay up."""
    folder = tmp_path_factory.mktemp("aa")
    process = start_benchcard("run", aa_card(folder, restart="never"), "--out", folder / "runs")
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        runs = list((folder / "runs").glob("*/[!.]*"))
        begun = [line["cell"] for line in lines_of(runs[0]) if line["kind"] == "cell_started"] if runs else []
        if begun and begun[-1].startswith("a"):
            break
        time.sleep(0.02)
    kill(process, signal.SIGKILL)
    run = only_run(folder / "runs")
    assert wait_gone(run) == []
    benchcard("run", "--resume", run)
    return run


def test_killed_in_an_aa_block_and_resumed(aa_run: Path) -> None:
    assert benchcard("audit", aa_run).stdout.splitlines()[-1] == "nothing failed"
    lines = lines_of(aa_run)
    plan = json.loads((aa_run / "plan.json").read_text())
    blocks = {block["block"]: block for block in plan["blocks"]}
    (killed,) = [line["cell"] for line in lines if line["kind"] == "cell_killed"]
    (replaced,) = [line for line in lines if line["kind"] == "block_replaced"]
    assert killed in blocks[replaced["block"]]["cells"]
    # by the one spare of its kind: 6 and 2 blocks, then 5 A/A blocks and their spare
    assert (blocks[replaced["block"]]["aa"], replaced["by"]) == (True, 14)
    wanted = [cell for block in plan["blocks"] if not block["spare"] for cell in block["cells"]]
    after = wanted.index(killed)
    last_of_its_block = wanted.index(blocks[replaced["block"]]["cells"][-1])
    begun = [line["cell"] for line in lines if line["kind"] == "cell_started"]
    assert begun == [*wanted[: after + 1], *wanted[last_of_its_block + 1 :], *blocks[14]["cells"]]


def test_both_runs_of_the_baseline_are_one_system_with_an_identity_each(aa_run: Path) -> None:
    first, second = (
        json.loads((aa_run / "identity" / f"{arm}.json").read_text()) for arm in ("baseline", "baseline_aa")
    )
    assert (first["arm"], second["arm"]) == ("baseline", "baseline_aa")
    steady = [
        {name: field for name, field in each["fields"].items() if not field.get("volatile")} for each in (first, second)
    ]
    assert steady[0] == steady[1]
    assert first["fields"]["process.pid"]["value"] != second["fields"]["process.pid"]["value"]
    pids = {line["arm"]: line["pid"] for line in lines_of(aa_run) if line["kind"] == "server_started"}
    assert set(pids) == {"baseline", "candidate", "baseline_aa"}
    assert len(set(pids.values())) == 3
    events = pl.concat(pl.read_parquet(path) for path in (aa_run / "events").glob("a*.parquet"))
    assert set(events["arm"]) == {"baseline", "baseline_aa"}


def test_what_the_verdict_says_of_it(aa_run: Path) -> None:
    verdict = json.loads((aa_run / "verdict.json").read_text())
    (row,) = verdict["aa"]
    assert (row["metric"], row["load"], row["blocks"], row["decides"]) == ("goodput", 40.0, 5, True)
    good = {}
    for block in verdict["aa_blocks"]:
        for cell in block["cells"] if block["used"] else ():
            frame = pl.read_parquet(aa_run / "events" / f"{cell['cell']}.parquet")
            met = frame.filter(
                (pl.col("phase") == "measure") & (pl.col("outcome") == "ok")
                & (pl.col("first_token") - pl.col("scheduled") <= 14_000_000)
            )  # fmt: skip
            good[block["block"], cell["arm"]] = met.height / 0.5
    used = [block["block"] for block in verdict["aa_blocks"] if block["used"]]
    # goodput is good attempts over the window of .5 s, and the window is the same in both
    ratios = [good[block, "baseline_aa"] / good[block, "baseline"] for block in used]
    assert [2.718281828459045**d for d in row["d"]] == pytest.approx(ratios)
    assert {cell["arm"] for block in verdict["blocks"] for cell in block["cells"]} == {"baseline", "candidate"}
    assert {row["arm"] for row in verdict["metrics"]} == {"baseline", "candidate"}
    assert "noise floor (A/A)" in {condition["name"] for condition in verdict["conditions"]}
    assert "## The procedure against itself (A/A)" in (aa_run / "REPORT.md").read_text()


def change_a_good_attempt(run: Path) -> None:
    """In the A/A blocks' first cell the first token of a good attempt comes 50 ms later, past the objective."""
    plan = json.loads((run / "plan.json").read_text())
    used = [b["block"] for b in json.loads((run / "verdict.json").read_text())["aa_blocks"] if b["used"]]
    cell = next(cell for block in plan["blocks"] if block["block"] in used for cell in block["cells"])
    path = run / "events" / f"{cell}.parquet"
    frame = pl.read_parquet(path)
    good = frame.filter(
        (pl.col("phase") == "measure") & (pl.col("first_token") - pl.col("scheduled") <= 14_000_000)
    )["index"][0]  # fmt: skip
    later = later_first_tokens(frame.filter(pl.col("index") == good))
    pl.concat([later, frame.filter(pl.col("index") != good)]).sort("index").write_parquet(path)


def other_context(identity: dict[str, Any]) -> None:
    identity["fields"]["model.context_limit"]["value"] = 4096


def other_command(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for line in lines:
        if line["kind"] == "server_started" and line["arm"] == "baseline_aa":
            line["argv"] = [*line["argv"], "--max-num-seqs", "8"]
    return lines


def needless_loss(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    at = next(i for i, line in enumerate(lines) if line["kind"] == "run_ended")
    lines.insert(at, {"time": lines[at]["time"], "kind": "block_lost", "block": 14, "why": "it did not please"})
    return lines


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (change_a_good_attempt, {"events", "verdict"}),
        (lambda run: edit_json(run / "identity" / "baseline_aa.json", other_context), {"identity", "verdict"}),
        (lambda run: (run / "identity" / "baseline_aa.json").unlink(), {"identity"}),
        (lambda run: edit_log(run, other_command, rechain=True), {"identity"}),
        (lambda run: edit_log(run, needless_loss, rechain=True), {"replacements", "report"}),
    ],
    ids=["an A/A event", "an identity", "no identity", "another command", "a needless loss"],
)
def test_each_change_is_named_by_its_check(
    aa_run: Path, tmp_path: Path, change: Callable[[Path], None], expected: set[str]
) -> None:
    run = tmp_path / aa_run.name
    shutil.copytree(aa_run, run)
    change(run)
    write_manifest(Bundle(run))
    found = findings(run)
    assert set(found) == expected, found


def test_in_virtual_time_there_is_no_noise_and_the_effects_are_the_same(tmp_path: Path) -> None:
    verdicts = []
    for name, write in (("plain", small_card), ("aa", lambda folder: aa_card(folder, "{blocks: 5}"))):
        folder = tmp_path / name
        folder.mkdir()
        card = load_card(write(folder), installed_revision=installed_revision())
        bundle = virtual_run(make_plan(card.resolved, card.digest), folder / "run", card.text)
        Analysis(installed_revision(), "benchcard.analysis", None).run("verdict", str(bundle.root))
        verdicts.append(json.loads((bundle.root / "verdict.json").read_text()))
    plain, mixed = verdicts
    assert mixed["effects"] == plain["effects"]
    assert mixed["summary"] == plain["summary"]
    assert "aa" not in plain
    (row,) = mixed["aa"]
    assert (row["d"], row["mean"], row["stdev"], row["interval"]) == ([0.0] * 5, 0.0, 0.0, [0.0, 0.0])
    assert (row["word"], row["equivalent"], row["p_equivalent"]) == ("clean", True, None)
    markdown, _ = render(tmp_path / "aa" / "run", tmp_path / "out")
    assert "where there is nothing to see, a block shows nothing" in markdown.read_text()


def test_aa_blocks_are_no_part_of_what_virtual_time_or_more_blocks_are_asked_about(tmp_path: Path) -> None:
    found = []
    for name, write in (("plain", small_card), ("aa", lambda folder: aa_card(folder, "{blocks: 5}"))):
        (tmp_path / name).mkdir()
        card = load_card(write(tmp_path / name), installed_revision=installed_revision())
        found.append((card.resolved, in_virtual_time(make_plan(card.resolved, card.digest))[0]))
    (plain_card, plain), (mixed_card, mixed) = found
    assert plain is not None
    assert mixed is not None
    assert mixed["differences"] == plain["differences"]
    # two cells of .1 s and .5 s; five A/A blocks of as much stay five, whatever the number of the others
    assert seconds_a_block(mixed_card) == seconds_a_block(plain_card) == pytest.approx(1.2)
    assert (seconds_of_aa(plain_card), seconds_of_aa(mixed_card)) == (0.0, pytest.approx(6.0))
    assert seconds_of_aa(mixed_card, {"seconds_a_block": 4.0}) == 20.0


class Quiet:
    """Progress that says nothing."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def expect(self, cells: int) -> None:
        pass

    def more(self, cells: int) -> None:
        pass


@pytest.mark.parametrize(("spares", "wanted"), [(2, [(9, 14), (10, None)]), (0, [(7, None), (8, None)])])
def test_aa_blocks_beyond_their_spare_are_left_out(
    tmp_path: Path, spares: int, wanted: list[tuple[int, int | None]]
) -> None:
    """The first two A/A blocks and no other cannot count: the run goes on to its end, and no other block's spare is
    taken. Resumed, it does nothing twice."""
    card = load_card(aa_card(tmp_path, spares=str(spares))).resolved

    plan = Plan(card, "", 11, "card", plan_blocks(card, 11), {}, {})

    class Moves:
        def enter(self, *_: object) -> None: ...

    execution = Execution.__new__(Execution)
    execution.plan, execution.progress = plan, Quiet()  # type: ignore[assignment]
    execution._moves = Moves()  # type: ignore[assignment]
    execution.log = AttemptLog(tmp_path / "attempts.jsonl")
    ran: list[int] = []

    def block(_: object, one: Any) -> str | None:
        ran.append(one.block)
        return "cell x is invalid" if one.block in [number for number, _ in wanted] else None

    execution._block = block  # type: ignore[assignment]
    assert execution._blocks(None) == "complete"  # type: ignore[arg-type]
    lost = [(line["block"], line.get("by")) for line in execution.log.of_kind("block_replaced", "block_lost")]
    assert sorted(lost) == wanted
    assert ran == [b.block for b in plan.blocks if not b.spare] + [by for _, by in wanted if by]
    once = list(ran)
    assert execution._blocks(None) == "complete"  # type: ignore[arg-type]
    assert ran[len(once) :] == [number for number in once if number not in dict(wanted)]

"""Arms that exchange places: two embedded engines on ports of their own, and a script that exchanges them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .cards import benchcard, kill, only_run, start_benchcard
from .outside import Deployment, lines, two_servers
from .test_audit import edit_log


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    found = Deployment(tmp_path)
    found.start("a", caching=False)
    found.start("b", caching=True)
    yield found
    found.stop()


def places(run: Path) -> list[tuple[str, str]]:
    """(block and arm, url) of each cell in the order in which they were run."""
    return [(line["cell"].rsplit("-", 1)[0], line["url"]) for line in lines(run, "cell_started")]


def test_arms_exchange_places(deployment: Deployment, tmp_path: Path) -> None:
    a, b = deployment.url("a"), deployment.url("b")
    swap = deployment.script("swap", "a:on", "b:off")
    card = two_servers(tmp_path, a, b, method=f", swap: {{after_block: 3, command: {json.dumps(swap)}}}")
    benchcard("run", card, "--out", tmp_path / "runs")
    run = only_run(tmp_path / "runs")
    at = dict(places(run))
    assert {at[f"b{n:02d}-baseline"] for n in (1, 2, 3)} == {at[f"b{n:02d}-candidate"] for n in (4, 5, 6)} == {a}
    assert {at[f"b{n:02d}-candidate"] for n in (1, 2, 3)} == {at[f"b{n:02d}-baseline"] for n in (4, 5, 6)} == {b}
    (swapped,) = lines(run, "swapped")
    assert swapped["places"] == {"baseline": b, "candidate": a}
    assert swapped["exit_code"] == 0
    assert (run / "logs" / swapped["output"]).read_text() == "swap runs\n"
    kinds = [line["kind"] for line in lines(run)]
    assert kinds[: kinds.index("swapped")].count("cell_ended") == 6
    assert benchcard("audit", run).stdout.splitlines()[-1] == "nothing failed"
    assert f"the arms exchanged places: baseline at {b} and candidate at {a}" in (run / "REPORT.md").read_text()
    found = json.loads((run / "verdict.json").read_text())["conditions"]
    (said,) = [row["value"] for row in found if row["name"] == "places"]
    assert said.startswith(
        "the arms exchanged places after block 3 of 6; change of output_throughput at concurrency 8: "
    )
    # a cell that was asked for elsewhere than where its arm was due
    moved = lines(run, "cell_started")[-1]
    edit_log(
        run,
        lambda all_: [{**x, "url": "http://elsewhere/v1"} if x["seq"] == moved["seq"] else x for x in all_],
        rechain=True,
    )
    faults = benchcard("audit", run, code=20).stdout
    assert f"cell {moved['cell']} was run at http://elsewhere/v1; its arm was due at {moved['url']}" in faults


def test_a_swap_that_does_not_happen(deployment: Deployment, tmp_path: Path) -> None:
    """Nothing more is measured; mended, the run goes on at the exchanged places and the command is not run again."""
    a, b = deployment.url("a"), deployment.url("b")
    swap = deployment.script("swap")
    card = two_servers(tmp_path, a, b, method=f", swap: {{after_block: 2, command: {json.dumps(swap)}}}")
    said = benchcard("run", card, "--out", tmp_path / "runs", code=3).stderr
    assert f"after {' '.join(swap)}: baseline: the server does not run as the card says\n" in said
    assert "\n  cache_config.enable_prefix_caching  False     True\n" in said
    run = only_run(tmp_path / "runs")
    assert len(lines(run, "cell_ended")) == 4
    deployment.start("a", caching=True)
    deployment.start("b", caching=False)
    benchcard("run", "--resume", run)
    (swapped,) = lines(run, "swapped")
    assert swapped["found"] is True
    assert len(lines(run, "command_begun")) == 1
    assert {url for cell, url in places(run) if cell.endswith("baseline")} == {a, b}
    assert [url for cell, url in places(run) if cell == "b06-baseline"] == [b]
    assert benchcard("audit", run).stdout.splitlines()[-1] == "nothing failed"


def test_killed_after_the_swap(deployment: Deployment, tmp_path: Path) -> None:
    """The run goes on at the exchanged places, and a spare of the killed cell's block runs there too."""
    a, b = deployment.url("a"), deployment.url("b")
    swap = deployment.script("swap", "a:on", "b:off")
    method = f", swap: {{after_block: 2, command: {json.dumps(swap)}}}"
    card = two_servers(tmp_path, a, b, method=method)
    process = start_benchcard("run", card, "--out", tmp_path / "runs")
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        runs = list((tmp_path / "runs").glob("*/[!.]*"))
        if runs and (runs[0] / "attempts.jsonl").exists() and len(lines(runs[0], "cell_started")) >= 5:
            break
        time.sleep(0.02)
    kill(process)
    run = only_run(tmp_path / "runs")
    benchcard("run", "--resume", run)
    assert len(lines(run, "swapped")) == len(lines(run, "command_begun")) == 1
    began = [cell for cell, _ in places(run)]
    assert began[-1].startswith("b07") or "cell_killed" not in {line["kind"] for line in lines(run)}
    after = [(cell.split("-")[1], url) for cell, url in places(run)[4:]]
    assert set(after) == {("baseline", b), ("candidate", a)}
    assert benchcard("audit", run).stdout.splitlines()[-1] == "nothing failed"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["./no-such-script"], "./no-such-script: cannot be started (No such file or directory)"),
        (["sh", "-c", "echo refused; exit 7"], "ended with exit code 7; its output is in "),
        (["sleep", "600"], "sleep 600 was not over within 0.5 s; its output is in "),
    ],
)
def test_a_command_that_fails(deployment: Deployment, tmp_path: Path, command: list[str], message: str) -> None:
    method = f", swap: {{after_block: 2, command: {json.dumps(command)}, within: 0.5 s}}"
    card = two_servers(tmp_path, deployment.url("a"), deployment.url("b"), method=method)
    said = benchcard("run", card, "--out", tmp_path / "runs", code=3).stderr
    assert message in said
    assert f"the arms exchange places: running {' '.join(command)}\n" in said
    run = only_run(tmp_path / "runs")
    assert lines(run)[-1]["kind"] == "run_stopped"
    assert len(lines(run, "cell_ended")) == 4


def test_aa_across_the_servers_and_a_swap(deployment: Deployment, tmp_path: Path) -> None:
    a, b = deployment.url("a"), deployment.url("b")
    before, after = deployment.script("before", "b:off"), deployment.script("after", "b:on")
    swap = deployment.script("swap", "a:on", "b:off")
    command = f"{{before: {json.dumps(before)}, after: {json.dumps(after)}}}"
    method = f", aa: {{blocks: 5, within: 90%, across: servers, command: {command}}}"
    method += f", swap: {{after_block: 3, command: {json.dumps(swap)}}}"
    card = two_servers(tmp_path, a, b, method=method)
    benchcard("run", card, "--out", tmp_path / "runs")
    run = only_run(tmp_path / "runs")
    found = places(run)
    assert len(found) == 22
    assert {(cell[0], cell.split("-")[1], url) for cell, url in found[:10]} == {
        ("a", "baseline", a), ("a", "baseline_aa", b),
    }  # fmt: skip
    assert dict(found)["b06-candidate"] == a
    kinds = [line["kind"] for line in lines(run, "aa_placed", "aa_cleared", "swapped", "command_begun")]
    assert kinds == ["command_begun", "aa_placed", "command_begun", "aa_cleared", "command_begun", "swapped"]
    verdict = json.loads((run / "verdict.json").read_text())
    assert [row["blocks"] for row in verdict["aa"]] == [5]
    assert benchcard("audit", run).stdout.splitlines()[-1] == "nothing failed"


def test_aa_across_without_commands_waits_for_somebody(deployment: Deployment, tmp_path: Path) -> None:
    a, b = deployment.url("a"), deployment.url("b")
    card = two_servers(tmp_path, a, b, method=", aa: {blocks: 5, within: 90%, across: servers}")
    said = benchcard("run", card, "--out", tmp_path / "runs", code=3).stderr
    assert "baseline_aa: the server does not run as the card says\n" in said
    assert "\n  cache_config.enable_prefix_caching  False     True\n" in said
    run = only_run(tmp_path / "runs")
    deployment.start("b", caching=False)
    said = benchcard("run", "--resume", run, code=3).stderr
    assert "candidate: the server does not run as the card says\n" in said
    assert "\n  cache_config.enable_prefix_caching  True      False\n" in said
    assert len(lines(run, "cell_ended")) == 10
    deployment.start("b", caching=True)
    benchcard("run", "--resume", run)
    assert benchcard("audit", run).stdout.splitlines()[-1] == "nothing failed"

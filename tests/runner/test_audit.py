"""The audit: a good bundle passes, and each thing that is changed in it is named by the right check."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from benchcard.runner.analysis_process import archived_revisions
from benchcard.runner.attempts import line_digest
from benchcard.runner.audit.checks import CHECKS, run_check
from benchcard.runner.audit.context import Context
from benchcard.runner.bundle import Bundle, write_manifest
from benchcard.schema.digest import digest_file
from benchcard.schema.errors import BundleError

from .cards import benchcard


def test_a_good_bundle_passes(good_run: Path) -> None:
    result = benchcard("audit", good_run)
    assert result.stdout.splitlines()[-1] == "nothing failed"
    assert "FAIL" not in result.stdout


def findings(run: Path) -> dict[str, list[str]]:
    """The checks that fail, with what they say."""
    document = json.loads(benchcard("audit", run, "--json", code=20).stdout)
    assert document["passed"] is False
    return {check["name"]: check["faults"] for check in document["checks"] if not check["passed"]}


def a_cell(run: Path) -> str:
    return str(json.loads((run / "plan.json").read_text())["cells"][0]["cell"])


def edit_json(path: Path, change: Callable[[dict], None]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document, indent=1) + "\n")


def edit_events(run: Path, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    path = run / "events" / f"{a_cell(run)}.parquet"
    change(pl.read_parquet(path)).write_parquet(path)


def later_first_tokens(frame: pl.DataFrame) -> pl.DataFrame:
    """One counted attempt's times, 50 ms later."""
    index = frame.filter(pl.col("phase") == "measure")["index"][0]
    here = pl.col("index") == index
    later = [
        pl.when(here).then(pl.col(c) + 50_000_000).otherwise(pl.col(c)).alias(c)
        for c in ("first_token", "last_token", "end")
    ]
    times = (
        pl.when(here).then(pl.col("chunk_times").list.eval(pl.element() + 50_000_000)).otherwise(pl.col("chunk_times"))
    )
    return frame.with_columns(*later, times.alias("chunk_times"))


def one_row_less(frame: pl.DataFrame) -> pl.DataFrame:
    index = frame.filter(pl.col("phase") == "measure")["index"][0]
    return frame.filter(pl.col("index") != index)


def swap_order(run: Path) -> None:
    def swap(plan: dict) -> None:
        cells = plan["blocks"][0]["cells"]
        cells[0], cells[1] = cells[1], cells[0]

    edit_json(run / "plan.json", swap)


def other_threshold(run: Path) -> None:
    path = run / "card.yaml"
    path.write_text(re.sub(r"must_rise_by: \d+%", "must_rise_by: 1%", path.read_text()))


def edit_log(run: Path, change: Callable[[list[dict]], list[dict]], *, rechain: bool) -> None:
    path = run / "attempts.jsonl"
    lines = change([json.loads(line) for line in path.read_text().splitlines()])
    if rechain:
        previous = ""
        for number, line in enumerate(lines, start=1):
            line |= {"seq": number, "prev": previous}
            line["sha256"] = previous = line_digest(line)
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def swap_cells_in_log(lines: list[dict]) -> list[dict]:
    at = [i for i, line in enumerate(lines) if line["kind"] == "cell_started"][:2]
    lines[at[0]]["cell"], lines[at[1]]["cell"] = lines[at[1]]["cell"], lines[at[0]]["cell"]
    return lines


def without_end(lines: list[dict]) -> list[dict]:
    return [line for line in lines if line["kind"] != "run_ended"]


def other_flag_in_one_start(lines: list[dict]) -> list[dict]:
    start = next(line for line in lines if line["kind"] == "server_started")
    start["argv"] = [*start["argv"], "--max-num-seqs", "8"]
    return lines


def needless_replacement(lines: list[dict]) -> list[dict]:
    at = next(i for i, line in enumerate(lines) if line["kind"] == "run_ended")
    lines.insert(
        at, {"time": lines[at]["time"], "kind": "block_replaced", "block": 6, "by": 7, "why": "it did not please"}
    )
    return lines


def other_analysis(run: Path) -> None:
    (archive,) = (run / "analysis").glob("*.zip")
    with zipfile.ZipFile(archive) as source:
        files = {name: source.read(name) for name in source.namelist()}
    files["analysis/verdict.py"] += b"\n# friendlier\n"
    with zipfile.ZipFile(archive, "w") as target:
        for name, content in files.items():
            target.writestr(name, content)


def verdict_says(run: Path, word: str) -> None:
    edit_json(run / "verdict.json", lambda verdict: verdict.update(verdict=word))


Change = Callable[[Path], None]
CHANGES: list[tuple[str, Change, set[str]]] = [
    # what is done to the bundle, and the checks that must fail when the manifest is sealed again after it
    ("a time", lambda run: edit_events(run, later_first_tokens), {"events", "verdict"}),
    ("a row", lambda run: edit_events(run, one_row_less), {"events", "replacements", "verdict"}),
    ("the threshold", other_threshold, {"card"}),
    ("the order", swap_order, {"plan", "report", "verdict"}),
    ("the verdict", lambda run: verdict_says(run, "mixed"), {"verdict", "report"}),
    ("the log, cells swapped", lambda run: edit_log(run, swap_cells_in_log, rechain=True), {"order"}),
    (
        "the log, a line changed",
        lambda run: edit_log(run, other_flag_in_one_start, rechain=False),
        {"attempt_log", "identity"},
    ),
    ("another flag at a restart", lambda run: edit_log(run, other_flag_in_one_start, rechain=True), {"identity"}),
    ("the log, its end", lambda run: edit_log(run, without_end, rechain=True), {"complete"}),
    (
        "a needless replacement",
        lambda run: edit_log(run, needless_replacement, rechain=True),
        {"order", "replacements", "report"},
    ),
    ("the analysis", other_analysis, {"revision"}),
    ("the report", lambda run: (run / "REPORT.md").write_text("supported, by a lot\n") and None, {"report"}),
    ("an identity", lambda run: (run / "identity" / "baseline.json").unlink(), {"identity", "verdict"}),
    ("what a cell found", lambda run: edit_cell_identity(run), {"identity"}),
    ("what a cell found, gone", lambda run: cell_identity(run).unlink(), {"identity", "verdict"}),
    ("a cell that was none", lambda run: cell_identity(run).with_name("b99-x.json").write_text("{}"), {"identity"}),
    ("telemetry", lambda run: edit_telemetry(run), {"events"}),
    ("the machine", lambda run: edit_host(run), {"events", "verdict"}),
    ("the certificate", lambda run: edit_json(run / "instrument" / "1.json", wider), {"events", "verdict"}),
    ("a curve", lambda run: edit_series(run), {"verdict", "report"}),
    ("a seed of one's own", lambda run: edit_json(run / "plan.json", own_seed), {"plan", "report"}),
    ("the requests", lambda run: spoil_requests(run), {"plan"}),
    ("a cell's events", lambda run: (run / "events" / f"{a_cell(run)}.parquet").write_bytes(b"PAR1"), set()),
]  # fmt: skip


def cell_identity(run: Path) -> Path:
    return run / "identity" / "cells" / f"{a_cell(run)}.json"


def edit_cell_identity(run: Path) -> None:
    """A server that was another process."""
    edit_json(cell_identity(run), lambda found: found["fields"]["process.pid"].update(value=1))


def wider(certificate: dict) -> None:
    """A client that was seen to be right at a thousand times the load."""
    for point in certificate["points"]:
        point["tokens_per_s"] *= 1000


def own_seed(plan: dict) -> None:
    plan["seed_source"] = "x"


def edit_telemetry(run: Path) -> None:
    """More prompt tokens found in the cache than were."""
    path = run / "telemetry" / f"server-{a_cell(run)}.parquet"
    more = pl.when(pl.col("name") == "vllm:num_requests_running").then(1.0).otherwise(pl.col("value"))
    pl.read_parquet(path).with_columns(more.alias("value")).write_parquet(path)


def edit_host(run: Path) -> None:
    """A machine with a higher load."""
    path = run / "telemetry" / f"host-{a_cell(run)}.parquet"
    higher = pl.when(pl.col("name") == "node_load1").then(99.0).otherwise(pl.col("value"))
    pl.read_parquet(path).with_columns(higher.alias("value")).write_parquet(path)


def edit_series(run: Path) -> None:
    path = run / "series" / "goodput.parquet"
    pl.read_parquet(path).with_columns(pl.col("goodput") * 5).write_parquet(path)


def spoil_requests(run: Path) -> None:
    path = run / "plan" / "requests.parquet"
    frame = pl.read_parquet(path)
    frame.with_columns(
        pl.when(pl.col("phase") == "drain")
        .then(pl.col("output_tokens") + 1)
        .otherwise(pl.col("output_tokens"))
        .cast(pl.Int32)
        .alias("output_tokens")
    ).write_parquet(path)


@pytest.mark.parametrize(("change", "expected"), [(c, e) for _, c, e in CHANGES], ids=[name for name, _, _ in CHANGES])
def test_each_change_is_named_by_its_check(good_run: Path, tmp_path: Path, change: Change, expected: set[str]) -> None:
    run = tmp_path / good_run.name
    shutil.copytree(good_run, run)
    change(run)
    # Left as it is, the manifest gives the change away, whatever it was.
    assert run_check(CHECKS[0], Context(Bundle(run), None, None, None))
    # Sealed again by whoever made the change, the bundle still does.
    write_manifest(Bundle(run))
    found = findings(run)
    if expected:
        assert set(found) == expected, found
    else:
        assert "events" in found


def test_what_is_said(good_run: Path, tmp_path: Path) -> None:
    run = tmp_path / good_run.name
    shutil.copytree(good_run, run)
    cell = a_cell(run)
    edit_events(run, later_first_tokens)
    swap_order(run)
    found = findings(run)
    assert f"events/{cell}.parquet: changed since the manifest was written" in found["manifest"]
    assert found["events"] == [f"events/{cell}.parquet: not the file that was written when the cell ended"]
    assert found["plan"][0].startswith(
        "plan.json differs from the plan made again from card and seed: blocks[0].cells[0]: found"
    )


def test_the_log_holds_the_digest_of_each_event_file(good_run: Path) -> None:
    lines = [json.loads(line) for line in (good_run / "attempts.jsonl").read_text().splitlines()]
    ended = [line for line in lines if line["kind"] == "cell_ended"]
    assert len(ended) == 12
    for line in ended:
        assert line["events_sha256"] == digest_file(good_run / "events" / f"{line['cell']}.parquet")


def test_a_file_that_is_gone_is_a_fault_not_a_bug(good_run: Path, tmp_path: Path) -> None:
    run = tmp_path / good_run.name
    shutil.copytree(good_run, run)
    (run / "plan" / "requests.parquet").unlink()
    assert {"manifest", "plan"} <= set(findings(run))


def test_what_the_digest_does_not_cover_is_not_unpacked(good_run: Path, tmp_path: Path) -> None:
    """Compiled code beside the sources of a released revision would run unseen."""
    run = tmp_path / good_run.name
    shutil.copytree(good_run, run)
    (archive,) = (run / "analysis").glob("*.zip")
    with zipfile.ZipFile(archive, "a") as target:
        target.writestr("analysis/__pycache__/decide.cpython-311.pyc", b"x")
    with pytest.raises(BundleError, match="is no Python source"):
        archived_revisions(Bundle(run))


def test_foreign_code_is_not_run(good_run: Path, tmp_path: Path) -> None:
    """A bundle whose card pins code that benchcard never released is refused by name, unless the user says so."""
    run = tmp_path / good_run.name
    shutil.copytree(good_run, run)
    other_analysis(run)
    (foreign,) = archived_revisions(Bundle(run))
    edit_json(run / "card.resolved.json", lambda card: card["analysis"].update(revision=foreign))
    for command in ("audit", "report"):
        result = benchcard(command, run, code=2)
        assert foreign in result.stderr
        assert "--run-bundled-code" in result.stderr
    # Told to, the audit runs it, and names what does not fit: the card and the verdict name the revision that was
    # pinned.
    found = json.loads(benchcard("audit", run, "--run-bundled-code", "--json", code=20).stdout)
    assert {check["name"] for check in found["checks"] if not check["passed"]} >= {"card", "manifest", "revision"}

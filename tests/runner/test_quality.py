"""Quality gates on the embedded engine, from the card to the verdict, the audit, and a run that was killed in them."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from benchcard.analysis.gate_kinds import ITEM_COLUMNS
from benchcard.runner.bundle import Bundle, write_manifest
from benchcard.runner.engines.simulated.tokens import encode, output_seed, output_token
from benchcard.runner.quality.table import COLUMNS

from .cards import benchcard, engines_of, kill, only_run, start_benchcard, wait_gone
from .quality_card import GREEDY, LENGTH, TASK, gates_card, items_file
from .test_audit import edit_log, findings
from .test_resume import lines_of


def engine_answers(n: int) -> list[str]:
    """The last of four words that the engine writes after each prompt of `items_file`."""
    return [f"w{output_token(output_seed(encode([7000 + k, 5, 6])), 3)}" for k in range(n)]


def run_card(folder: Path, *gates: str, **changes: str) -> Path:
    benchcard("run", gates_card(folder, *gates, **changes), "--out", folder / "runs")
    return only_run(folder / "runs")


def gates_of(run: Path) -> dict[str, dict]:
    return {row["risk"]: row for row in json.loads((run / "verdict.json").read_text())["gates"]}


@pytest.fixture(scope="module")
def gated_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose arms write the same: two kinds of gate from the workload's prompts, one from a file in which the
    engine's own words answer 30 of 40 items."""
    folder = tmp_path_factory.mktemp("gated")
    items_file(folder, [*engine_answers(40)[:30], *["w1"] * 10])
    return run_card(folder, GREEDY, LENGTH, TASK, restart="each_arm_in_block")


def test_equal_outputs_pass(gated_run: Path) -> None:
    found = gates_of(gated_run)
    assert [row["word"] for row in found.values()] == ["pass", "pass", "pass"]
    greedy, length, task = found.values()
    # 1 − .05^(1/60) and 1 − .05^(1/40): nothing differs
    assert (greedy["observed"], greedy["n"]) == (0, 60)
    assert greedy["bound"] == pytest.approx(0.048703, abs=1e-6)
    assert greedy["divergence"]["candidate"] == {"items": 60, "diverged": 0, "quartiles": None}
    assert (length["observed"], length["bound"], length["n"]) == (0, 0, 40)
    assert length["alarm"] == "80 of 80 replies ended at the length that was asked for: longer ones could not show"
    assert (task["observed"], task["n"]) == (0, 40)
    assert task["bound"] == pytest.approx(-0.072158, abs=1e-6)
    rows = pl.read_parquet(gated_run / "quality" / "task_metric.parquet")
    assert rows.group_by("arm").agg(pl.col("correct").sum()).sort("arm").rows() == [("baseline", 30), ("candidate", 30)]


def test_the_tables(gated_run: Path) -> None:
    """One row an item, arm and repeat; token ids were compared; the cache was met by the candidate alone; no text."""
    rows = pl.read_parquet(gated_run / "quality" / "greedy_divergence.parquet")
    assert dict(rows.schema) == {name: getattr(pl, kind) for name, kind in COLUMNS.items()}
    assert {name: rows.schema[name] for name in ITEM_COLUMNS} == ITEM_COLUMNS
    assert rows.group_by("arm").len().sort("arm").rows() == [("baseline", 60), ("baseline_aa", 60), ("candidate", 60)]
    assert rows["compared_by"].unique().to_list() == ["token_ids"]
    assert rows["tokens"].unique().to_list() == [24]
    cached = dict(rows.group_by("arm").agg(pl.col("cached_tokens").sum()).iter_rows())
    assert (cached["baseline"], cached["baseline_aa"]) == (0, 0)
    assert cached["candidate"] > 60 * 16
    assert rows.filter(pl.col("arm") == "baseline")["output_digest"].n_unique() == 60
    texts = b"".join(path.read_bytes() for path in gated_run.rglob("*") if path.suffix in (".parquet", ".jsonl"))
    assert engine_answers(1)[0].encode() not in texts
    assert not list(gated_run.parent.glob(".*"))


def test_no_prompt_of_a_gate_was_timed(gated_run: Path) -> None:
    timed = set(pl.read_parquet(gated_run / "plan" / "requests.parquet")["prompt_digest"])
    for name in ("greedy_divergence", "mean_output_tokens"):
        assert not timed & set(pl.read_parquet(gated_run / "quality" / f"{name}.parquet")["prompt_digest"])


def test_the_log(gated_run: Path) -> None:
    lines = lines_of(gated_run)
    kinds = [line["kind"] for line in lines]
    last_cell = max(at for at, kind in enumerate(kinds) if kind == "cell_ended")
    asked = [
        (line["kind"], line["arm"]) for line in lines[last_cell:] if "quality_" in line["kind"][:8] and "arm" in line
    ]
    arms = ("baseline", "candidate", "baseline_aa")
    assert asked == [(f"quality_{what}", arm) for arm in arms for what in ("started", "ended")]
    started = [line["arm"] for line in lines[last_cell:] if line["kind"] == "server_started"]
    assert started == ["baseline", "candidate", "baseline"]
    ended = next(line for line in lines if line["kind"] == "quality_ended")
    assert (ended["answered"], ended["failed"], ended["unsent"]) == (140, {}, 0)
    assert kinds[-1] == "run_ended"


def test_the_audit_passes(gated_run: Path) -> None:
    assert benchcard("audit", gated_run).stdout.splitlines()[-1] == "nothing failed"


def table(run: Path, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    path = run / "quality" / "greedy_divergence.parquet"
    change(pl.read_parquet(path)).write_parquet(path)


def without_gates(run: Path) -> None:
    shutil.rmtree(run / "quality")
    edit_log(run, lambda lines: [line for line in lines if "quality" not in line["kind"]], rechain=True)


def no_divergence(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.lit(3, pl.Int32).alias("diverged_at"))


@pytest.mark.parametrize(
    ("change", "expected", "said"),
    [
        (lambda run: table(run, no_divergence), {"quality", "verdict"}, "not the table that was written"),
        (lambda run: (run / "quality" / "task_metric.parquet").unlink(), {"quality", "verdict"}, "missing, though"),
        (without_gates, {"quality", "verdict"}, "its quality gates were not run"),
        (lambda run: (run / "quality" / "more.parquet").write_bytes(b"PAR1"), {"quality"}, "knows of no such table"),
    ],
    ids=["a token", "a table", "the gates", "a table more"],
)
def test_changes_are_named(
    gated_run: Path, tmp_path: Path, change: Callable[[Path], None], expected: set[str], said: str
) -> None:
    run = tmp_path / gated_run.name
    shutil.copytree(gated_run, run)
    change(run)
    write_manifest(Bundle(run))
    found = findings(run)
    assert set(found) == expected
    assert said in "\n".join(found["quality"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (pl.col("prompt_digest").str.replace("^.", "g"), "is another prompt than card and seed give"),
        (pl.col("item") + "x", "which is not planned"),
        (pl.col("arm").str.replace("baseline_aa", "other"), "which this gate does not ask"),
    ],
    ids=["a prompt", "an item", "an arm"],
)
def test_prompts_that_were_not_planned_are_named(gated_run: Path, tmp_path: Path, change: pl.Expr, said: str) -> None:
    """Even where the digest in the log was made to fit."""
    from benchcard.schema.digest import digest_file

    run = tmp_path / gated_run.name
    shutil.copytree(gated_run, run)
    table(run, lambda frame: frame.with_columns(change))
    name = "quality/greedy_divergence.parquet"

    def fit(lines: list[dict]) -> list[dict]:
        next(line for line in lines if line["kind"] == "quality_compared")["files"][name] = digest_file(run / name)
        return lines

    edit_log(run, fit, rechain=True)
    write_manifest(Bundle(run))
    assert said in "\n".join(findings(run)["quality"])


def test_outputs_cut_short_fail_the_length_gate(tmp_path: Path) -> None:
    run = run_card(tmp_path, LENGTH, candidate=', misbehave: "cut=0.5"')
    (row,) = gates_of(run).values()
    assert (row["word"], row["observed"]) == ("fail", -0.5)
    verdict = json.loads((run / "verdict.json").read_text())
    assert verdict["verdict"] == "falsified"
    assert "gate_failed" in {reason["code"] for reason in verdict["because"]}
    reasons = (
        pl.read_parquet(run / "quality" / "mean_output_tokens.parquet")
        .group_by("arm")
        .agg(pl.col("finish_reason").unique())
    )
    assert dict(reasons.iter_rows()) == {"baseline": ["length"], "candidate": ["stop"]}


def test_other_tokens_fail_the_greedy_gate(tmp_path: Path) -> None:
    """A third of all prompts get other outputs in the candidate; none do in A/A. A server that is never restarted."""
    run = run_card(tmp_path, GREEDY, candidate=', misbehave: "alter=0.3"')
    (row,) = gates_of(run).values()
    assert row["word"] == "fail"
    assert 0.1 < row["observed"] < 0.5
    assert row["divergence"]["candidate"]["quartiles"] == [0, 0, 0]
    assert row["divergence"]["baseline_aa"]["diverged"] == 0


def test_a_cache_that_was_not_met_establishes_nothing(tmp_path: Path) -> None:
    """Both arms without a cache (they differ in a limit): the server reports cached tokens, and they are none."""
    run = run_card(tmp_path, GREEDY, caching="false", candidate=", max-num-batched-tokens: 1024")
    (row,) = gates_of(run).values()
    assert row["word"] == "not established"
    assert row["reason"] == "not exercised: no prompt token came from a prefix cache in any arm"
    assert json.loads((run / "verdict.json").read_text())["verdict"] != "supported"


def test_failures_are_answers_that_are_wrong(tmp_path: Path) -> None:
    """Every fourth request of the candidate gets HTTP 500: it stays in the denominator."""
    items_file(tmp_path, engine_answers(40))
    run = run_card(tmp_path, TASK, candidate=', misbehave: "error_every=4"')
    (row,) = gates_of(run).values()
    assert (row["word"], row["n"]) == ("fail", 40)
    assert row["observed"] == pytest.approx(-0.25, abs=0.03)
    rows = pl.read_parquet(run / "quality" / "task_metric.parquet").filter(pl.col("arm") == "candidate")
    assert set(rows["outcome"]) == {"ok", "http_error 500"}
    assert rows.filter(pl.col("outcome") != "ok")["answered"].any() is False


def wait_for(out: Path, kind: str, arm: str) -> Path:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        runs = list(out.glob("*/[!.]*"))
        if runs and any(line["kind"] == kind and line.get("arm") == arm for line in lines_of(runs[0])):
            return runs[0]
        time.sleep(0.02)
    raise AssertionError(f"no {kind} of {arm}")


SLOW = GREEDY.replace("output_tokens: 24", "output_tokens: 2000, concurrency: 2")


def test_a_run_killed_in_a_gate_goes_on_with_it(tmp_path: Path) -> None:
    """What had ended is kept; the pass that was under way is made again from its start."""
    out = tmp_path / "runs"
    process = start_benchcard("run", gates_card(tmp_path, SLOW), "--out", out)
    run = wait_for(out, "quality_started", "candidate")
    time.sleep(0.2)
    kill(process, signal.SIGKILL)
    assert wait_gone(run) == []
    assert Bundle(run).unfinished.joinpath("quality-baseline.json").exists()
    benchcard("run", "--resume", run)
    passes = [
        (line["kind"], line["arm"]) for line in lines_of(run) if line["kind"] in ("quality_started", "quality_ended")
    ]
    assert passes == [
        ("quality_started", "baseline"), ("quality_ended", "baseline"), ("quality_started", "candidate"),
        ("quality_started", "candidate"), ("quality_ended", "candidate"),
        ("quality_started", "baseline_aa"), ("quality_ended", "baseline_aa"),
    ]  # fmt: skip
    assert gates_of(run)["cache_reuse"]["word"] == "pass"
    assert benchcard("audit", run).stdout.splitlines()[-1] == "nothing failed"


def test_ctrl_c_in_a_gate_is_resumable(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    process = start_benchcard("run", gates_card(tmp_path, SLOW), "--out", out)
    run = wait_for(out, "quality_started", "baseline")
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"benchcard run --resume {run}" in err
    assert "Traceback" not in err
    assert engines_of(run) == []
    assert [line["kind"] for line in lines_of(run)][-1] != "run_ended"


def test_what_plan_says(tmp_path: Path) -> None:
    items_file(tmp_path, ["w1"] * 40)
    text = benchcard("plan", gates_card(tmp_path, GREEDY, LENGTH, TASK)).stdout
    assert (
        "Quality gates, after the last block:\n"
        "  greedy_divergence (cache_reuse): 60 prompts made as the workload's, 8 at a time, 24 output tokens, each "
        "sent once before for the prefix cache; asked: baseline, candidate, baseline_aa\n"
        "  mean_output_tokens (output_length): 40 prompts made as the workload's, 8 at a time, 20 output tokens; "
        "asked: baseline, candidate\n"
        "  task_metric (answers): 40 prompts of items.jsonl, 8 at a time, 256 output tokens; asked: baseline, "
        "candidate\n"
        # 7 gates asked: 20 s and a timeout of 20 s each
        "  at the worst 4 min 40 s together (`within` of each gate in each pass); server starts come on top\n"
    ) in text


def test_the_gates_count_in_the_budget(tmp_path: Path) -> None:
    card = gates_card(tmp_path, GREEDY.replace("within: 20 s", "within: 5 min"))
    err = benchcard("plan", card, code=2).stderr
    assert "(spare blocks, quality gates and worst-case drains included" in err


def test_prompts_not_asked_in_time_leave_the_gate_open(tmp_path: Path) -> None:
    slow = LENGTH.replace("output_tokens: 20, within: 20 s", "output_tokens: 1500, concurrency: 1, within: 1 s")
    run = run_card(tmp_path, slow)
    (row,) = gates_of(run).values()
    assert row["word"] == "not run"
    ended = [line for line in lines_of(run) if line["kind"] == "quality_ended"]
    assert all(line["unsent"] > 0 for line in ended)
    assert benchcard("audit", run).stdout.splitlines()[-1] == "nothing failed"


def test_the_ready_card_fits_its_budget() -> None:
    card = Path(__file__).parents[2] / "cards" / "quality-gates.yaml"
    text = benchcard("plan", card).stdout
    assert "  greedy_divergence (cache_reuse): 300 prompts made as the workload's, 8 at a time, 48 output" in text
    # three passes of 2 min and two of 1 min, each with a timeout of 5 s
    assert "  at the worst 8 min 25 s together" in text

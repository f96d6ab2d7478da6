"""Bundles that are missing, broken or foreign: one line that says what and where, exit code 2, never a traceback."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from benchcard.analysis.__main__ import main
from benchcard.analysis.curves import CURVE_POINTS, thin
from benchcard.analysis.output import plain, text

from .bundles import ab_card, build, process


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return build(tmp_path / "run", ab_card(method__blocks=1, method__spare_blocks=0))


def edited(path: Path, change: Callable[[Any], None]) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def refusal(bundle: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["verdict", str(bundle)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert not (bundle / "verdict.json").exists()
    return line.removeprefix("error: ").replace(f"{bundle}/", "")


def test_no_such_directory(tmp_path: Path) -> None:
    done = process("verdict", str(tmp_path / "nowhere"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: {tmp_path / 'nowhere'}: no such directory; "
        "wanted a run directory (with card.resolved.json and plan.json)\n"
    )


@pytest.mark.parametrize("name", ["card.resolved.json", "plan.json"])
def test_a_missing_file(bundle: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (bundle / name).unlink()
    assert refusal(bundle, capsys) == f"{name}: missing; wanted a run directory of benchcard"


def set_at(*path: str | int, value: Any) -> Callable[[Any], None]:
    def change(record: Any) -> None:
        for key in path[:-1]:
            record = record[key]
        if value is None:
            del record[path[-1]]
        else:
            record[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_at("card", value=2), "format version 2 (card); this analysis reads version 1"),
        (set_at("kind", value="abc"), "kind is 'abc'; wanted ab or baseline"),
        (set_at("method", "blocks", value=None), "method.blocks is missing"),
        (set_at("validity", "client_cpu", value="85%"), "validity.client_cpu is '85%'; wanted int or float"),
        (set_at("claim", "direction", value="must_soar"), "claim: direction is 'must_soar'; wanted must_rise_by or"),
        (set_at("claim", "at", value=[99.0]), "claim: at names load 99.0; the workload has 10.0, 20.0"),
        (set_at("claim", "at", value=[]), "claim.at is empty; wanted at least one load"),
        (set_at("claim", "threshold", "scale", value="%"), "claim: threshold: scale is '%'; wanted relative or points"),
        (set_at("claim", "threshold", "value", value=-0.1), "claim: threshold.value is -0.1; wanted at least 0"),
        (set_at("guards", 0, "margin", "value", value=-1), "guards[0]: margin.value is -1; wanted at least 0"),
        (set_at("analysis", "confidence", value=95), "analysis.confidence is 95; wanted between 0 and 1"),
        (set_at("analysis", "attainment", value=99), "analysis.attainment is 99; wanted between 0 and 1"),
        (set_at("claim", "metric", value="vibes"), "no formula for metric 'vibes'"),
        (set_at("guards", 0, "at", value=[3.0]), "guards[0]: at names load 3.0"),
        (set_at("evidence", 0, "arm", value="both"), "evidence[0]: arm is 'both'; wanted baseline or candidate"),
        (set_at("arms", "candidate", value=None), "arms are baseline; wanted baseline (and candidate"),
    ],
)
def test_a_card_that_cannot_be_judged(
    bundle: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Any], None], message: str
) -> None:
    edited(bundle / "card.resolved.json", change)
    line = refusal(bundle, capsys)
    assert line.startswith(("card.resolved.json: ", "plan.json: cell"))
    assert message in line


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_at("plan_version", value=9), "format version 9 (plan_version); this analysis reads version 1"),
        (set_at("card_id", value="other"), "the plan is of card 'other', but card.resolved.json is 'synthetic-ab'"),
        (set_at("seed", value=None), "seed is missing"),
        (set_at("cells", 0, "load", value=5.0), "cell b01-candidate-l2 is at load point 2 (5), not the card's"),
        (set_at("blocks", 0, "cells", value=["b9"]), "block 1 names cell 'b9', which cells does not have"),
    ],
)
def test_a_plan_that_does_not_fit(
    bundle: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Any], None], message: str
) -> None:
    edited(bundle / "plan.json", change)
    assert refusal(bundle, capsys) == f"plan.json: {message}"


def test_broken_json(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (bundle / "plan.json").write_text("{")
    assert refusal(bundle, capsys).startswith("plan.json: not readable as JSON: ")


def test_broken_log(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = bundle / "attempts.jsonl"
    log.write_text("{\n" + log.read_text())
    assert refusal(bundle, capsys) == "attempts.jsonl:1: not a line of JSON"
    log.write_text("")
    assert refusal(bundle, capsys) == "attempts.jsonl: no run_started line; this run never began"


def test_broken_events(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = bundle / "events" / "b01-baseline-l1.parquet"
    whole = pl.read_parquet(path)
    whole.drop("scheduled").write_parquet(path)
    assert refusal(bundle, capsys) == "events/b01-baseline-l1.parquet: column 'scheduled' is missing"
    whole.with_columns(pl.col("scheduled").cast(pl.String)).write_parquet(path)
    assert refusal(bundle, capsys).endswith("column 'scheduled' is String; wanted Int64")
    path.write_bytes(path.read_bytes()[:500])
    assert refusal(bundle, capsys).startswith("events/b01-baseline-l1.parquet: not readable as Parquet: ")


def test_a_bug_is_one_line_too(
    bundle: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchcard.analysis.read.read_bundle", lambda root: 1 / 0)
    assert main(["verdict", str(bundle)]) == 4
    assert capsys.readouterr().err == "bug in the analysis: ZeroDivisionError: division by zero\n"


def test_events_from_before_texts_were_counted_again(bundle: Path) -> None:
    """A column that came later is null in an older run's events; nothing else of its verdict changes."""
    before = main(["verdict", str(bundle)]), (bundle / "verdict.json").read_text()
    for path in (bundle / "events").glob("*.parquet"):
        pl.read_parquet(path).drop("chunk_tokens_retokenized").write_parquet(path)
    assert (main(["verdict", str(bundle)]), (bundle / "verdict.json").read_text()) == before
    assert "no tokenizer declared" in before[1]


def test_numbers_are_plain_and_finite() -> None:
    import numpy as np

    assert text({"a": np.float64(0.1) + 0.2, "b": (1, None, True), "c": -0.0}) == (
        '{\n "a": 0.3,\n "b": [\n  1,\n  null,\n  true\n ],\n "c": 0.0\n}\n'
    )
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="where a number or null belongs"):
            plain({"x": [bad]})


def test_a_long_sample_is_thinned_without_moving_its_shares() -> None:
    import numpy as np

    short = thin(np.arange(10.0))
    assert (short.values.tolist(), short.weights.sum()) == (list(range(10)), 10)
    n = 1_000_003
    long = thin(np.arange(float(n)))
    assert (len(long.values), long.weights.sum(), long.values[-1]) == (CURVE_POINTS, n, n - 1)
    below = np.cumsum(long.weights)
    assert np.array_equal(below, long.values + 1)  # each point stands exactly where it stood in the whole sample

"""Ceilings, plain differences, and what the reader does next."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from benchcard.analysis import wording
from benchcard.reports.render import render
from jsonschema import Draft202012Validator

from .bundles import MS, Cell, Row, ab_card, analyse, build
from .test_verdict import all_fail, effect_at, gain

SCHEMA = json.loads((Path(__file__).parents[2] / "schema" / "verdict.schema.json").read_text())


def test_both_arms_met_every_objective(tmp_path: Path) -> None:
    verdict = analyse(build(tmp_path))
    assert verdict["verdict"] == "falsified"
    assert {"code": "ceiling", "text": "at 20 req/s both arms met every objective: no gain was possible"} in (
        verdict["because"]
    )
    assert verdict["sentence"].endswith("At 20 req/s both arms met every objective: no gain was possible.")
    assert verdict["next"]["action"] == "keep"
    assert effect_at(verdict, 20.0)["ceiling"]["possible"] == 0


def test_the_room_that_the_baseline_left(tmp_path: Path) -> None:
    """98 of 100 met: 100 / 98 − 1 = 2.0408%, rounded up to 2.05%."""
    verdict = analyse(build(tmp_path, good=lambda block, arm, point: 0.98 if arm == "baseline" else 1.0))
    text = "the baseline met at least 98.0% of its requests in every block: a rise of more than 2.05% was not possible"
    assert effect_at(verdict, 20.0)["ceiling"]["text"] == text
    assert effect_at(verdict, 20.0)["ceiling"]["possible"] == pytest.approx(0.0204082, abs=1e-7)
    assert effect_at(verdict, 10.0)["ceiling"] is None


def test_no_ceiling_where_there_was_room(tmp_path: Path) -> None:
    assert effect_at(analyse(build(tmp_path, good=gain(1.0, 1.34))), 20.0)["ceiling"] is None


def test_an_open_question_names_a_new_card_its_blocks_and_its_hours(tmp_path: Path) -> None:
    bundle = build(tmp_path, good=gain(1.0, 1.06, noise=0.03))
    _times(bundle, timedelta(minutes=10))
    step = analyse(bundle)["next"]
    assert (step["action"], step["block_seconds"]) == ("extend", 2400.0)
    assert step["blocks_needed"] == step["extra_blocks"] + 8 == 140
    assert step["extra_seconds"] == 140 * 2400.0
    assert step["text"] == (
        "The question stays open. A new card with 140 blocks (132 more than here, about 4 days) would find each "
        "undecided part 8 times in 10, if the true effect is the one seen and the spread stays (goodput at 20 req/s: "
        "140 to support). Do not add blocks to this run: their number was fixed before its data existed. The blocks "
        "stand on a new card, fixed beforehand."
    )


def _times(bundle: Path, apart: timedelta) -> None:
    """Each line of the log `apart` from the last: a block of four cells takes four of it."""
    path, start = bundle / "attempts.jsonl", datetime(2026, 1, 1, tzinfo=UTC)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines = [line | {"time": (start + i * apart).isoformat()} for i, line in enumerate(lines)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(("value", "up", "down"), [(2.0408, "2.05", "2.04"), (98.0, "98.0", "98.0"), (0.0, "0", "0")])
def test_bounds_are_rounded_outward(value: float, up: str, down: str) -> None:
    assert (wording.up(value), wording.down(value)) == (up, down)


def eight_a_second(cell: Cell, events: list[Row]) -> list[Row]:
    """Of 800 attempts: 30 fail at once, the next 110 miss TTFT (10 of them an ITL too), the next 40 an ITL, the others
    are good."""
    counted = [row for row in events if row["phase"] == "measure"]
    assert len(counted) == 800
    for n, row in enumerate(counted):
        times = list(row["chunk_times"])
        if n < 30:
            gone = ("first_token", "first_answer_token", "last_token", "output_tokens", "finish_reason")
            lists = ("chunk_times", "chunk_tokens", "chunk_kinds", "chunk_bytes")
            row |= dict.fromkeys(gone) | {name: [] for name in lists}
            row |= {"outcome": "stream_error", "end": row["scheduled"] + MS}
            continue
        if n < 140:
            times = [time + 800 * MS for time in times]
        if 130 <= n < 180:
            times[-1] += 500 * MS
        row |= {"chunk_times": times, "first_token": times[0], "first_answer_token": times[0]}
        row |= {"last_token": times[-1], "end": times[-1]}
    return events


def test_the_seeds_example_from_raw_events(tmp_path: Path) -> None:
    """8 req/s offered, goodput 6.2; per second 1.1 missed TTFT, .4 an ITL, .3 errored."""
    window = {"warmup": {"seconds": 0.5}, "measure": {"seconds": 100.0}, "drain": 2.0}
    claim = ab_card()["claim"] | {"at": [8.0]}
    card = ab_card(
        workload__loads=[8.0], workload__window=window, claim=claim, guards=[], method__blocks=1,
        method__spare_blocks=0,
    )  # fmt: skip
    bundle = build(tmp_path, card, rows=eight_a_second)
    row = analyse(bundle)["attribution"][0]
    assert (row["attempted"], row["good"], row["window_s"]) == (800, 620, 100.0)
    assert row["first_cause"] == {"success": 30, "ttft": 110, "itl": 40, "output": 0}
    assert row["missed"] == {"success": 30, "ttft": 110, "itl": 50, "output": 0}
    rates = row["per_second"]
    assert (rates["attempted"], rates["good"]) == (8.0, 6.2)
    assert rates["first_cause"] == {"success": 0.3, "ttft": 1.1, "itl": 0.4, "output": 0.0}
    report, _ = render(bundle)
    text = report.read_text()
    assert "| 8 req/s | baseline | 8.00 | 6.20 | 0.30 | 1.10 | 0.40 | 0.00 |" in text
    assert "| 8 req/s | baseline | 100 s | 800 | 620 | 30 | 110 | 50 | 0 |" in text


@pytest.mark.parametrize("name", ["nothing good", "one zero", "all fail", "one block", "no blocks"])
def test_a_defined_answer_and_a_report_whatever_is_missing(name: str, tmp_path: Path) -> None:
    few = ab_card(method__blocks=1, method__spare_blocks=0)
    bundle = {
        "nothing good": lambda: build(tmp_path, good=lambda block, arm, point: 0.0),
        "one zero": lambda: build(tmp_path, good=lambda block, arm, point: 0.0 if block == 4 else 0.5),
        "all fail": lambda: build(tmp_path, rows=lambda cell, r: all_fail(cell, r) if cell.arm == "candidate" else r),
        "one block": lambda: build(tmp_path, few, good=gain(1.0, 1.34)),
        "no blocks": lambda: build(tmp_path, skip=lambda cell: True),
    }[name]()
    verdict = analyse(bundle)
    json.dumps(verdict, allow_nan=False)
    assert [error.message for error in Draft202012Validator(SCHEMA).iter_errors(verdict)] == []
    assert verdict["next"]["text"]
    for effect in verdict["effects"]:
        assert effect["interval"] is not None or effect["reason"]
    report, _ = render(bundle)
    assert "nan" not in report.read_text().lower().split()

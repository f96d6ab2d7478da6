"""The second day, against the oracle of the methods, and as a process over two bundles."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchcard.analysis.compare import welch

from .bundles import ab_card, analyse, build, process
from .test_effect import A, B

DAY1 = np.log(np.array(B) / np.array(A)).tolist()
DAY2 = [0.082, 0.101, 0.074, 0.095, 0.069, 0.088, 0.097, 0.090]


def test_two_days_that_agree() -> None:
    found = welch(DAY1, DAY2, math.log(1.025))
    assert found.difference == pytest.approx(-0.0091959, abs=5e-8)
    assert found.df == pytest.approx(13.347, abs=5e-4)
    assert (found.lower, found.upper) == pytest.approx((-0.0204749, 0.0020832), abs=5e-8)
    assert found.p == pytest.approx(0.01500, abs=5e-6)
    assert found.word == "reproduced"


def test_a_margin_inside_the_interval_is_indeterminate() -> None:
    assert welch(DAY1, DAY2, math.log(1.02)).word == "indeterminate"


def test_the_least_interval_that_two_days_can_have() -> None:
    """Two days of 8 blocks with a spread of 3%: the interval is ±.0264, whatever the days say."""
    day = np.array([1, -1] * 4) * 0.03 * math.sqrt(7 / 8)
    found = welch(day.tolist(), day.tolist(), 0.1)
    assert (found.upper, found.lower) == pytest.approx((0.0264, -0.0264), abs=5e-5)


def test_an_interval_wholly_outside_is_a_conflict() -> None:
    assert welch(DAY1, [d + 0.2 for d in DAY2], math.log(1.02)).word == "conflict"


def test_days_without_any_spread() -> None:
    found = welch([0.1] * 8, [0.11] * 8, 0.02)
    assert (found.word, found.df, found.lower) == ("reproduced", None, pytest.approx(0.01))


def wavering(gain: float) -> Any:
    def good(block: int, arm: str, point: int) -> float:
        base = 0.5 + (block * 5 % 7 - 3) / 100
        return base if arm == "baseline" else base * gain + (block * 3 % 5 - 2) / 100

    return good


def days(tmp_path: Path, gains: tuple[float, float], seeds: tuple[int, int] = (1, 2), **changes: Any) -> Any:
    runs = []
    for number, (gain, seed) in enumerate(zip(gains, seeds, strict=True), start=1):
        run = build(tmp_path / f"day{number}", ab_card(**changes), good=wavering(gain), seed=seed, run=f"run{number}")
        analyse(run)
        runs.append(str(run))
    return runs


def compared(tmp_path: Path, runs: list[str]) -> dict[str, Any]:
    done = process("compare", *runs, "--out", str(tmp_path / "reproduction.json"))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((tmp_path / "reproduction.json").read_text())
    return found


def test_the_process_says_reproduced(tmp_path: Path) -> None:
    found = compared(tmp_path, days(tmp_path, (1.34, 1.33)))
    assert found["word"] == "reproduced"
    assert [found[day]["verdict"] for day in ("day1", "day2")] == ["supported", "supported"]
    assert [found[day]["seed"] for day in ("day1", "day2")] == [1, 2]
    (load,) = found["loads"]
    assert (load["load"], load["margin"]) == (20.0, pytest.approx(math.log(1.1)))


def start(run: str, time: str) -> None:
    """Give the run's first log line a time."""
    log = Path(run, "attempts.jsonl")
    first, rest = log.read_text().split("\n", 1)
    log.write_text(json.dumps(json.loads(first) | {"time": time}) + "\n" + rest)


def test_two_runs_within_an_hour_are_not_two_days(tmp_path: Path) -> None:
    runs = days(tmp_path, (1.34, 1.33))
    # the fixture's log has no times: nothing is said
    found = compared(tmp_path, runs)
    assert (found["day1"]["started"], [row["code"] for row in found["because"]]) == (None, ["load_reproduced"])
    for run, time in zip(runs, ("2026-01-01T23:59:30.5+00:00", "2026-01-02T00:00:26.4+00:00"), strict=True):
        start(run, time)
    found = compared(tmp_path, runs)
    assert found["day2"]["started"] == "2026-01-02T00:00:26.4+00:00"
    assert found["because"][-1] == {
        "code": "same_day",
        "text": "the two runs started 56 s apart: this repeats the run, it does not sample another day",
    }
    start(runs[1], "2026-01-02T23:00:00Z")
    assert compared(tmp_path, runs)["because"][-1]["text"] == "the two runs started 23 h apart"


def test_contradicting_verdicts_are_a_conflict(tmp_path: Path) -> None:
    found = compared(tmp_path, days(tmp_path, (1.34, 0.9)))
    assert found["word"] == "conflict"
    assert found["because"][0]["text"] == "the verdicts contradict: supported on day 1, falsified on day 2"


def test_the_same_requests_are_no_second_day(tmp_path: Path) -> None:
    found = compared(tmp_path, days(tmp_path, (1.34, 1.33), seeds=(1, 1)))
    assert (found["word"], found["because"][0]["code"]) == ("indeterminate", "same_seed")


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    (run, other) = days(tmp_path, (1.34, 1.33))
    out = str(tmp_path / "out.json")
    for runs, message in (((run, run), "the same run twice"), ((run, str(tmp_path)), "missing or not JSON")):
        done = process("compare", *runs, "--out", out)
        assert done.returncode == 2
        assert message in done.stderr
    verdict = Path(other, "verdict.json")
    verdict.write_text(verdict.read_text().replace("sha256:" + "c" * 64, "sha256:" + "e" * 64))
    assert "different cards" in process("compare", run, other, "--out", out).stderr

"""Quality gates, from constructed tables of items to the verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from benchcard.analysis.gate_kinds import ITEM_COLUMNS
from benchcard.reports.render import render

from .bundles import Row, ab_card, analyse, build, process
from .test_verdict import codes, gain

GREEDY = {"risk": "cache_reuse", "gate": "greedy_divergence", "prompts": 500, "before_token": 32}
GREEDY |= {"excess_over_aa_at_most": 0.01}
TASK = {"risk": "precision", "gate": "task_metric", "may_fall_by": 0.02}
LENGTH = {"risk": "output_length", "gate": "mean_output_tokens", "equivalent_within": 0.02}
GRAMMAR = {"risk": "grammar", "gate": "conformance", "nonconforming_at_most": 0}


def item(name: int, arm: str, risk: str, **values: Any) -> Row:
    return {"risk": risk, "item": f"i{name}", "arm": arm, "repeat": 1, "answered": True} | values


def greedy(b: int, c: int, n: int = 500, both: int = 0) -> list[Row]:
    """b items diverge at token 5 in the candidate only, c in A/A only, `both` in both; the others at 32 or never."""
    rows = []
    for i in range(n):
        late = None if i % 2 else 32
        ab = 5 if i < b + both else late
        aa = 5 if b <= i < b + both + c else late
        rows += [
            item(i, "candidate", "cache_reuse", diverged_at=ab),
            item(i, "baseline_aa", "cache_reuse", diverged_at=aa),
        ]
    return rows


def task(lost: int, won: int, n: int) -> list[Row]:
    rows = []
    for i in range(n):
        before = i < lost or (i >= lost + won and i % 3 == 0)
        after = not before if i < lost + won else before
        rows += [
            item(i, arm, "precision", correct=right) for arm, right in (("baseline", before), ("candidate", after))
        ]
    return rows


def lengths(factor: float, n: int = 200) -> list[Row]:
    rows = []
    for i in range(n):
        base = 80 + i * 37 % 41
        rows.append(item(i, "baseline", "output_length", tokens=base))
        rows.append(item(i, "candidate", "output_length", tokens=round(base * factor) + (i % 5 - 2)))
    return rows


def judged(tmp_path: Path, gates: list[Row], **tables: list[Row] | None) -> Row:
    run = build(tmp_path, ab_card(quality=gates), good=gain(1.0, 1.34))
    (run / "quality").mkdir()
    for gate, rows in tables.items():
        if rows is not None:
            full = [{name: row.get(name) for name in ITEM_COLUMNS} for row in rows]
            pl.DataFrame(full, schema=ITEM_COLUMNS).write_parquet(run / "quality" / f"{gate}.parquet")
    return analyse(run)


def test_a_card_without_gates_has_none_in_its_verdict(tmp_path: Path) -> None:
    assert "gates" not in analyse(build(tmp_path, good=gain(1.0, 1.34)))


def test_greedy_outputs_that_diverge_no_more_than_in_aa(tmp_path: Path) -> None:
    verdict = judged(tmp_path, [GREEDY], greedy_divergence=greedy(0, 0, both=40))
    assert verdict["verdict"] == "supported"
    assert verdict["next"]["text"].startswith(
        "The claim held and every guard held, and every quality gate passed: the candidate can ship under"
    )
    assert verdict["gates"] == [
        {
            "risk": "cache_reuse",
            "gate": "greedy_divergence",
            "word": "pass",
            "unit": "points",
            "observed": 0.0,
            "bound": pytest.approx(1 - 0.05 ** (1 / 500)),
            "limit": 0.01,
            "n": 500,
            "reason": None,
            "alarm": None,
            # 40 at token 5, every other one of the remaining 460 at token 32
            "divergence": {
                "candidate": {"items": 500, "diverged": 270, "quartiles": [32, 32, 32]},
                "baseline_aa": {"items": 500, "diverged": 270, "quartiles": [32, 32, 32]},
            },
            "text": "gate greedy_divergence (cache_reuse): greedy outputs diverge early in at most 1 pt more items "
            "than in A/A; 40 of 500 items diverge before token 32 (A/A: 40); the difference is 0 pt, its bound 0.597 pt",  # noqa: E501
        }
    ]
    assert "gate_passed" in codes(verdict)


def test_greedy_divergence_that_is_not_established(tmp_path: Path) -> None:
    verdict = judged(tmp_path, [GREEDY], greedy_divergence=greedy(9, 5))
    (row,) = verdict["gates"]
    assert (row["word"], row["bound"]) == ("not established", pytest.approx(0.020645, abs=5e-7))
    assert (verdict["verdict"], codes(verdict)[0]) == ("inconclusive", "gate_not_established")


def test_outputs_that_are_not_equivalent_falsify_by_name(tmp_path: Path) -> None:
    verdict = judged(tmp_path, [GREEDY], greedy_divergence=greedy(60, 5))
    assert verdict["verdict"] == "falsified"
    # (60 − 5)/502 + z·√(66 − 55²/502)/502 = .1095618 + .0253734
    text = (
        "the outputs are not equivalent: gate greedy_divergence (cache_reuse): greedy outputs diverge early in at most "
        "1 pt more items than in A/A; 60 of 500 items diverge before token 32 (A/A: 5); the difference is 11 pt, its "
        "bound 13.494 pt"
    )
    assert verdict["because"][0] == {"code": "gate_failed", "text": text}
    assert f" T{text[1:]}." in verdict["sentence"]


@pytest.mark.parametrize(("limit", "word"), [(0.01, "not established"), (0.02, "pass")])
def test_a_task_metric(tmp_path: Path, limit: float, word: str) -> None:
    verdict = judged(tmp_path, [TASK | {"may_fall_by": limit}], task_metric=task(26, 18, 1000))
    (row,) = verdict["gates"]
    assert (row["word"], row["observed"]) == (word, pytest.approx(-0.008))
    assert row["bound"] == pytest.approx(-0.01892, abs=5e-6)


def test_a_task_metric_that_falls(tmp_path: Path) -> None:
    verdict = judged(tmp_path, [TASK], task_metric=task(90, 10, 1000))
    assert verdict["verdict"] == "falsified"
    assert "90 of 1000 items lost, 10 won" in verdict["because"][0]["text"]


def test_an_item_that_got_no_answer_is_wrong(tmp_path: Path) -> None:
    rows = task(0, 0, 1000)
    dead = [
        row | ({"answered": False} if row["arm"] == "candidate" and int(row["item"][1:]) % 5 == 0 else {})
        for row in rows
    ]
    verdict = judged(tmp_path, [TASK], task_metric=dead)
    # every fifth item: of those, every third was right
    assert verdict["gates"][0]["observed"] == pytest.approx(-67 / 1000)
    assert verdict["gates"][0]["word"] == "fail"


def test_an_aa_item_that_got_no_answer_excuses_nothing(tmp_path: Path) -> None:
    rows = [row | ({"answered": False} if row["arm"] == "baseline_aa" else {}) for row in greedy(0, 0, both=40)]
    verdict = judged(tmp_path, [GREEDY], greedy_divergence=rows)
    assert verdict["gates"][0]["observed"] == pytest.approx(40 / 500)
    assert verdict["gates"][0]["word"] == "fail"


@pytest.mark.parametrize(("factor", "word"), [(1.0, "pass"), (0.99, "pass"), (0.98, "not established"), (0.9, "fail")])
def test_output_lengths(tmp_path: Path, factor: float, word: str) -> None:
    verdict = judged(tmp_path, [LENGTH], mean_output_tokens=lengths(factor))
    (row,) = verdict["gates"]
    assert (row["word"], row["n"]) == (word, 200)
    assert row["observed"] == pytest.approx(factor - 1, abs=0.002)


def test_a_distribution_that_differs_is_an_alarm_and_no_word(tmp_path: Path) -> None:
    rows = []
    for i in range(200):
        rows.append(item(i, "baseline", "output_length", tokens=100 + i % 3))
        rows.append(item(i, "candidate", "output_length", tokens=101 + (30 if i % 2 else -30)))
    verdict = judged(tmp_path, [LENGTH | {"equivalent_within": 0.05}], mean_output_tokens=rows)
    (row,) = verdict["gates"]
    assert row["word"] == "pass"
    # half of the candidate's outputs lie below every one of the baseline's: distance 1/2
    assert row["alarm"].startswith("the distributions of output tokens differ (Kolmogorov–Smirnov distance 0.500, p = ")


@pytest.mark.parametrize(("broken", "limit", "word"), [(0, 0, "pass"), (1, 0, "fail"), (3, 3, "pass"), (4, 3, "fail")])
def test_conformance_is_a_count(tmp_path: Path, broken: int, limit: int, word: str) -> None:
    rows = [item(i, "baseline", "grammar", conforms=True) for i in range(50)]
    rows += [item(i, "candidate", "grammar", conforms=i >= broken) for i in range(50)]
    verdict = judged(tmp_path, [GRAMMAR | {"nonconforming_at_most": limit}], conformance=rows)
    (row,) = verdict["gates"]
    assert (row["word"], row["observed"], row["n"]) == (word, broken, 50)
    assert verdict["verdict"] == ("supported" if word == "pass" else "falsified")
    assert f"{broken} of 50 outputs do not conform (baseline: 0)" in row["text"]


def test_a_gate_that_was_not_run_supports_nothing(tmp_path: Path) -> None:
    verdict = judged(tmp_path, [GREEDY, LENGTH], mean_output_tokens=lengths(1.0))
    first, second = verdict["gates"]
    assert (first["word"], first["reason"], first["n"]) == (
        "not run",
        "quality/greedy_divergence.parquet is missing",
        0,
    )
    assert (first["observed"], first["bound"]) == (None, None)
    assert second["word"] == "pass"
    assert (verdict["verdict"], codes(verdict)[0]) == ("inconclusive", "gate_not_run")
    assert "Whether the outputs are equivalent is unknown: gate greedy_divergence (cache_reuse)" in verdict["sentence"]


@pytest.mark.parametrize(
    ("gate", "rows", "word", "reason"),
    [
        (GREEDY, greedy(0, 0, n=480), "not run", "480 of 500 prompts were run"),
        (GREEDY, greedy(0, 0)[:-1], "not run", "baseline_aa has 499 of 500 outputs"),
        (GREEDY, greedy(0, 0)[::2], "not run", "baseline_aa has 0 of 500 outputs"),
        (GREEDY, [], "not run", "candidate has 0 of 0 outputs"),
        (TASK, task(0, 0, 12), "not established", "12 items; this gate needs 30"),
        (LENGTH, lengths(1.0, 29), "not established", "29 items; this gate needs 30"),
        (GREEDY | {"risk": "other"}, greedy(0, 0), "not run", "candidate has 0 of 0 outputs"),
    ],
)  # fmt: skip
def test_a_short_table(tmp_path: Path, gate: Row, rows: list[Row], word: str, reason: str) -> None:
    (row,) = judged(tmp_path, [gate], **{gate["gate"]: rows})["gates"]
    assert (row["word"], row["reason"]) == (word, reason)


def test_no_difference_at_all_in_few_items_establishes_little(tmp_path: Path) -> None:
    """0 of 100 lost: the rate may still be 2.95%, so a limit of 2 pt is not established."""
    (row,) = judged(tmp_path, [TASK], task_metric=task(0, 0, 100))["gates"]
    assert (row["word"], row["bound"]) == ("not established", pytest.approx(-(1 - 0.05**0.01)))


def test_repeats_are_means_of_an_item_and_not_more_items(tmp_path: Path) -> None:
    rows = [row | {"repeat": repeat} for row in task(26, 18, 1000) for repeat in (1, 2, 3)]
    (row,) = judged(tmp_path, [TASK], task_metric=rows)["gates"]
    assert (row["n"], row["bound"]) == (1000, pytest.approx(-0.01892, abs=5e-6))


def test_some_gate_fails_only_beyond_what_several_chances_allow(tmp_path: Path) -> None:
    """Alone the upper end of −2 pt lies below it at 95%; of two gates at 97.5% it does not."""
    # 60 lost, 25 won of 1,000: −.035, error .0091561; upper at 95% −.01993, at 97.5% −.01703
    rows = task(60, 25, 1000)
    limit = TASK | {"may_fall_by": 0.0185}
    (alone,) = judged(tmp_path / "one", [limit], task_metric=rows)["gates"]
    both = judged(tmp_path / "two", [limit, LENGTH], task_metric=rows, mean_output_tokens=lengths(1.0))["gates"]
    assert (alone["word"], both[0]["word"]) == ("fail", "not established")


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        ({"risk": "x", "gate": "looks_fine"}, "gate is 'looks_fine'; wanted greedy_divergence, task_metric"),
        ({"risk": "x", "gate": "task_metric"}, "quality[0]: may_fall_by is missing"),
        (GREEDY | {"excess_over_aa_at_most": -1}, "excess_over_aa_at_most is -1; wanted at least 0"),
        ({"gate": "conformance", "nonconforming_at_most": 0}, "risk is missing"),
    ],
)
def test_a_gate_without_a_rule_is_refused(tmp_path: Path, gate: Row, message: str) -> None:
    done = process("verdict", str(build(tmp_path, ab_card(quality=[gate]))))
    assert done.returncode == 2
    assert message in done.stderr


def test_an_item_that_stands_twice_is_refused(tmp_path: Path) -> None:
    run = build(tmp_path, ab_card(quality=[TASK]))
    (run / "quality").mkdir()
    rows = task(0, 0, 40)
    full = [{name: row.get(name) for name in ITEM_COLUMNS} for row in [*rows, rows[0]]]
    pl.DataFrame(full, schema=ITEM_COLUMNS).write_parquet(run / "quality" / "task_metric.parquet")
    done = process("verdict", str(run))
    assert done.returncode == 2
    assert "task_metric.parquet: an item stands twice for one arm and repeat (risk 'precision')" in done.stderr


def test_the_report_has_a_row_for_each_gate(tmp_path: Path) -> None:
    judged(tmp_path, [GREEDY, TASK], greedy_divergence=greedy(0, 0, both=40))
    markdown = render(tmp_path)[0].read_text()
    section = markdown.split("## Equivalent work\n")[1].split("\n## ")[0]
    assert section.strip() == (
        "A gate passes if the one-sided 95% bound of the difference between the arms' outputs lies within its limit; a "
        "conformance gate counts. All must pass; one that fails falsifies the hypothesis.\n\n"
        "Outputs of both arms:\n\n"
        "| Risk | Gate | Word | Observed | Bound | Limit | Items | What |\n"
        "| --- | --- | --- | ---: | ---: | ---: | ---: | --- |\n"
        "| cache_reuse | greedy_divergence | pass | 0 pt | 0.597 pt | 1 pt | 500 | greedy outputs diverge early in at "
        "most 1 pt more items than in A/A; 40 of 500 items diverge before token 32 (A/A: 40) |\n"
        "| precision | task_metric | **not run** | – | – | 2 pt | 0 | the share of correct answers may fall by 2 pt; "
        "quality/task_metric.parquet is missing |\n\n"
        "First differing token of the items that differ (the first token is 0), at the quartiles:\n\n"
        "| Risk | Outputs | Items that differ at any token | 25% | 50% | 75% |\n"
        "| --- | --- | ---: | ---: | ---: | ---: |\n"
        "| cache_reuse | candidate against baseline | 270 of 500 | 32 | 32 | 32 |\n"
        "| cache_reuse | baseline against itself (A/A) | 270 of 500 | 32 | 32 | 32 |"
    )

"""The sections on the knee and on percentiles: every sentence, and what stands where there is no number."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import bundles
import polars as pl
import pytest
from benchcard.reports import charts, knee, percentiles, read, render, service
from benchcard.reports.document import Figure, Paragraph, Table

Json = dict[str, Any]


def point(load: float, good: int, lower: float, passes: bool | None, **changes: Any) -> Json:
    """A point of 3,600 attempts in blocks that vary no more than chance."""
    at = {"load": load, "attempted": 3600, "good": good, "attainment": good / 3600, "deff": 1.0, "n_eff": 3600.0}
    return {**at, "lower": lower, "upper": 0.98, "passes": passes, "reason": None, **changes}


def an_arm(word: str, interval: list[float | None] | None, points: list[Json], **changes: Any) -> Json:
    row = {"target": 0.99, "confidence": 0.95, "word": word, "interval": interval, "headroom": None}
    return {**row, "operating_point": None, "reason": None, "points": points, **changes}


PASSES = point(6.0, 3584, 0.99326, True, deff=1.171875, n_eff=3072.0)
FAILS = point(12.0, 3474, 0.95952, False)


def a_bundle(tmp_path: Path, **changes: Any) -> read.Bundle:
    return read.read_bundle(bundles.write(tmp_path / "bundle", {**bundles.supported(), **changes}))


def test_the_section_on_the_knee(tmp_path: Path) -> None:
    arms = {
        "baseline": an_arm("bracketed", [6.0, 12.0], [PASSES, FAILS], operating_point=5.0, headroom=1 / 6),
        "candidate": an_arm("not reached", [12.0, None], [PASSES, {**PASSES, "load": 12.0}]),
    }
    (found,) = knee.knee_sections(a_bundle(tmp_path, knee=arms))
    assert found.title == "Capacity: the knee"
    assert [block.text for block in found.blocks if isinstance(block, Paragraph)] == [
        "The card's target is an attainment (good / attempted) of 99%. A load passes where the one-sided 95% lower "
        "bound of its attainment reaches the target; the knee lies between the highest load up to which all pass and "
        "the next one run. Nothing is said between the loads run, or beyond them.",
        "Baseline: under the conditions below, of the loads run, every one up to 6 req/s is shown to reach 99%, and "
        "12 req/s is not: the knee lies from 6 to below 12 req/s. At the operating point, 5 req/s, the headroom is at "
        "least 16.7%.",
        "Candidate: under the conditions below, of the loads run, all are shown to reach 99%: the knee was not "
        "reached, and lies at 12 req/s or above.",
        "Lower bound: Clopper–Pearson on the effective number of attempts, attempts / deff; deff: how much more the "
        "blocks vary than independent requests would, at least 1. Each arm's knee is its own: the two are not "
        "compared.",
    ]
    (table,) = [block for block in found.blocks if isinstance(block, Table)]
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["6 req/s", "baseline", "3,600", "3,584", "99.56%", "99.33%", "1.17", "3,072", "passes"],
        ["6 req/s", "candidate", "3,600", "3,584", "99.56%", "99.33%", "1.17", "3,072", "passes"],
        ["12 req/s", "baseline", "3,600", "3,474", "96.50%", "95.95%", "1.00", "3,600", "does not pass"],
        ["12 req/s", "candidate", "3,600", "3,584", "99.56%", "99.33%", "1.17", "3,072", "passes"],
    ]
    (figure,) = [block for block in found.blocks if isinstance(block, Figure)]
    assert figure.caption == (
        "Attainment at each load run, with its one-sided lower bound. Dashed line: the target, 99%. A load passes "
        "where its bound reaches the line; loads are evenly spaced."
    )


OPEN = point(12.0, 3560, 0.9861, False, upper=0.9915, reason="its upper bound reaches the target too")


@pytest.mark.parametrize(
    ("arm", "sentence"),
    [
        (
            an_arm("bracketed", [6.0, 12.0], [PASSES, OPEN], operating_point=6.0, headroom=0.0),
            "Baseline: under the conditions below, of the loads run, every one up to 6 req/s is shown to reach 99%, "
            "and 12 req/s is not: the knee lies from 6 to below 12 req/s. At 12 req/s it is not shown to miss it "
            "either: its upper bound reaches the target too. The operating point, 6 req/s, is not below the highest "
            "load that passes: no headroom is shown.",
        ),
        (
            an_arm("below the lowest load", [0.0, 6.0], [{**FAILS, "load": 6.0}, FAILS], operating_point=6.0),
            "Baseline: under the conditions below, of the loads run, the lowest, 6 req/s, is not shown to reach 99%: "
            "the knee lies below it.",
        ),
        (
            an_arm("not monotone", None, [FAILS, PASSES], reason="load 6 does not pass, but load 12 above it does"),
            "Baseline: the knee is inconclusive, not monotone (load 6 does not pass, but load 12 above it does).",
        ),
        (
            an_arm("undefined", None, [PASSES], reason="one load was run; a knee needs at least two"),
            "Baseline: the knee is undefined (one load was run; a knee needs at least two).",
        ),
    ],
)
def test_sentences(arm: Json, sentence: str, tmp_path: Path) -> None:
    assert knee.knee_sentence(a_bundle(tmp_path), "baseline", arm) == sentence


def test_a_bound_never_looks_like_the_target_that_it_is_not(tmp_path: Path) -> None:
    arms = {"baseline": an_arm("below the lowest load", [0.0, 6.0], [point(6.0, 3572, 0.989998, False)])}
    (found,) = knee.knee_sections(a_bundle(tmp_path, knee=arms))
    (table,) = [block for block in found.blocks if isinstance(block, Table)]
    assert table.rows[0][5].text == "98.9998%"


def test_what_is_undefined_says_why(tmp_path: Path) -> None:
    nothing = dict.fromkeys(("attainment", "deff", "n_eff", "lower", "upper", "passes"))
    none = {"load": 6.0, "attempted": 0, "good": 0, **nothing, "reason": "no valid block"}
    arms = {"baseline": an_arm("undefined", None, [none], reason="the run is invalid")}
    (found,) = knee.knee_sections(a_bundle(tmp_path, knee=arms))
    (table,) = [block for block in found.blocks if isinstance(block, Table)]
    undefined = ["undefined"] * 4
    assert [cell.text for cell in table.rows[0]] == [
        "6 req/s", "baseline", "0", "0", *undefined, "no word", "no valid block",
    ]  # fmt: skip
    assert not [block for block in found.blocks if isinstance(block, Figure)]


def test_no_section_without_objectives_or_from_an_older_analysis(tmp_path: Path) -> None:
    assert knee.knee_sections(a_bundle(tmp_path)) == ()
    arms = {"baseline": an_arm("undefined", None, [], reason="the card has no objectives")}
    assert knee.knee_sections(a_bundle(tmp_path, knee=arms)) == ()


def latency(arm: str, percent: int, **changes: Any) -> Json:
    row = {"arm": arm, "load_point": 2, "load": 12.0, "metric": "ttft", "percentile": percent, "value_s": 0.1342}
    row |= {"interval_s": [0.1323, 0.1366], "n": 320, "attempts": 330, "withheld": None, "blocks": 8}
    row |= {"basis": "pooled over blocks: description", "block_mean_s": 0.135, "block_interval_s": [0.129, 0.141]}
    return {**row, "block_reason": None, **changes}


WITHHELD = {
    "value_s": None, "interval_s": None, "withheld": "p99 needs 662 values; 320 here", "block_mean_s": None,
    "block_interval_s": None, "block_reason": "p99 needs 662 values in each block; the least has 39",
}  # fmt: skip
ONE = {"block_interval_s": None, "block_reason": "one block has no spread"}
SAME = {"value_s": 0.02, "interval_s": [0.02, 0.02], "block_mean_s": 0.02, "block_interval_s": [0.02, 0.02]}
ROWS = [
    latency("candidate", 50, **ONE), latency("candidate", 99, **WITHHELD),
    latency("baseline", 50, **SAME), latency("baseline", 99, **WITHHELD),
]  # fmt: skip
OBJECTIVES = [
    {
        "arm": "baseline", "load_point": 2, "load": 12.0, "population": None, "metric": "ttft", "limit_s": 0.6,
        "percentile": percent, "violations": violations, "n": 1000, "reason": reason, "basis": "",
    }
    for percent, violations, reason in ((99, 2, None), (None, 900, "p50 allows 462 violations among 1000; 900 here"))
]  # fmt: skip


def test_percentiles_with_intervals_and_those_withheld(tmp_path: Path) -> None:
    bundle = a_bundle(tmp_path, latency=ROWS, objective_percentiles=OBJECTIVES)
    found = service.latency_section(bundle)
    tables = [block for block in found.blocks if isinstance(block, Table)]
    assert [table.caption for table in tables] == [
        "Pooled percentiles (a description), with the 95% interval by ranks as if requests were independent",
        "Mean over the blocks of each block's percentile, with the 95% t interval over the blocks",
        "The highest percentile established for each objective",
    ]
    texts = [[[cell.text for cell in row] for row in table.rows] for table in tables]
    least = "needs 662 values in each block; the least has 39"
    assert texts[0] == [
        ["TTFT", "12 req/s", "baseline", "320", "20.0 ms (20.0 to 20.0)", "needs 662 values; 320 here"],
        ["TTFT", "12 req/s", "candidate", "320", "134.2 ms (132.3 to 136.6)", "needs 662 values; 320 here"],
    ]
    assert texts[1] == [
        ["TTFT", "12 req/s", "baseline", "8", "20.0 ms (20.0 to 20.0)", least],
        ["TTFT", "12 req/s", "candidate", "8", "135 ms (one block has no spread)", least],
    ]
    assert texts[2] == [
        ["12 req/s", "baseline", "TTFT at most 600 ms", "p99", "2", "1,000", "the highest looked at"],
        ["12 req/s", "baseline", "TTFT at most 600 ms", "none", "900", "1,000",
         "p50 allows 462 violations among 1000; 900 here"],
    ]  # fmt: skip
    last = found.blocks[-1]
    assert isinstance(last, Paragraph)
    assert last.text == (
        "Established: violations, failed attempts included, so few that by chance they would come at most once in a "
        "hundred were the percentile above the limit (binomial test, requests taken as independent; a description)."
    )


def test_objectives_of_populations_have_their_column(tmp_path: Path) -> None:
    rows = [{**row, "population": name} for row, name in zip(OBJECTIVES, ("chat", "batch"), strict=True)]
    table, _ = percentiles.established_blocks(a_bundle(tmp_path, objective_percentiles=rows))
    assert isinstance(table, Table)
    assert [row[2].text for row in table.rows] == ["chat", "batch"]


def test_the_chart_has_a_band_where_there_are_intervals(tmp_path: Path) -> None:
    folder = bundles.write(tmp_path / "bundle", bundles.supported())
    path = folder / "series" / "latency.parquet"
    plain = service.latency_section(read.read_bundle(folder)).blocks[1]
    curve = pl.read_parquet(path).with_columns(lower_s=pl.col("value_s") * 0.9, upper_s=pl.col("value_s") * 1.1)
    curve.write_parquet(path)
    banded = service.latency_section(read.read_bundle(folder)).blocks[1]
    assert isinstance(plain, Figure)
    assert isinstance(banded, Figure)
    band = "Band: the pointwise 95% interval of each value, as if requests were independent."
    assert band not in plain.caption
    assert band in banded.caption
    # an area an arm and load
    assert [figure.svg.count('opacity="0.22"') for figure in (plain, banded)] == [0, 4]


def test_the_knees_chart_draws_nothing_between_loads() -> None:
    rows = [
        {"arm": arm, "load": load, "attainment": share, "lower": share - 0.002}
        for arm in ("baseline", "candidate")
        for load, share in (("6", 0.999), ("12", 0.95))
    ]
    svg = charts.attainment_bounds(rows, ["baseline", "candidate"], 0.99, "offered load, req/s", "knee", "what & how")
    assert "what &amp; how" in svg
    assert svg == charts.attainment_bounds(
        rows, ["baseline", "candidate"], 0.99, "offered load, req/s", "knee", "what & how"
    )
    assert ">offered load, req/s<" in svg


def test_a_baseline_has_both_sections(tmp_path: Path) -> None:
    card = copy.deepcopy(bundles.baseline_card())
    result = bundles.baseline()
    arm = an_arm("not reached", [8.0, None], [{**PASSES, "load": 1.0}, {**PASSES, "load": 8.0}])
    result |= {"knee": {"baseline": arm}, "latency": [], "objective_percentiles": []}
    text = render.render(bundles.write(tmp_path / "bundle", result, card=card))[0].read_text(encoding="utf-8")
    assert (
        "Baseline: under the conditions below, of the loads run, all are shown to reach 99%: the knee was not reached, "
        "and lies at 8 concurrent or above."
    ) in text
    assert "## Latency distributions\n\nNo latency was defined in any used block.\n" in text

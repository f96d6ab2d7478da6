"""A/A blocks: the worked example, the three words and their edges, and that no effect is made from them.

The example's differences .004, -.011, .007, .002, -.006, .009, -.003, .001 have s .0067175, the interval mean ±
.0056160 and, against ±1% (ln 1.01), p .00249 for equivalence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchcard.analysis.aa import bias
from scipy import stats

from .bundles import Cell, Row, ab_card, analyse, build

EXAMPLE = [0.004, -0.011, 0.007, 0.002, -0.006, 0.009, -0.003, 0.001]


def test_the_worked_example() -> None:
    found = bias(EXAMPLE, math.log(1.01))
    assert found.mean == pytest.approx(0.000375, abs=1e-12)
    assert found.stdev == pytest.approx(0.0067175, abs=5e-8)
    assert (found.upper - found.lower) / 2 == pytest.approx(0.0056160, abs=5e-8)
    assert found.p == pytest.approx(0.00249, abs=5e-6)
    assert (found.word, found.equivalent) == ("clean", True)


@pytest.mark.parametrize("shift", [0.0, 0.004, 0.0149, 0.016, -0.0163, 0.4])
def test_words_against_scipys_own_tests(shift: float) -> None:
    """Two one-sided t tests and the interval of scipy.stats, a code of its own."""
    d, margin = np.array(EXAMPLE) + shift, math.log(1.01)
    found = bias(d, margin)
    less = stats.ttest_1samp(d, margin, alternative="less").pvalue
    greater = stats.ttest_1samp(d, -margin, alternative="greater").pvalue
    low, high = stats.ttest_1samp(d, 0).confidence_interval(0.95)
    assert found.p == pytest.approx(max(less, greater), rel=1e-9)
    assert (found.lower, found.upper) == pytest.approx((low, high), rel=1e-9)
    inside = -margin < low and high < margin
    assert found.word == ("biased" if low > margin or high < -margin else "clean" if inside else "no bias shown")
    assert found.equivalent == (-margin < low and high < margin)


@pytest.mark.parametrize(
    ("value", "word", "equivalent"),
    [(0.0, "clean", True), (0.01, "no bias shown", False), (-0.01, "no bias shown", False), (0.011, "biased", False)],
)
def test_blocks_that_are_all_the_same(value: float, word: str, equivalent: bool) -> None:
    found = bias([value] * 6, 0.01)
    assert (found.stdev, found.p) == (0.0, None)
    assert (found.lower, found.upper) == pytest.approx((value, value), rel=1e-12)
    assert (found.word, found.equivalent) == (word, equivalent)


def aa_card(within: float = 0.01, blocks: int = 6, **changes: Any) -> Row:
    card = ab_card(**changes)
    scale = card["claim"]["threshold"]["scale"]
    card["method"]["aa"] = {"blocks": blocks, "at": [20.0], "within": {"value": within, "scale": scale}}
    return card


def spares(cell: Cell) -> bool:
    return 8 < cell.block <= 10


def shares(second: list[float], first: float = 0.8) -> Callable[[int, str, int], float]:
    """A candidate that is better, and the A/A blocks' second runs with these shares of good attempts."""

    def good(block: int, arm: str, _: int) -> float:
        if arm == "candidate":
            return 0.95
        return second[block - 11] if arm == "baseline_aa" else first

    return good


# of 100 counted attempts 80 are good in every first run
UNBIASED = [0.80, 0.79, 0.81, 0.82, 0.78, 0.80]
HIGHER = [0.88, 0.90, 0.89, 0.88, 0.90, 0.89]


def only(document: Row) -> Row:
    (row,) = [row for row in document["aa"] if row["decides"]]
    return dict(row)


def test_clean_blocks_change_nothing_but_the_conditions(tmp_path: Path) -> None:
    document = analyse(build(tmp_path / "aa", aa_card(), good=shares(UNBIASED), skip=spares))
    plain = analyse(build(tmp_path / "plain", ab_card(), good=shares(UNBIASED), skip=spares))
    row = only(document)
    d = [math.log(share / 0.8) for share in UNBIASED]
    assert row["d"] == pytest.approx(d)
    low, high = stats.ttest_1samp(d, 0).confidence_interval(0.95)
    assert row["interval"] == pytest.approx([low, high])
    assert row["stdev"] == pytest.approx(np.std(d, ddof=1))
    assert row["margin"] == pytest.approx(math.log(1.01))
    facts = {
        key: row[key]
        for key in ("load_point", "load", "metric", "unit", "scale", "blocks", "word", "equivalent", "reason")
    }
    assert facts == {
        "load_point": 2, "load": 20.0, "metric": "goodput", "unit": "req/s", "scale": "log", "blocks": 6,
        "word": "no bias shown", "equivalent": False, "reason": None,
    }  # fmt: skip
    same = ("verdict", "because", "sentence", "effects", "guards", "summary", "metrics", "attribution", "blocks")
    assert {key: document[key] for key in same} == {key: plain[key] for key in same}
    assert not {"aa", "aa_blocks"} & set(plain)
    (text,) = [c for c in document["conditions"] if c["name"] == "noise floor (A/A)"]
    assert text == {
        "name": "noise floor (A/A)",
        "value": "at 20 req/s goodput of the baseline against itself differs by −0.01% (95% interval −1.85% to +1.86%, "
        "6 A/A blocks): no bias shown, a bias beyond ±1% is not ruled out, spread of a block 1.78%",
        "source": "observed",
    }
    assert [block["block"] for block in document["aa_blocks"]] == [11, 12, 13, 14, 15, 16]
    # The guards' metrics are exploratory: shown, without a margin or a word.
    others = [row for row in document["aa"] if not row["decides"]]
    assert [(row["metric"], row["scale"]) for row in others] == [("tpot.p50", "log"), ("error_rate", "difference")]
    assert all(row[key] is None for row in others for key in ("word", "margin", "p_equivalent", "equivalent"))
    assert all(row["interval"] is not None for row in others)


def test_biased_blocks_make_the_run_invalid(tmp_path: Path) -> None:
    document = analyse(build(tmp_path, aa_card(), good=shares(HIGHER), skip=spares))
    assert only(document)["word"] == "biased"
    assert document["verdict"] == "invalid"
    text = (
        "the procedure is biased: at 20 req/s goodput of the baseline against itself differs by +11.2% (95% interval "
        "+10.1% to +12.4%, 6 A/A blocks), wholly outside the ±1% of the card"
    )
    assert document["because"][0] == {"code": "biased", "text": text}
    assert document["sentence"].endswith(
        f"this run says nothing about enable-prefix-caching=true (instead of false): {text}: invalid."
    )
    assert {(e["word"], e["reason"]) for e in document["effects"] if e["claimed"]} == {
        (None, "the run is invalid, since its A/A blocks are biased")
    }
    assert {row["word"] for row in document["guards"]} == {"indeterminate"}


def test_a_wide_margin_that_the_interval_reaches_is_kept(tmp_path: Path) -> None:
    document = analyse(build(tmp_path, aa_card(within=0.11), good=shares(HIGHER), skip=spares))
    assert (only(document)["word"], document["verdict"]) == ("no bias shown", "supported")
    (text,) = [c["value"] for c in document["conditions"] if c["name"] == "noise floor (A/A)"]
    assert "no bias shown, a bias beyond ±11% is not ruled out, zero lies outside the interval" in text


def test_points(tmp_path: Path) -> None:
    card = aa_card(claim__metric="attainment", claim__threshold={"value": 0.05, "scale": "points"})
    document = analyse(build(tmp_path, card, good=shares(UNBIASED), skip=spares))
    row = only(document)
    assert (row["scale"], row["margin"]) == ("difference", 0.01)
    assert row["d"] == pytest.approx([share - 0.8 for share in UNBIASED])


def test_fewer_blocks_than_planned_are_said_and_below_five_nothing_is_established(tmp_path: Path) -> None:
    for lost, word in ((1, "no bias shown"), (2, "not established")):

        def skip(cell: Cell, lost: int = lost) -> bool:
            return spares(cell) or cell.block > 16 - lost

        document = analyse(build(tmp_path / str(lost), aa_card(), good=shares(UNBIASED), skip=skip))
        row = only(document)
        assert (row["word"], row["blocks"], document["verdict"]) == (word, 6 - lost, "supported")
        said = f"{6 - lost} of 6 A/A blocks valid (block 15: not run; block 16: not run)"
        if lost == 1:
            assert row["reason"] == "5 of 6 A/A blocks valid (block 16: not run)"
        else:
            assert row["reason"] == f"4 A/A blocks; a word needs 5; {said}"
            (condition,) = [c for c in document["conditions"] if c["name"] == "noise floor (A/A)"]
            assert condition["source"] == "unknown"
            assert condition["value"].endswith(
                f"not established, 4 A/A blocks; a word needs 5; {said}, spread of a block 1.62%"
            )


def test_an_invalid_cell_costs_its_block_alone(tmp_path: Path) -> None:
    def late(cell: Cell, row: Row) -> Row:
        return row | {"cpu": row["load_end"] - row["load_start"]} if cell.cell == "a02-baseline_aa-l2" else row

    document = analyse(build(tmp_path, aa_card(), good=shares(UNBIASED), client=late, skip=spares))
    assert only(document)["reason"] == "5 of 6 A/A blocks valid (block 12: a02-baseline_aa-l2 failed client_cpu)"
    assert document["verdict"] == "supported"
    (check,) = [row for row in document["validity"] if row["name"] == "client_cpu"]
    assert check["where"] == ["a02-baseline_aa-l2"]


@pytest.mark.parametrize(
    ("second", "reason"),
    [([0.0, *UNBIASED[1:]], "zero in some block, so no log ratio")],
)
def test_no_ratio_no_word(tmp_path: Path, second: list[float], reason: str) -> None:
    row = only(analyse(build(tmp_path, aa_card(), good=shares(second), skip=spares)))
    assert (row["word"], row["reason"], row["interval"], row["d"][0]) == ("not established", reason, None, None)


def test_an_invalid_run_has_no_aa_word(tmp_path: Path) -> None:
    document = analyse(build(tmp_path, aa_card(), good=shares(HIGHER), skip=lambda cell: 7 < cell.block <= 10))
    assert (document["verdict"], document["because"][0]["code"]) == ("invalid", "incomplete")
    assert (only(document)["word"], only(document)["reason"]) == ("not established", "the run is invalid")

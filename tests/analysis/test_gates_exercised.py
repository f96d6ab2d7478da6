"""A gate that could not have seen its risk establishes nothing by passing, from constructed tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from .test_gates import GREEDY, LENGTH, TASK, greedy, item, judged, lengths, task

REUSE = GREEDY | {"reuse": True}


@pytest.mark.parametrize(
    ("cached", "word"),
    [
        ((0, 0), "not established"), ((16, 0), "pass"), ((0, 16), "pass"), ((None, None), "pass"),
        ((None, 0), "not established"),
    ],
    ids=["none", "candidate", "A/A", "not reported", "reported by one"],
)  # fmt: skip
def test_a_cache_that_was_not_met(tmp_path: Path, cached: tuple[int | None, int | None], word: str) -> None:
    arms = dict(zip(("candidate", "baseline_aa"), cached, strict=True))
    rows = [row | {"cached_tokens": arms[row["arm"]]} for row in greedy(0, 0)]
    (row,) = judged(tmp_path, [REUSE], greedy_divergence=rows)["gates"]
    assert row["word"] == word
    why = "not exercised: no prompt token came from a prefix cache in any arm"
    assert row["reason"] == (why if word != "pass" else None)


@pytest.mark.parametrize(("aa", "word"), [(494, "pass"), (495, "not established"), (500, "not established")])
def test_an_aa_that_diverges_nearly_always_hides_whatever_the_candidate_does(
    tmp_path: Path, aa: int, word: str
) -> None:
    """Of 500 items 5 are 1%, the limit: were every one of the candidate's to diverge, that were within it."""
    (row,) = judged(tmp_path, [GREEDY], greedy_divergence=greedy(0, 0, both=aa))["gates"]
    said = f"not exercised: {aa} of 500 items diverge early in A/A already, which leaves too few that could show more"
    assert (row["word"], row["reason"]) == (word, None if word == "pass" else said)


@pytest.mark.parametrize(
    ("empty", "word"), [(0, "pass"), (2, "pass"), (3, "not established"), (500, "not established")]
)
def test_empty_outputs_are_alike_and_show_nothing(tmp_path: Path, empty: int, word: str) -> None:
    """The bound is .597 pt; 2 of 500 items may add .4 pt to it, 3 of them .6 pt, which is beyond 1 pt."""
    rows = [
        row | {"compared_by": "nothing" if int(row["item"][1:]) < empty else "token_ids", "diverged_at": None}
        for row in greedy(0, 0)
    ]
    (row,) = judged(tmp_path, [GREEDY], greedy_divergence=rows)["gates"]
    said = f"of 500 items {empty} have no output to compare: neither a text nor token ids"
    assert (row["word"], row["reason"]) == (word, None if word == "pass" else said)


def test_repeats_that_no_arm_was_asked_are_not_run(tmp_path: Path) -> None:
    (row,) = judged(tmp_path, [GREEDY | {"repeats": 3}], greedy_divergence=greedy(0, 0))["gates"]
    assert (row["word"], row["reason"]) == ("not run", "500 of 1500 outputs were made")


def test_replies_that_do_not_say_how_many_tokens_they_have_are_no_short_ones(tmp_path: Path) -> None:
    rows = [row | ({"tokens": None} if row["arm"] == "candidate" else {}) for row in lengths(1.0)]
    (row,) = judged(tmp_path, [LENGTH], mean_output_tokens=rows)["gates"]
    assert (row["word"], row["observed"], row["bound"]) == ("not established", None, None)
    assert row["reason"] == "200 of 400 outputs do not say how many tokens they have"


def test_a_cache_that_nobody_tells_of_is_an_alarm(tmp_path: Path) -> None:
    (row,) = judged(tmp_path, [REUSE], greedy_divergence=greedy(0, 0))["gates"]
    assert row["alarm"] == (
        "no reply says how many prompt tokens came from a prefix cache: whether one was met is not known"
    )


def test_a_gate_without_reuse_needs_no_cache(tmp_path: Path) -> None:
    rows = [row | {"cached_tokens": 0} for row in greedy(0, 0)]
    assert judged(tmp_path, [GREEDY], greedy_divergence=rows)["gates"][0]["word"] == "pass"


def test_divergence_that_was_seen_fails_with_or_without_a_cache(tmp_path: Path) -> None:
    rows = [row | {"cached_tokens": 0} for row in greedy(60, 5)]
    assert judged(tmp_path, [REUSE], greedy_divergence=rows)["gates"][0]["word"] == "fail"


@pytest.mark.parametrize(("right", "word"), [(0, "not established"), (4, "not established"), (5, "pass")])
def test_a_baseline_with_nothing_to_lose(tmp_path: Path, right: int, word: str) -> None:
    """Of 200 items 4 are 2%, the limit: all of them lost would still be within it."""
    rows = [item(i, arm, "precision", correct=i < right) for i in range(200) for arm in ("baseline", "candidate")]
    (row,) = judged(tmp_path, [TASK], task_metric=rows)["gates"]
    assert row["word"] == word
    if word != "pass":
        said = (
            f"not exercised: the baseline answers {right / 2:g}% of the items correctly, which is all that can be lost"
        )
        assert row["reason"] == said


def test_a_loss_is_a_loss_however_little_there_was(tmp_path: Path) -> None:
    (row,) = judged(tmp_path, [TASK], task_metric=task(100, 0, 200))["gates"]
    assert row["word"] == "fail"


@pytest.mark.parametrize(("cut", "alarm"), [(200, None), (201, True), (400, True)])
def test_replies_that_all_end_at_the_limit_raise_an_alarm(tmp_path: Path, cut: int, alarm: bool | None) -> None:
    rows = [row | {"finish_reason": "length" if at < cut else "stop"} for at, row in enumerate(lengths(1.0))]
    (row,) = judged(tmp_path, [LENGTH], mean_output_tokens=rows)["gates"]
    assert row["word"] == "pass"
    said = f"{cut} of 400 replies ended at the length that was asked for: longer ones could not show"
    assert row["alarm"] == (said if alarm else None)


def test_what_outputs_were_compared_by_is_said_where_it_is_not_ids(tmp_path: Path) -> None:
    rows = [row | {"compared_by": "characters"} for row in greedy(0, 0, both=40)]
    (row,) = judged(tmp_path, [GREEDY], greedy_divergence=rows)["gates"]
    assert "diverge before token 32 (A/A: 40), compared by characters, in proportion; the difference" in row["text"]


def test_where_outputs_part(tmp_path: Path) -> None:
    """Of 8 items 5 diverge at 1, 2, 3, 4 and 9: ranks 2, 3 and 4 of them. Of A/A's none does."""
    at = [1, None, 9, 2, 3, None, 4, None]
    rows = [item(i, "candidate", "cache_reuse", diverged_at=token) for i, token in enumerate(at)]
    rows += [item(i, "baseline_aa", "cache_reuse") for i in range(8)]
    (row,) = judged(tmp_path, [GREEDY | {"prompts": 8}], greedy_divergence=rows)["gates"]
    assert row["divergence"] == {
        "candidate": {"items": 8, "diverged": 5, "quartiles": [2, 3, 4]},
        "baseline_aa": {"items": 8, "diverged": 0, "quartiles": None},
    }

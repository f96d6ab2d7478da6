"""What the analysis computes by short cuts, against the same by brute force: the busiest second, MSER-5, and the times
of chunks."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
from benchcard.analysis.checks import CHECKS
from benchcard.analysis.instrument import busiest_rate, coalesced
from benchcard.analysis.read import Cell
from benchcard.analysis.steady import mser5
from benchcard.analysis.view import CellView
from benchcard.analysis.window import chunk_times
from hypothesis import example, given, settings
from hypothesis import strategies as st

S = 1_000_000_000
#: (start, number, gap) of times at equal distances, ns: many at once, a few apart, and some exactly a second apart
RUNS = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 4 * S), st.sampled_from([0, S - 1, S, S + 1, 2 * S])),
        st.integers(1, 200),
        st.sampled_from([0, 1, S // 1000, S // 64, S // 10, S]),
    ),
    min_size=1,
    max_size=6,
)
OFFSETS = st.sampled_from([0, -(10**18), 10**18])


@settings(deadline=None)
@given(RUNS, OFFSETS)
@example([(0, 1, 0)], 10**18)
@example([(0, 200, 0)], 10**18)
@example([(0, 64, 0), (S, 64, 0)], 10**18)
@example([(0, 65, 0), (S - 1, 63, 0)], 0)
@example([(0, 63, 1), (63, 130, 0), (3 * S, 1, 0)], 0)
def test_the_busiest_second_is_that_of_every_window(runs: list[tuple[int, int, int]], offset: int) -> None:
    """All that lie within less than a second lie in one window, closed, of at least a tenth; of others every window
    [t, t + 1 s) that begins at one of the times is counted."""
    times = np.concatenate([offset + start + gap * np.arange(number) for start, number, gap in runs]).astype(np.int64)
    span = int(times.max()) - int(times.min())
    if span < S:
        wanted = len(times) / (max(span, S // 10) / S)
    else:
        after = times[None, :] - times[:, None]
        wanted = float(((after >= 0) & (after < S)).sum(axis=1).max())
    assert np.isclose(busiest_rate(times), wanted, rtol=1e-14, atol=0)


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 700), st.floats(0.2, 40), OFFSETS)
def test_the_busiest_second_of_random_times(seed: int, number: int, seconds: float, offset: int) -> None:
    times = offset + S + np.random.default_rng(seed).integers(0, round(seconds * S), number)
    times[0], times[-1] = offset, offset + 2 * S
    after = times[None, :] - times[:, None]
    assert busiest_rate(times) == ((after >= 0) & (after < S)).sum(axis=1).max()


def test_no_times_have_no_busiest_second() -> None:
    assert busiest_rate(np.array([], dtype=np.int64)) == 0.0


def every_cut(means: list[Fraction]) -> list[Fraction]:
    """The statistic of every cut up to half of the means."""
    found = []
    for cut in range(len(means) // 2 + 1):
        left = means[cut:]
        mean = sum(left, Fraction(0)) / len(left)
        found.append(sum(((x - mean) ** 2 for x in left), Fraction(0)) / len(left) ** 2)
    return found


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([0, 1, 2, 3, 8, 10**7]), min_size=2, max_size=60),
    st.sampled_from([0, 1, 10**6]),
    st.integers(0, 4),
)
@example([0, 0], 0, 0)
@example([3] * 60, 10**6, 4)
@example([1, 2] * 30, 0, 0)
@example([0, 1, 0, 1, 1, 0], 0, 0)
@example([10**7, *[3, 8] * 8, *[1, 2] * 20, 3], 10**6, 0)  # many cuts cannot be told apart by sums of the tails
def test_mser5_is_the_least_of_every_cut(means: list[int], offset: int, left_over: int) -> None:
    """Whole numbers, computed exactly: of cuts with equal statistics the first."""
    values = np.concatenate([np.repeat(np.array(means) + float(offset), 5), np.full(left_over, 7.0)])
    wanted = every_cut([Fraction(x) for x in means])
    least = min(wanted)
    cut = wanted.index(least)
    found = mser5(values)
    assert found is not None
    assert (found.requests, found.at_boundary) == (5 * cut, cut == len(means) // 2)
    assert np.isclose(found.statistic, float(least), rtol=1e-9, atol=0)


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(10, 600), st.sampled_from([0.0, 0.02, 3.0]), st.sampled_from([0.0, 1e3]))
def test_mser5_of_random_values(seed: int, number: int, transient: float, level: float) -> None:
    draws = np.random.default_rng(seed)
    values = level + draws.lognormal(-2, 0.5, number) + transient * np.exp(-np.arange(number) / 40)
    means = [sum(map(Fraction, values[at : at + 5]), Fraction(0)) / 5 for at in range(0, number - 4, 5)]
    wanted = every_cut(means)
    found = mser5(values)
    assert found is not None
    assert found.requests == 5 * wanted.index(min(wanted))
    assert np.isclose(found.statistic, float(min(wanted)), rtol=1e-6, atol=0)


def test_mser5_needs_two_batches() -> None:
    assert [mser5(np.ones(number)) for number in (0, 1, 9)] == [None] * 3


def view(events: pl.DataFrame) -> CellView:
    return CellView({}, Cell("c", 1, "baseline", 1, 1.0), events, events, pl.DataFrame(), None, None)


#: few different times, so that many are equal; an attempt without a list, and one with an empty list
TIMES = st.one_of(st.none(), st.lists(st.integers(10**18, 10**18 + 4), max_size=6))
MARK = st.one_of(st.none(), st.integers(10**18, 10**18 + 4))


@settings(deadline=None)
@given(st.lists(TIMES, max_size=12))
@example([])
@example([None, []])
@example([[10**18], [10**18]])
@example([[1, 1, 1], None, [1, 1]])
def test_the_times_of_chunks_are_those_of_a_loop(lists: list[list[int] | None]) -> None:
    wanted = [(time, row) for row, times in enumerate(lists) for time in times or []]
    together = sum(times[at] == times[at - 1] for times in (one or [] for one in lists) for at in range(1, len(times)))
    attempts = pl.DataFrame({"chunk_times": pl.Series(lists, dtype=pl.List(pl.Int64))})
    times, rows = chunk_times(attempts)
    assert (times.dtype, list(zip(times.tolist(), rows.tolist(), strict=True))) == (np.int64, wanted)
    if wanted:
        assert coalesced(view(attempts)) == (together / len(wanted), None)


def runs_backwards(attempt: dict[str, Any]) -> bool:
    """By a loop: a later mark before an earlier one, a chunk before the one before it, or a first or last chunk at
    another time than the mark of it."""
    marks = [attempt[name] for name in ("scheduled", "first_token", "last_token", "end") if attempt[name] is not None]
    chunks = attempt["chunk_times"] or []
    if marks != sorted(marks) or chunks != sorted(chunks):
        return True
    ends = [(chunks[0], attempt["first_token"]), (chunks[-1], attempt["last_token"])] if chunks else []
    return any(mark is not None and mark != chunk for chunk, mark in ends)


@settings(deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {"scheduled": MARK, "first_token": MARK, "last_token": MARK, "end": MARK, "chunk_times": TIMES}
        ),
        max_size=12,
    )
)
@example([])
def test_the_order_of_times_is_that_of_a_loop(attempts: list[dict[str, Any]]) -> None:
    schema = dict.fromkeys(("scheduled", "first_token", "last_token", "end"), pl.Int64)
    events = pl.DataFrame(attempts, schema={**schema, "chunk_times": pl.List(pl.Int64)})
    check = next(check for check in CHECKS if check.name == "time_order")
    assert check.observe(view(events)) == (float(sum(map(runs_backwards, attempts))), None)

"""A look every so often: on a thread, on a grid, whatever the look does."""

from __future__ import annotations

import threading
import time

import pytest
from benchcard.runner.telemetry import sampler
from benchcard.runner.telemetry.sampler import Sampler


def until(condition, within_s: float = 10.0) -> None:
    end = time.monotonic() + within_s
    while not condition() and time.monotonic() < end:
        time.sleep(0.002)
    assert condition()


def test_it_looks_again_and_again_and_ends() -> None:
    looks: list[int] = []
    with Sampler(lambda: looks.append(1) or len(looks), 0.01) as taken:
        until(lambda: len(taken.samples) >= 3)
    seen = len(looks)
    assert [value for _, value in taken.samples] == list(range(1, len(taken.samples) + 1))
    times = [at for at, _ in taken.samples]
    assert times == sorted(times)
    time.sleep(0.05)
    assert len(looks) == seen
    assert not taken.failures


def test_what_a_look_raises_is_counted_and_the_next_is_made() -> None:
    calls = iter(range(1_000_000))

    def look() -> int:
        if (number := next(calls)) % 2 == 0:
            raise ConnectionError
        return number

    with Sampler(look, 0.01) as taken:
        until(lambda: len(taken.samples) >= 2)
    assert taken.failures["ConnectionError"] >= 2
    assert [value for _, value in taken.samples][:2] == [1, 3]


def test_a_slow_look_skips_what_was_due_and_never_overlaps() -> None:
    under_way, most = 0, 0

    def look() -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        time.sleep(0.055)
        under_way -= 1

    with Sampler(look, 0.01) as taken:
        until(lambda: len(taken.samples) >= 2)
    assert most == 1
    assert taken.skipped >= 8  # at least four ticks of each of two looks


def test_a_look_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "END_WITHIN_S", 0.05)
    begun, free = threading.Event(), threading.Event()

    def look() -> int:
        begun.set()
        free.wait(30)
        return 1

    with Sampler(look, 0.01) as taken:
        begun.wait(10)
    free.set()
    time.sleep(0.05)
    assert taken.samples == []


def test_no_look_in_a_load_that_is_shorter_than_the_interval() -> None:
    with Sampler(lambda: 1, 60.0) as taken:
        pass
    assert taken.samples == []


def test_an_interval_is_above_zero() -> None:
    with pytest.raises(ValueError, match="every_s is 0"):
        Sampler(lambda: 1, 0)

"""The Atlas costs, by hand: 30 ms + 15 ms · decodes/32, plus 20 ms + 0.035 ms a prefill token."""

from __future__ import annotations

import pytest
from benchcard.runner.engines.simulated.config import config_from_flags
from benchcard.runner.engines.simulated.costs import ATLAS, costs_named
from benchcard.schema.errors import InputError

MS = 1_000_000


@pytest.mark.parametrize(
    ("decodes", "prefill", "expected"),
    [
        (0, 0, 0),
        (32, 0, 45 * MS),
        (1, 0, 30_468_750),
        (0, 2000, 90 * MS),
        (0, 256, 28_960_000),
        (32, 256, 73_960_000),
    ],
)
def test_a_step_costs_what_the_table_says(decodes: int, prefill: int, expected: int) -> None:
    assert ATLAS.base_ns(decodes, prefill) == expected


def test_costs_are_divided_by_the_speedup_and_rounded_to_whole_nanoseconds() -> None:
    config = config_from_flags({}, speedup=7)
    assert config.step_ns(1, 0, 0, 0) == 4_352_679  # 30468750 / 7 = 4352678.57…


def test_a_step_takes_time_however_large_the_speedup() -> None:
    assert config_from_flags({}, speedup=1e12).step_ns(1, 0, 0, 0) == 1


def test_the_first_steps_can_be_cold_and_later_ones_drift() -> None:
    config = config_from_flags({"misbehave": "cold=2:4,drift=0.1"}, epoch_ns=500)
    assert config.step_ns(32, 0, 1, 500) == 180 * MS
    assert config.step_ns(32, 0, 2, 500) == 45 * MS
    assert config.step_ns(32, 0, 2, 2_000_000_500) == 54 * MS


def test_a_slow_start_is_ready_when_its_delay_is_over() -> None:
    misbehave = config_from_flags({"misbehave": "slow_start=1.5"}, speedup=10).misbehave
    assert [misbehave.is_ready(at) for at in (0, 1_499_999_999, 1_500_000_000)] == [False, False, True]
    assert config_from_flags({}).misbehave.is_ready(0)
    assert not config_from_flags({"misbehave": "never_ready"}).misbehave.is_ready(10**12)


def test_an_unknown_table_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="found 'titan'; wanted one of atlas"):
        costs_named("titan")

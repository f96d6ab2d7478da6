"""A planned cell in virtual time, as tests and `plan` ask for it."""

from __future__ import annotations

import numpy as np
import pytest
from benchcard.runner.engines.simulated.config import config_from_flags
from benchcard.runner.engines.simulated.virtual import virtual_timings
from benchcard.schema.errors import InputError

MS = 1_000_000


def test_one_cell_by_index_whatever_the_order_of_rows() -> None:
    # at a tenth of the costs: 2.35 ms, then 3.046875 ms a decode; the second request computes 12 of 60 tokens
    rows = [(7, 50 * MS, np.arange(1000, 1060, dtype=np.int32), 1), (3, 0, list(range(1000, 1100)), 3)]
    timings = virtual_timings(rows, {"max-num-seqs": 32}, costs="atlas", speedup=10.0)
    assert list(timings) == [3, 7]
    assert timings[3].token_ns == [2_350_000, 5_396_875, 8_443_750]
    assert (timings[7].cached_tokens, timings[7].token_ns) == (48, [52_042_000])
    assert [(timing.arrival_ns, timing.prompt_tokens) for timing in timings.values()] == [(0, 100), (50 * MS, 60)]


def test_what_the_server_refuses_gets_no_tokens_and_costs_none() -> None:
    rows = [(0, 0, list(range(60)), 5), (1, 0, list(range(60)), 4)]
    timings = virtual_timings(rows, {"max-model-len": 64})
    assert [(timing.outcome, len(timing.token_ns)) for timing in timings.values()] == [("refused", 0), ("ok", 4)]
    assert timings[1].token_ns[0] == 22_100_000


def test_errors_and_stalls_fall_where_the_server_has_them() -> None:
    rows = [(index, index * 1000 * MS, [index, index + 1], 2) for index in range(6)]
    timings = virtual_timings(rows, {"misbehave": "error_every=2,stall_every=3"})
    seen = [(timing.outcome, len(timing.token_ns), timing.finish_ns is None) for timing in timings.values()]
    good, error, stalled = ("ok", 2, False), ("error", 0, True), ("stalled", 1, True)
    assert seen == [good, error, stalled, error, good, error]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"max-num-seq": 4}, r"--max-num-seq: the simulated engine has no such flag \(did you mean max-num-seqs\?\)"),
        ({"max-num-seqs": "4"}, "--max-num-seqs: found '4'; wanted a whole number above 0"),
        ({"enable-prefix-caching": 1}, "--enable-prefix-caching: found 1; wanted true or false"),
        ({"misbehave": True}, "--misbehave: found True; wanted text"),
    ],
)
def test_flags_are_those_of_the_command_line(flags: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        virtual_timings([], flags)


def test_the_context_is_what_the_kv_cache_holds_unless_said_otherwise() -> None:
    assert config_from_flags({}).max_model_len == 32768
    assert config_from_flags({"kv-cache": 10 * 16 * 80 * 1024}).max_model_len == 160

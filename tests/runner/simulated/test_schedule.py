"""Small schedules worked out by hand. All times in ns; a decode step of d takes 30 ms + d · 468750 ns."""

from __future__ import annotations

import pytest
from benchcard.runner.engines.simulated.config import EngineConfig, config_from_flags
from benchcard.runner.engines.simulated.model import Request, Scheduler, Timing, simulate, simulate_closed
from benchcard.runner.engines.simulated.tokens import output_seed, output_token

MS = 1_000_000
KV_BLOCK = 16 * 80 * 1024


def engine(**flags: object) -> EngineConfig:
    return config_from_flags({name.replace("_", "-"): value for name, value in flags.items()})


def request(
    name: str, tokens: int, output: int, arrival: int = 0, first: int = 1000, cancel: int | None = None
) -> Request:
    """A prompt of consecutive ids from `first` on."""
    return Request.of(name, range(first, first + tokens), output, arrival, cancel)


def times(timings: list[Timing]) -> dict[str, list[int]]:
    return {timing.request_id: timing.token_ns for timing in timings}


def test_one_request() -> None:
    # prefill 20 + 100 · 0.035 = 23.5 ms, then two decodes of one
    (timing,) = simulate(engine(), [request("a", 100, 3)])
    assert timing.token_ns == [23_500_000, 53_968_750, 84_437_500]
    assert timing.finish_ns == 84_437_500
    assert (timing.prompt_tokens, timing.cached_tokens, timing.preempted, timing.outcome) == (100, 0, 0, "ok")


def test_an_idle_engine_starts_at_the_arrival() -> None:
    (timing,) = simulate(engine(), [request("a", 100, 1, arrival=7 * MS)])
    assert timing.token_ns == [30_500_000]


@pytest.mark.parametrize("arrival", [10 * MS, 23_500_000])
def test_a_request_that_came_by_the_end_of_a_step_joins_the_next(arrival: int) -> None:
    # step 2: one decode and 200 prefill tokens, 30.46875 + 27 = 57.46875 ms; step 3: two decodes, 30.9375 ms
    timings = simulate(engine(), [request("a", 100, 3), request("b", 200, 2, arrival, first=5000)])
    assert times(timings) == {"a": [23_500_000, 80_968_750, 111_906_250], "b": [80_968_750, 111_906_250]}


def test_a_request_that_came_a_nanosecond_later_waits_for_the_one_after() -> None:
    timings = simulate(engine(), [request("a", 100, 3), request("b", 200, 2, 23_500_001, first=5000)])
    assert times(timings) == {"a": [23_500_000, 53_968_750, 111_437_500], "b": [111_437_500, 141_906_250]}


def test_a_long_prefill_is_cut_at_the_budget() -> None:
    # 256 + 256 + 88 tokens: 28.96 + 28.96 + 23.08 ms
    config = engine(max_num_seqs=8, max_num_batched_tokens=256)
    assert times(simulate(config, [request("a", 600, 1)])) == {"a": [81 * MS]}


def test_decodes_come_first_in_the_budget() -> None:
    # budget 64: the decode takes 1, b's prefill 63 and then 37
    config = engine(max_num_seqs=64, max_num_batched_tokens=64)
    timings = simulate(config, [request("a", 10, 4), request("b", 100, 1, 1 * MS, first=5000)])
    assert times(timings) == {"a": [20_350_000, 73_023_750, 124_787_500, 155_256_250], "b": [124_787_500]}


def test_the_rest_of_the_budget_goes_to_the_next_in_line() -> None:
    # budget 256: a's 100, then 156 of b's 200; then a decode and b's 44
    config = engine(max_num_seqs=8, max_num_batched_tokens=256)
    timings = simulate(config, [request("a", 100, 2), request("b", 200, 1, first=5000)])
    assert times(timings) == {"a": [28_960_000, 80_968_750], "b": [80_968_750]}


def test_first_come_first_served_when_there_is_one_seat() -> None:
    config = engine(max_num_seqs=1)
    late, early = request("late", 100, 1, 2, first=5000), request("early", 100, 2, 1, first=7000)
    timings = simulate(config, [request("a", 100, 1), late, early])
    # a until 23.5 ms; early until + 23.5 + 30.46875; late + 23.5
    assert times(timings) == {"a": [23_500_000], "late": [100_968_750], "early": [47 * MS, 77_468_750]}


def test_a_repeated_prompt_is_computed_from_its_last_full_block_on() -> None:
    # 40 tokens are two full blocks of 16; the second request computes 8 tokens: 20.28 ms
    config = engine()
    timings = simulate(config, [request("a", 40, 1), request("b", 40, 1, 1000 * MS)])
    assert [timing.cached_tokens for timing in timings] == [0, 32]
    assert timings[1].token_ns == [1_020_280_000]


def test_the_last_token_of_a_prompt_is_always_computed() -> None:
    # both blocks of a 32-token prompt are known, but only the first may be used
    timings = simulate(engine(), [request("a", 32, 1), request("b", 32, 1, 1000 * MS)])
    assert timings[1].cached_tokens == 16
    assert timings[1].token_ns == [1_020_560_000]


def test_a_prefix_is_shared_within_the_step_that_computes_it() -> None:
    # 40 + 8 tokens in one step: 21.68 ms
    scheduler = Scheduler(engine())
    timings = [scheduler.add(request(name, 40, 1)) for name in ("a", "b")]
    step = scheduler.next_step()
    assert step is not None
    assert (step.prefill_tokens, step.queries, step.hits, step.blocks_used) == (48, 80, 32, 4)
    assert times(timings) == {"a": [21_680_000], "b": [21_680_000]}


def test_without_prefix_caching_nothing_is_looked_up() -> None:
    scheduler = Scheduler(engine(enable_prefix_caching=False))
    timings = [scheduler.add(request("a", 40, 1)), scheduler.add(request("b", 40, 1, 1000 * MS))]
    while scheduler.next_step():
        pass
    assert [timing.cached_tokens for timing in timings] == [0, 0]
    assert (scheduler.kv.queries, scheduler.kv.hits) == (0, 0)


def test_the_next_turn_of_a_conversation_finds_the_answer_cached() -> None:
    # 16 prompt tokens and the first 16 of 17 answer tokens fill two blocks
    ids = list(range(1000, 1016))
    first = Request.of("a", ids, 17)
    answer = [output_token(output_seed(first.prompt), index) for index in range(17)]
    timings = simulate(engine(), [first, Request.of("b", [*ids, *answer, 5, 6], 1, 5000 * MS)])
    assert timings[1].cached_tokens == 32


@pytest.mark.parametrize(
    ("tokens_of_c", "cached_of_a", "cached_of_b"),
    [(16, 32, 16), (32, 16, 16), (48, 0, 16), (64, 0, 0)],
)
def test_blocks_that_were_idle_for_longest_make_room(tokens_of_c: int, cached_of_a: int, cached_of_b: int) -> None:
    # Room for four blocks. a leaves two cached, then b one; the fourth is empty, and c takes that first, then a's
    # second block, a's first, and b's. Who asks again sees what is left.
    config = engine(kv_cache=4 * KV_BLOCK, max_model_len=64)
    c = request("c", tokens_of_c, 1, 200 * MS, first=7000)
    filled = [request("a", 32, 1), request("b", 16, 1, 100 * MS, first=5000)]
    if tokens_of_c == 64:  # no room for an output token: two requests instead, one after the other
        filled, c = [*filled, request("c0", 48, 1, 150 * MS, first=7000)], request("c", 63, 1, 200 * MS, first=7000)
    for again, cached in (
        (request("a2", 33, 1, 300 * MS), cached_of_a),
        (request("b2", 17, 1, 300 * MS, 5000), cached_of_b),
    ):
        assert simulate(config, [*filled, c, again])[-1].cached_tokens == cached


def test_the_sequence_that_was_admitted_last_gives_way_and_starts_again() -> None:
    # Four blocks; a and b hold two each, full at 32 tokens. When a needs a third, b is preempted, and comes back when a
    # has finished: 33 tokens (prompt and three outputs) are computed at once, 21.155 ms.
    config = engine(kv_cache=4 * KV_BLOCK, enable_prefix_caching=False)
    timings = simulate(config, [request("a", 30, 5), request("b", 30, 5, first=5000)])
    assert times(timings) == {
        "a": [22_100_000, 53_037_500, 83_975_000, 114_443_750, 144_912_500],
        "b": [22_100_000, 53_037_500, 83_975_000, 166_067_500, 196_536_250],
    }
    assert [timing.preempted for timing in timings] == [0, 1]


def test_a_preempted_sequence_finds_its_own_blocks_if_they_are_still_there() -> None:
    # As above, but b's blocks were cached, and a took only its second one: 16 of its 33 tokens are still there.
    # Those hits are not counted: vLLM counts each prompt once.
    scheduler = Scheduler(engine(kv_cache=4 * KV_BLOCK))
    timings = [scheduler.add(request("a", 30, 5)), scheduler.add(request("b", 30, 5, first=5000))]
    while scheduler.next_step():
        pass
    # 17 tokens: 20.595 ms instead of 21.155 ms
    assert timings[1].token_ns[3:] == [165_507_500, 195_976_250]
    assert (timings[1].cached_tokens, scheduler.kv.queries, scheduler.kv.hits, scheduler.preemptions) == (0, 60, 0, 1)


def test_a_cancelled_request_runs_to_the_end_of_the_step_and_no_further() -> None:
    requests = [request("a", 100, 3, cancel=30 * MS), request("b", 100, 1, 40 * MS, first=5000)]
    timings = simulate(engine(), requests)
    # the step that began at 23.5 ms ends at 53.96875 ms; then b is alone
    assert times(timings) == {"a": [23_500_000, 53_968_750], "b": [77_468_750]}
    assert (timings[0].outcome, timings[0].finish_ns) == ("cancelled", None)


def test_a_request_can_be_cancelled_while_it_waits() -> None:
    timings = simulate(engine(max_num_seqs=1), [request("a", 100, 1), request("b", 100, 1, 1, cancel=2)])
    assert times(timings) == {"a": [23_500_000], "b": []}
    assert timings[1].outcome == "cancelled"


def test_cancelling_what_has_finished_changes_nothing() -> None:
    (timing,) = simulate(engine(), [request("a", 100, 1, cancel=24 * MS)])
    assert (timing.outcome, timing.finish_ns) == ("ok", 23_500_000)


def test_a_closed_loop_goes_on_when_a_request_has_finished() -> None:
    # one client, three requests of 23.5 ms, a think time of 5 ms
    def follow_up(timing: Timing) -> list[Request]:
        number = int(timing.request_id) + 1
        assert timing.finish_ns is not None
        return [request(str(number), 100, 1, timing.finish_ns + 5 * MS, first=5000 * number)] if number < 3 else []

    timings = simulate_closed(engine(), [request("0", 100, 1)], follow_up)
    assert times(timings) == {"0": [23_500_000], "1": [52 * MS], "2": [80_500_000]}


def test_the_prefix_cache_is_reset_between_steps_only() -> None:
    scheduler = Scheduler(engine())
    scheduler.add(request("a", 40, 1))
    assert scheduler.next_step()
    assert not scheduler.reset_prefix_cache(21_399_999)
    assert scheduler.kv.pool.cached == 2
    assert scheduler.reset_prefix_cache(21_400_000)
    assert scheduler.kv.pool.cached == 0
    timing = scheduler.add(request("b", 40, 1), 100 * MS)
    assert scheduler.next_step()
    assert (timing.cached_tokens, timing.token_ns) == (0, [121_400_000])


@pytest.mark.parametrize(
    ("prompt", "output", "why"),
    [(0, 1, "at least one"), (1, 0, "at least one"), (60, 5, "longer than max_model_len 64")],
)
def test_impossible_requests_are_refused(prompt: int, output: int, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Scheduler(engine(max_model_len=64)).add(request("a", prompt, output))


def test_an_id_in_use_and_an_arrival_in_the_past_are_refused() -> None:
    scheduler = Scheduler(engine())
    scheduler.add(request("a", 100, 2), 10)
    with pytest.raises(ValueError, match="under way"):
        scheduler.add(request("a", 100, 2), 11)
    scheduler.next_step()
    with pytest.raises(ValueError, match="already planned"):
        scheduler.add(request("b", 100, 2), 10)

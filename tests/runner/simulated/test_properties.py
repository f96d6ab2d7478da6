"""What must hold for any load, and an independent model of the same rules to compare with."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from benchcard.runner.engines.simulated.config import EngineConfig, config_from_flags
from benchcard.runner.engines.simulated.model import Request, Scheduler, simulate
from hypothesis import given, settings
from hypothesis import strategies as st

BLOCK = 4
KV_BLOCK = BLOCK * 80 * 1024


@st.composite
def engines(draw: st.DrawFn, roomy: bool = False) -> EngineConfig:
    seats = draw(st.integers(1, 6))
    flags = {
        "max-num-seqs": seats,
        "max-num-batched-tokens": draw(st.integers(seats, 24)),
        "enable-prefix-caching": draw(st.booleans()),
        "block-size": BLOCK,
        "kv-cache": KV_BLOCK * (10_000 if roomy else draw(st.integers(10, 24))),
        "max-model-len": 40,
    }
    return config_from_flags(flags, speedup=draw(st.sampled_from([1.0, 3.0, 10.0])))


@st.composite
def loads(draw: st.DrawFn) -> list[Request]:
    """Up to 12 requests, in the order of their arrivals, whose prompts often begin alike."""
    documents = [list(range(base, base + 16)) for base in (100, 200, 100)]
    requests, now = [], 0
    for number in range(draw(st.integers(1, 12))):
        now += draw(st.sampled_from([0, 0, 1_000_000, 30_000_000, 400_000_000]))
        shared = draw(st.integers(0, 16))
        own = draw(st.lists(st.integers(0, 3), min_size=1, max_size=10))
        prompt = draw(st.sampled_from(documents))[:shared] + own
        requests.append(Request.of(str(number), prompt, draw(st.integers(1, 14)), now))
    return requests


@given(engines(), loads(), st.data())
@settings(max_examples=150, deadline=None)
def test_limits_hold_and_every_request_gets_its_tokens(
    config: EngineConfig, requests: list[Request], data: st.DataObject
) -> None:
    cancels = {request.id: data.draw(st.none() | st.integers(0, 2_000_000_000)) for request in requests}
    scheduler = Scheduler(config)
    timings = [scheduler.add(request) for request in requests]
    for request in requests:
        cancel = cancels[request.id]
        if cancel is not None:
            scheduler.cancel(request.id, max(cancel, request.arrival_ns))
    end, told = -1, 0
    while (step := scheduler.next_step()) is not None:
        assert step.decodes + step.prefill_tokens <= config.max_num_batched_tokens
        assert 0 < step.running <= config.max_num_seqs
        assert 0 < step.blocks_used <= config.num_blocks
        assert end <= step.start_ns < step.end_ns
        assert len(step.tokens) >= step.decodes
        end, told = step.end_ns, told + len(step.tokens)
    assert scheduler.kv.pool.used == 0
    assert scheduler.kv.pool.cached <= config.num_blocks
    assert told == sum(len(timing.token_ns) for timing in timings)
    assert scheduler.preemptions == sum(timing.preempted for timing in timings)
    for request, timing in zip(requests, timings, strict=True):
        assert timing.token_ns == sorted(set(timing.token_ns))
        assert all(token > request.arrival_ns for token in timing.token_ns)
        if timing.outcome == "ok":
            assert len(timing.token_ns) == request.output_tokens
            assert timing.finish_ns == timing.token_ns[-1]
        else:
            assert cancels[request.id] is not None
            assert timing.finish_ns is None


@given(engines(), loads())
@settings(max_examples=50, deadline=None)
def test_a_load_has_one_outcome(config: EngineConfig, requests: list[Request]) -> None:
    assert simulate(config, requests) == simulate(config, requests)


@dataclass
class _Running:
    tokens: list[int]
    prompt: int
    limit: int
    done: int = 0
    cached: int = 0
    times: list[int] = field(default_factory=list)


def reference(config: EngineConfig, requests: list[tuple[int, list[int], int]]) -> list[_Running]:
    """The same rules without KV limit, the plain way: token lists, and a set of every block-wise prefix ever computed.

    Output tokens are told apart from prompts by being negative, so they are found in no prompt.
    """
    everything = [_Running(list(prompt), len(prompt), limit) for _, prompt, limit in requests]
    incoming = [(arrival, run) for (arrival, _, _), run in zip(requests, everything, strict=True)]
    queue: list[_Running] = []
    seats: list[_Running] = []
    known: set[tuple[int, ...]] = set()
    now = 0
    while incoming or queue or seats:
        if not queue and not seats:
            now = max(now, incoming[0][0])
        while incoming and incoming[0][0] <= now:
            queue.append(incoming.pop(0)[1])
        budget, decodes, prefill = config.max_num_batched_tokens, 0, 0
        work: list[_Running] = []
        for run in [run for run in seats if run.times] + [run for run in seats if not run.times]:
            share = 1 if run.times else min(run.prompt - run.done, budget)
            work.append(run)
            run.done, budget = run.done + share, budget - share
            decodes, prefill = decodes + bool(run.times), prefill + (0 if run.times else share)
            known |= {tuple(run.tokens[:cut]) for cut in range(BLOCK, run.done + 1, BLOCK)}
        while queue and budget and len(seats) < config.max_num_seqs:
            run = queue.pop(0)
            if config.prefix_caching:
                cuts = [cut for cut in range(BLOCK, run.prompt, BLOCK) if tuple(run.tokens[:cut]) in known]
                run.done = run.cached = max(cuts, default=0)
            share = min(run.prompt - run.done, budget)
            seats.append(run)
            work.append(run)
            run.done, budget, prefill = run.done + share, budget - share, prefill + share
            known |= {tuple(run.tokens[:cut]) for cut in range(BLOCK, run.done + 1, BLOCK)}
        milliseconds = Fraction(30 + Fraction(15 * decodes, 32) if decodes else 0)
        milliseconds += 20 + Fraction(35, 1000) * prefill if prefill else 0
        now += round(milliseconds * 10**6 / Fraction(config.speedup))
        for run in work:
            if run.done >= run.prompt:
                run.times.append(now)
                run.tokens.append(-1)
        seats = [run for run in seats if len(run.times) < run.limit]
    return everything


@given(engines(roomy=True), loads())
@settings(max_examples=200, deadline=None)
def test_agrees_with_an_independent_model(config: EngineConfig, requests: list[Request]) -> None:
    plain = [(r.arrival_ns, list(memoryview(r.prompt).cast("I")), r.output_tokens) for r in requests]
    expected = reference(config, plain)
    actual = simulate(config, requests)
    for run, timing in zip(expected, actual, strict=True):
        assert timing.cached_tokens == run.cached
        assert timing.token_ns == run.times

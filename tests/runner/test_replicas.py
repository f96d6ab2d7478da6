"""How many servers answered, how chunks came, and what a probe may add: constructed looks and streams."""

from __future__ import annotations

from typing import Any

import pytest
from benchcard.runner.remote.buffering import Arrivals, arrivals
from benchcard.runner.remote.line import Answer, Streamed
from benchcard.runner.remote.probed import with_probe
from benchcard.runner.remote.replicas import Look, did_not_serve, look_of, one_process, replicas_seen
from benchcard.runner.remote.round_trip import large_share
from benchcard.schema.errors import SystemUnderTestError
from hypothesis import given
from hypothesis import strategies as st

MS = 1_000_000


def page(started: float | None, total: float, **more: Any) -> Look:
    return Look(started=started, counters={"x_total{}": total}, **more)


def test_one_process() -> None:
    seen = replicas_seen([page(100.0, total) for total in (1, 1, 5, 9)])
    assert (seen.count, seen.signs) == (1, ())


def test_two_processes_that_take_turns() -> None:
    seen = replicas_seen([page(100.0, 7), page(250.25, 2), page(100.0, 7)])
    assert seen.count == 2
    assert seen.signs == (
        "process start times: 1970-01-01T00:01:40.00Z, 1970-01-01T00:04:10.25Z",
        "x_total went back: 7, 2, 7",
    )


def test_headers_name_the_replicas() -> None:
    looks = [Look(headers={"x-pod": name}) for name in ("a", "b", "c", "a")]
    assert replicas_seen(looks).count == 3
    assert replicas_seen(looks).signs == ("x-pod: a, b, c",)


def test_counters_alone_tell_two_apart() -> None:
    seen = replicas_seen([page(None, 120), page(None, 15), page(None, 120)])
    assert (seen.count, seen.signs) == (2, ("x_total went back: 120, 15, 120",))
    other = Look(counters={"y_total{}": 1})
    gone = replicas_seen([page(None, 1), other, page(None, 1)])
    assert gone.signs == ("x_total was there, then not, and then again",)
    # one that went for good was taken away, and one that came is new
    assert replicas_seen([page(None, 1), other, other]).count == 1


def test_only_what_must_grow_is_a_counter() -> None:
    """A gauge may be called anything."""
    text = "# TYPE x_count gauge\nx_count 5\n# TYPE y_total counter\ny_total 3\n"
    found = look_of(Answer(200, {"content-type": "text/plain", "x-pod": "a", "x-other": "b"}, text.encode(), 0.0))
    assert found == Look({"x-pod": "a"}, None, None, {"y_total{}": 3.0})
    assert look_of(Answer(200, {"content-type": "application/json"}, b"{}", 0.0)) == Look()


def test_other_cache_settings_are_another_server() -> None:
    looks = [Look(config=f'{{"block_size":"16","cache_dtype":"{kind}"}}') for kind in ("auto", "fp8")]
    seen = replicas_seen(looks)
    assert (seen.count, seen.signs) == (2, ("cache settings: cache_dtype=auto, cache_dtype=fp8",))


def test_nothing_to_tell_replicas_by() -> None:
    assert replicas_seen([Look(), Look()]).count is None


@given(st.lists(st.sampled_from([1.0, 2.0, 3.0]), min_size=1, max_size=8))
def test_as_many_as_there_are_start_times(started: list[float]) -> None:
    assert replicas_seen([Look(started=at) for at in started]).count == len(set(started))


@pytest.mark.parametrize(
    ("cpu", "starts", "one"),
    [
        ((1.0, 1.1, 1.2), (5.0, 5.0), True),
        ((1.0, 9.0, 1.2), (5.0, 5.0), False),
        ((1.0, 1.1, 1.2), (5.0, 6.0), False),
    ],
)
def test_two_addresses_of_one_process(cpu: tuple[float, ...], starts: tuple[float, float], one: bool) -> None:
    first, second, again = (
        Look(started=at, counters={"process_cpu_seconds_total{}": used})
        for at, used in zip((starts[0], starts[1], starts[0]), cpu, strict=True)
    )
    assert one_process(first, second, again) is one


@pytest.mark.parametrize(
    ("made", "apart"), [((7.0, 7.0), True), ((7.0, 9.0), False), ((None, 7.0), False), ((None, None), False)]
)
def test_two_that_were_started_together_are_told_apart_by_a_request(
    made: tuple[float | None, float | None], apart: bool
) -> None:
    """vLLM counts its tokens by engine; the count of one that did not answer stands still."""
    before, after = (
        None if tokens is None else Look(counters={
            'vllm:generation_tokens_total{engine="0"}': tokens, 'vllm:generation_tokens_total{engine="1"}': 2.0,
            "http_requests_total{}": float(n),
        })
        for n, tokens in enumerate(made)
    )  # fmt: skip
    assert did_not_serve(before, after) is apart
    assert did_not_serve(Look(counters={"x_total{}": 1.0}), Look(counters={"x_total{}": 1.0})) is False


def stream(*at_ms: float, seconds: float, status: int = 200, waited: float = 0.0) -> Streamed:
    events = [(round(at * MS), {"choices": [{"text": "x"}]}) for at in at_ms]
    return Streamed(status, {}, [*events, (0, {"choices": []})], seconds, waited)


ONE = stream(1, seconds=0.010)


def test_chunks_that_come_as_they_are_made() -> None:
    assert arrivals(ONE, stream(*range(0, 100, 10), seconds=0.110)).buffered is False


def test_chunks_that_were_held_back() -> None:
    found = arrivals(ONE, stream(*(100 + i / 100 for i in range(10)), seconds=0.110))
    assert found == Arrivals(1.0, 10, pytest.approx(0.1))  # type: ignore[arg-type]
    assert found.buffered is True


@pytest.mark.parametrize(
    ("many", "why"),
    [
        (stream(*(i / 100 for i in range(10)), seconds=0.0105),
         "the server took 0.5 ms for 9 further chunks: too little to tell a buffer by"),
        (stream(1, 2, seconds=0.5), "a short stream had 2 chunks with tokens"),
        (stream(seconds=0.5, status=429), "a short streamed request was answered with HTTP 429"),
        (stream(*(i / 100 for i in range(10)), seconds=0.110, waited=0.06),
         "the client had no core of its own while a short stream came"),
    ],
)  # fmt: skip
def test_what_cannot_be_told(many: Streamed, why: str) -> None:
    found = arrivals(ONE, many)
    assert (found.buffered, found.why) == (None, why)


def test_a_round_trip_beside_the_objective() -> None:
    found = {"median": 0.1}
    assert large_share(found, {"ttft": {"at_most": 0.8}}) == pytest.approx(0.125)
    assert large_share(found, {"ttft": {"at_most": 1.01}}) is None
    assert large_share("no answer", {"ttft": {"at_most": 0.8}}) is None
    assert large_share(found, None) is None


def field(value: Any, source: str = "observed", **more: Any) -> dict[str, Any]:
    return {"value": value, "source": source, **more}


def test_a_probe_adds_what_nobody_saw() -> None:
    fields = {"engine.version": field("0.32.0"), "gpu.count": field(None, "unknown", why="not told over HTTP")}
    probe = {"engine.version": field("0.32.0+cpu"), "gpu.count": field(8), "engine.commit": field("abc")}
    assert with_probe("baseline", fields, probe, at_home=True) == {
        "gpu.count": {"value": 8, "source": "observed", "by": "probe"},
        "engine.commit": {"value": "abc", "source": "observed", "by": "probe"},
    }
    assert set(with_probe("baseline", fields, probe, at_home=False)) == {"gpu.count"}


def test_a_probe_of_an_earlier_process() -> None:
    """What the file says of a process says nothing of the one that was started since; the host is the same."""
    start = "2026-05-01T10:00:00.000+00:00"
    fields = {"process.started": field(start, volatile=True), "model.weights_sha256": field("sha256:c", "declared")}
    probe = {
        "process.started": field("2026-05-01T09:00:00+00:00", volatile=True),
        "process.argv": field(["vllm"]), "engine.packages": field({"vllm": "1"}), "gpu.count": field(8),
        "model.weights_sha256": field({"a": "sha256:b"}), "container.image": field(None, "unknown", why="not told"),
    }  # fmt: skip
    why = (
        "its probe's file is of a process started at 2026-05-01T09:00:00+00:00, the server that answers was started at "
        f"{start}: run `benchcard probe` again"
    )
    found = with_probe("baseline", fields, probe, at_home=True)
    silent = {"value": None, "source": "unknown", "why": why}
    assert found == {
        "process.argv": silent, "engine.packages": silent, "gpu.count": {**field(8), "by": "probe"},
        "container.image": silent,
    }  # fmt: skip
    # the kernel tells seconds, and reckons them from a clock that is set now and then
    probe["process.started"]["value"] = "2026-05-01T10:00:07+00:00"
    assert with_probe("baseline", fields, probe, at_home=True)["process.argv"]["value"] == ["vllm"]
    # several replicas, or none that tells
    for other in (field([start, "2026-05-01T11:00:00+00:00"]), field(None, "unknown", why="w")):
        again = with_probe("baseline", {"process.started": {**other, "volatile": True}}, probe, at_home=True)
        assert again["process.argv"]["value"] == ["vllm"]


def test_a_probe_beside_what_vllm_retells_of_its_host() -> None:
    """vLLM's /server_info words: the probe's take their place, and contradict nothing but by a version."""
    fields = {
        "host.os": field("Debian GNU/Linux 12 (bookworm) (x86_64)"),
        "host.kernel": field("Linux-6.1.0-x86_64-with-glibc2.36"), "host.hypervisor": field("KVM"),
        "engine.packages": field({"vllm": "0.32.0", "torch": "2.13.0+cpu", "pyzmq": "27.3.0"}),
    }  # fmt: skip
    probe = {
        "host.os": field("Debian GNU/Linux 12 (bookworm)"), "host.kernel": field("6.1.0"),
        "host.hypervisor": field("a hypervisor that does not name itself"),
        "engine.packages": field({"vllm": "0.32.0+cpu", "torch": "2.13.0+cpu"}),
    }  # fmt: skip
    found = with_probe("baseline", fields, probe, at_home=True)
    assert found == {name: {**told, "by": "probe"} for name, told in probe.items()}
    probe["engine.packages"]["value"]["torch"] = "2.13.0+cu130"
    with pytest.raises(SystemUnderTestError, match=r"packages\.torch is 2\.13\.0\+cpu, as the server says"):
        with_probe("baseline", fields, probe, at_home=True)


def test_a_probe_of_another_configuration() -> None:
    fields = {"engine.cache_config": field({"block_size": "16", "cache_dtype": "auto"})}
    probe = {"engine.cache_config": field({"cache_dtype": "fp8", "more": 1})}
    with pytest.raises(SystemUnderTestError) as caught:
        with_probe("baseline", fields, probe, at_home=True)
    assert str(caught.value) == (
        "baseline: engine.cache_config.cache_dtype is auto, as the server says; its probe's file says fp8. Run "
        "`benchcard probe` on the host of the server that answers now"
    )
    # what moves from reading to reading contradicts nothing
    moving = {"server.load": field(1, volatile=True), "host.load": field(1, volatile=True)}
    assert with_probe("baseline", moving, {"host.load": field(7, volatile=True)}, at_home=True) == {}

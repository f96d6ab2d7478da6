"""The metrics page while a load runs: what is kept, and that no page, slow, dead or strange, stops the load."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from benchcard.runner.engines.probe import Endpoint, Probe, parse_metrics
from benchcard.runner.telemetry import page, record
from benchcard.runner.telemetry.page import Page, PageError, text_of
from benchcard.runner.telemetry.record import scrape, server_frame, watch

LABELS = 'engine="0",model_name="m"'


def text(tokens: int, start: float = 1000.0) -> str:
    return f"""\
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{{LABELS}}} 3.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{{{LABELS}}} {tokens}.0
vllm:generation_tokens_created{{{LABELS}}} 1.7e+09
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{{le="+Inf",{LABELS}}} 2.0
vllm:time_to_first_token_seconds_count{{{LABELS}}} 2.0
vllm:time_to_first_token_seconds_sum{{{LABELS}}} 0.5
# TYPE python_gc_collections_total counter
python_gc_collections_total{{generation="0"}} 1.0
python_gc_collections_created{{generation="0"}} 1.7e+09
process_start_time_seconds {start}
"""


Answer = Callable[[BaseHTTPRequestHandler, int], None]


def say(handler: BaseHTTPRequestHandler, body: str, status: int = 200) -> None:
    data = body.encode()
    handler.send_response(status)
    handler.send_header("content-length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


@contextmanager
def served(answer: Answer) -> Iterator[Endpoint]:
    """A server whose /metrics is `answer(handler, number of the request)`."""
    asked = iter(range(1, 1_000_000))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer(self, next(asked))

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    root = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield Endpoint(f"{root}/v1", f"{root}/metrics", {"authorization": "Bearer key"})
    finally:
        server.shutdown()
        server.server_close()


def wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)


def test_of_a_page_during_the_load_only_what_is_read_is_kept() -> None:
    seen: list[int] = []

    def answer(handler: BaseHTTPRequestHandler, number: int) -> None:
        assert handler.headers["authorization"] == "Bearer key"
        seen.append(number)
        say(handler, text(100 * number))

    with served(answer) as endpoint, watch(endpoint, 0.02) as rows:
        assert rows == []
        wait(lambda: len(seen) >= 3)
    assert {(when, name) for _, when, name, _, _ in rows} == {
        ("during", "vllm:num_requests_waiting"), ("during", "vllm:generation_tokens_total"),
        ("during", "process_start_time_seconds"),
    }  # fmt: skip
    tokens = [(at, value) for at, _, name, _, value in rows if name == "vllm:generation_tokens_total"]
    assert [value for _, value in tokens][:2] == [100.0, 200.0]
    assert [at for at, _ in tokens] == sorted(at for at, _ in tokens)
    frame = server_frame("b01", 0, rows)
    assert set(frame["labels"]) == {'{"engine":"0","model_name":"m"}', "{}"}


def test_before_and_after_the_whole_page_is_kept_but_for_other_creation_times() -> None:
    with served(lambda handler, _: say(handler, text(5))) as endpoint:
        probe = Probe(endpoint)
        names = [name for _, _, name, _, _ in scrape(probe, "before")]
        probe.close()
    assert "vllm:time_to_first_token_seconds_bucket" in names
    assert "vllm:generation_tokens_created" in names
    assert "python_gc_collections_total" in names
    assert "python_gc_collections_created" not in names


def test_a_page_that_never_comes_does_not_hold_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "PAGE_WITHIN_S", 0.05)
    asked = threading.Event()

    def answer(handler: BaseHTTPRequestHandler, _: int) -> None:
        asked.set()
        time.sleep(0.3)

    with served(answer) as endpoint, watch(endpoint, 0.02) as rows:
        asked.wait(10)
        time.sleep(0.1)
    assert rows == []


@pytest.mark.parametrize("status", [404, 500])
def test_a_page_that_is_refused(status: int) -> None:
    asked: list[int] = []

    def answer(handler: BaseHTTPRequestHandler, number: int) -> None:
        asked.append(number)
        say(handler, text(1), status)

    with served(answer) as endpoint, watch(endpoint, 0.02) as rows:
        wait(lambda: len(asked) >= 2)
    assert rows == []


def test_a_page_that_is_none() -> None:
    asked: list[int] = []

    def answer(handler: BaseHTTPRequestHandler, number: int) -> None:
        asked.append(number)
        say(handler, "vllm:num_requests_waiting{ not a page\n\x00\x01" if number < 3 else text(7))

    with served(answer) as endpoint, watch(endpoint, 0.02) as rows:
        wait(lambda: len(asked) >= 4)
    assert rows
    assert {value for _, _, name, _, value in rows if name == "vllm:num_requests_waiting"} == {3.0}


def test_a_connection_that_is_lost_is_made_again() -> None:
    asked: list[int] = []

    def answer(handler: BaseHTTPRequestHandler, number: int) -> None:
        asked.append(number)
        if number == 2:
            handler.connection.close()
            handler.close_connection = True
            return
        say(handler, text(number))

    with served(answer) as endpoint, watch(endpoint, 0.02) as rows:
        wait(lambda: len(asked) >= 4)
    values = [value for _, _, name, _, value in rows if name == "vllm:generation_tokens_total"]
    assert values[:2] == [1.0, 3.0]


def test_a_dead_server_and_a_server_without_metrics() -> None:
    with served(lambda handler, _: say(handler, text(1))) as endpoint:
        pass
    with watch(endpoint, 0.02) as rows:
        time.sleep(0.1)
    assert rows == []
    with watch(Endpoint("http://127.0.0.1:1/v1", None), 0.02) as rows:
        pass
    assert rows == []
    with pytest.raises(ValueError, match="no metrics page"):
        Page(Endpoint("http://127.0.0.1:1/v1", None))


def test_a_page_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "PAGE_AT_MOST", 1000)
    with served(lambda handler, _: say(handler, "#" * 5000)) as endpoint, pytest.raises(PageError):
        Page(endpoint).fetch()


def test_what_is_kept_is_the_page() -> None:
    with served(lambda handler, _: say(handler, text(1))) as endpoint:
        first = Page(endpoint)
        assert text_of(first.fetch()) == text(1)
        assert text_of(first.fetch()) == text(1)
        first.close()


def test_only_the_wanted_samples_are_parsed() -> None:
    rows = parse_metrics(text(5), {"vllm:num_requests_waiting"})
    assert rows == [("vllm:num_requests_waiting", '{"engine":"0","model_name":"m"}', 3.0)]
    assert parse_metrics("what is this { page") == []
    assert record.TELEMETRY_EVERY == 1.0

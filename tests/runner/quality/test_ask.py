"""Asking a server that answers, refuses, dawdles or talks nonsense: everything becomes an output."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from benchcard.runner.engines.probe import Endpoint
from benchcard.runner.quality.ask import Asking, Limits, ask_all, empty_cache, gives_token_ids
from benchcard.runner.quality.divergence import Output


class Server(ThreadingHTTPServer):
    daemon_threads = True
    seen: list[dict]
    together = 0
    most = 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"] or 0)) or b"{}")
        self.server.seen.append(body)
        self.server.together += 1
        self.server.most = max(self.server.most, self.server.together)
        time.sleep(body.get("sleep", 0.01))
        self.server.together -= 1
        status, reply = body.get("status", 200), {"choices": [{"text": str(body.get("n")), "finish_reason": "stop"}]}
        if "return_token_ids" in body:
            status = 400
        data = json.dumps(reply).encode() if not body.get("nonsense") else b"<html>"
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: object) -> None: ...


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(("127.0.0.1", 0), Handler)
    made.seen = []
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()


def endpoint(server: Server) -> Endpoint:
    return Endpoint(f"http://127.0.0.1:{server.server_port}/v1", None)


def asking(before: bool = False, **body: object) -> Asking:
    return Asking("/completions", json.dumps(body).encode(), b'{"n": "before"}' if before else None)


LIMITS = Limits(4, 2.0, 5.0, 30.0)


def test_outputs_come_in_the_order_of_the_askings(server: Server) -> None:
    counted: list[int] = []
    found = ask_all(endpoint(server), [asking(n=n) for n in range(20)], LIMITS, lambda: counted.append(1))
    assert found == [Output("ok", str(n), None, None, "stop", None) for n in range(20)]
    assert len(counted) == 20
    assert 1 < server.most <= 4


def test_failures_are_outputs(server: Server) -> None:
    slow = Limits(4, 2.0, 0.5, 30.0)
    askings = [asking(n=1), asking(status=503), asking(nonsense=True), asking(sleep=2), asking(n=2)]
    found = ask_all(endpoint(server), askings, slow, lambda: None)
    assert [output.outcome for output in found] == ["ok", "http_error 503", "malformed", "timeout", "ok"]
    assert [output.answered for output in found] == [True, False, False, False, True]


def test_nobody_there() -> None:
    nowhere = Endpoint("http://127.0.0.1:9/v1", None)
    assert ask_all(nowhere, [asking(n=1)], LIMITS, lambda: None) == [Output("connection")]
    assert empty_cache(nowhere) is False


def test_what_is_not_sent_in_time_is_not_asked(server: Server) -> None:
    short = Limits(1, 2.0, 5.0, 0.5)
    found = ask_all(endpoint(server), [asking(sleep=0.3, n=n) for n in range(9)], short, lambda: None)
    assert found[0] == Output("ok", "0", None, None, "stop", None)
    assert found[-1] is None
    assert len(server.seen) == sum(output is not None for output in found)


def test_a_prompt_is_sent_before_it_counts(server: Server) -> None:
    one = Limits(1, 2.0, 5.0, 30.0)
    ask_all(endpoint(server), [asking(before=True, n=1), asking(before=True, n=2)], one, lambda: None)
    assert [body["n"] for body in server.seen] == ["before", 1, "before", 2]


def test_a_server_that_does_not_know_token_ids(server: Server) -> None:
    assert gives_token_ids(endpoint(server), "/completions", b'{"return_token_ids": true}') is False
    assert gives_token_ids(endpoint(server), "/completions", b'{"n": 1}') is True

"""What goes wrong on the way to a server, told apart; retries, where a card asks for them; the cap."""

from __future__ import annotations

import errno
import os
import ssl
from pathlib import Path

import pytest
import trustme
from benchcard.runner.client import pool as pool_module
from benchcard.runner.client.attempt import Attempt
from benchcard.runner.client.faults import note_unconnected
from benchcard.runner.client.wire import Target
from benchcard.runner.engines.process import free_port
from benchcard.schema.event import FAILURES, OUTCOMES

from .drive import drive
from .scripted import DONE, FIN, Script, ScriptedServer, content, stream, usage

OK = stream((0, content("a") + FIN + usage(1) + DONE))
BUSY: Script = [(0, b"HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n")]


def what(rows: list[dict]) -> list[tuple[str, str | None, int]]:
    return [(row["outcome"], row["failure"], row["tries"]) for row in rows]


def test_refused(tmp_path: Path) -> None:
    (row,), _ = drive(free_port(), tmp_path, [0])
    assert what([row]) == [("connect_error", "refused", 1)]
    assert row["error"] == "no connection: Connection refused"


def test_a_name_that_does_not_resolve(tmp_path: Path) -> None:
    (row,), _ = drive(80, tmp_path, [0], target=Target("no-such-host.invalid", 80, False, "/v1"))
    assert what([row]) == [("connect_error", "dns", 1)]


def test_the_address_that_has_the_server(tmp_path: Path) -> None:
    """`localhost` may be ::1 first, with the server on 127.0.0.1 alone."""
    with ScriptedServer(lambda n: OK) as server:
        rows, _ = drive(server.port, tmp_path, [0, 10], target=Target("localhost", server.port, False, "/v1"))
    assert [row["outcome"] for row in rows] == ["ok", "ok"]


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.EADDRNOTAVAIL, ("client_error", "no_port")),
        (errno.EMFILE, ("client_error", "no_descriptor")),
        (errno.ENOBUFS, ("client_error", "no_memory")),
        (errno.ENETUNREACH, ("connect_error", "unreachable")),
        (errno.ECONNRESET, ("connect_error", "reset")),
        (errno.EPROTO, ("connect_error", "other")),
    ],
)
def test_the_systems_errors(number: int, expected: tuple[str, str]) -> None:
    attempt = Attempt(0, "measure", 0, 0)
    note_unconnected(attempt, OSError(number, os.strerror(number)))
    assert (attempt.fault, attempt.failure) == expected
    assert expected[0] in OUTCOMES
    assert expected[1] in FAILURES
    assert attempt.error == f"no connection: {os.strerror(number)}"


def test_no_descriptor_left(tmp_path: Path) -> None:
    """The client's own limit is the client's own fault, and the attempts that had one are not touched."""
    import resource

    slow = stream((400, content("a") + FIN + usage(1) + DONE))
    with ScriptedServer(lambda n: slow) as server:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # The server's thread opens its sockets in this process too: two descriptors an attempt.
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 24, hard))
        try:
            rows, _ = drive(server.port, tmp_path, [0.0] * 60, timeouts_ms=(300, 2000, 3000))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    failed = [row for row in rows if row["outcome"] == "client_error"]
    assert failed
    assert {row["failure"] for row in failed} == {"no_descriptor"}
    assert len(rows) == 60


@pytest.fixture
def authority(tmp_path: Path) -> tuple[trustme.CA, Path]:
    ca = trustme.CA()
    path = tmp_path / "ca.pem"
    ca.cert_pem.write_to_path(str(path))
    return ca, path


def server_context(ca: trustme.CA, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(name).configure_cert(context)
    return context


def test_https_is_verified(tmp_path: Path, authority: tuple[trustme.CA, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Trusted by an authority that the environment names; refused without it, and where the name is another's."""
    ca, path = authority
    with ScriptedServer(lambda n: OK, tls=server_context(ca, "localhost")) as server:
        target = Target("localhost", server.port, True, "/v1")
        (untrusted,), _ = drive(server.port, tmp_path, [0], target=target)
        monkeypatch.setenv("SSL_CERT_FILE", str(path))
        rows, _ = drive(server.port, tmp_path, [0, 30], target=target)
        (other,), _ = drive(server.port, tmp_path, [0], target=Target("127.0.0.1", server.port, True, "/v1"))
    assert [(row["outcome"], row["reused"], len(row["chunk_times"])) for row in rows] == [
        ("ok", False, 1), ("ok", True, 1),
    ]  # fmt: skip
    assert what([untrusted, other]) == [("connect_error", "tls", 1)] * 2
    assert "the certificate was not accepted" in untrusted["error"]
    assert "127.0.0.1" in other["error"]


def test_https_asked_of_a_plain_server(tmp_path: Path) -> None:
    plain: Script = [(0, b"HTTP/1.1 400 Bad\r\ncontent-length: 0\r\n\r\n")]
    with ScriptedServer(lambda n: plain) as server:
        target = Target("127.0.0.1", server.port, True, "/v1")
        (row,), _ = drive(server.port, tmp_path, [0], target=target, timeouts_ms=(500, 1000, 2000))
    assert row["outcome"] in ("connect_error", "timeout_connect")


def test_no_retry_unless_asked_for(tmp_path: Path) -> None:
    with ScriptedServer(lambda n: BUSY) as server:
        rows, _ = drive(server.port, tmp_path, [0])
    assert what(rows) == [("http_error", None, 1)]
    assert len(server.requests) == 1


def test_a_retry_is_counted_and_its_delay_stays(tmp_path: Path) -> None:
    """Busy twice, then well: three tries, 100 ms apart, in the latency from the schedule."""
    with ScriptedServer(lambda n: BUSY if n < 2 else OK) as server:
        (row,), _ = drive(server.port, tmp_path, [0], retries=2)
    assert what([row]) == [("ok", "http_503", 3)]
    assert row["error"] == "note: try 3, after http_503"
    assert len(server.requests) == 3
    assert row["first_token"] >= server.sent[2][0]
    assert server.arrivals[2] - row["scheduled"] >= 200_000_000
    assert row["sent"] >= server.sent[1][0]  # the stamps are the last try's


def test_retries_end(tmp_path: Path) -> None:
    with ScriptedServer(lambda n: BUSY) as server:
        rows, _ = drive(server.port, tmp_path, [0], retries=2)
    assert what(rows) == [("http_error", "http_503", 3)]
    assert len(server.requests) == 3


def test_what_a_server_has_answered_is_not_retried(tmp_path: Path) -> None:
    cut: Script = [(0, stream((0, content("a")), end=False)[0][1]), (10, None)]
    wrong: Script = [(0, b"HTTP/1.1 400 No\r\ncontent-length: 0\r\n\r\n")]
    for script, outcome in ((cut, "truncated"), (wrong, "http_error")):
        with ScriptedServer(lambda n, script=script: script) as server:
            rows, _ = drive(server.port, tmp_path, [0], retries=3)
        assert what(rows) == [(outcome, None, 1)]


def test_a_retry_does_not_outlast_timeout_total(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "RETRY_PAUSE_S", 0.5)
    with ScriptedServer(lambda n: BUSY) as server:
        rows, _ = drive(server.port, tmp_path, [0], retries=9, timeouts_ms=(300, 300, 700))
    assert what(rows) == [("timeout_total", "http_503", 3)]
    assert len(server.requests) == 2


def test_refused_and_retried(tmp_path: Path) -> None:
    (row,), _ = drive(free_port(), tmp_path, [0], retries=1)
    assert what([row]) == [("connect_error", "refused", 2)]


def test_a_server_that_worked_on_it_and_then_closed_is_not_asked_again(tmp_path: Path) -> None:
    """A kept-alive connection closed 0.4 s after the request went out: that is no race, it is the server's answer."""
    close: Script = [(400, None)]
    with ScriptedServer(lambda n: close if n == 1 else OK) as server:
        rows, _ = drive(server.port, tmp_path, [0, 100, 800])
    assert what(rows) == [("ok", None, 1), ("connect_error", "lost", 1), ("ok", None, 1)]
    assert rows[1]["error"] == "kept-alive connection lost before the first byte of the reply"
    assert len(server.requests) == 3


def test_a_race_for_a_kept_alive_connection_costs_no_retry(tmp_path: Path) -> None:
    """The first try crosses the server's close, the second is told 503, the third is the one retry of the card."""
    closing: Script = [*OK, (0, None)]
    scripts = {0: closing, 1: BUSY, 2: OK}
    with ScriptedServer(lambda n: scripts[n]) as server:
        rows, _ = drive(server.port, tmp_path, [0, 60], retries=1)
    assert rows[1]["outcome"] == "ok"
    assert rows[1]["tries"] in (2, 3)  # 2 where the client had noticed the close in time
    assert len(server.requests) == 3


def test_at_the_end_of_the_cell_every_attempt_has_a_row(tmp_path: Path) -> None:
    """Held attempts, connections under way, retry pauses: what was taken up is a row, whatever became of it."""
    closing: Script = [*stream((30, content("a") + FIN + usage(1) + DONE)), (0, None)]
    window = {"warmup": {"requests": 0}, "measure": {"requests": 6}, "drain": 1.0}
    for _ in range(5):
        with ScriptedServer(lambda n: closing) as server:
            rows, _ = drive(server.port, tmp_path, [5.0 * i for i in range(40)], window=window, in_flight=2)
        taken = [row["index"] for row in rows]
        assert taken == list(range(len(taken)))  # without a gap
        assert len(server.requests) <= len(taken)


def test_no_slot_within_timeout_total(tmp_path: Path) -> None:
    slow = stream((500, content("a") + FIN + usage(1) + DONE))
    with ScriptedServer(lambda n: slow) as server:
        rows, load = drive(server.port, tmp_path, [0, 1, 2], in_flight=1, timeouts_ms=(900, 900, 900))
    assert [row["outcome"] for row in rows] == ["ok", "timeout_total", "timeout_total"]
    assert rows[2]["sent"] is None
    assert rows[2]["error"] == "no slot under in_flight was free within timeout_total"
    assert load.peak_in_flight == 1
    assert len(server.requests) == 2

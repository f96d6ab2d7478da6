"""The client against a server that sends exact bytes at exact times. Times in ms; the truth is the server's own log.

No clock of this machine is asserted on: a stamp is compared with the moment at which the server sent the piece, and
must
lie after it. How long after is a matter of the machine, and is bounded only where a wrong stamp would be far off.
"""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path

import pytest

from .drive import MS, drive
from .scripted import DONE, END, FIN, HEAD, RESET, ROLE, Script, ScriptedServer, chunked, content, delta, stream, usage

OK = stream((0, ROLE + content("a") + content("b") + FIN + usage(2) + DONE))


def test_role_chunk_is_no_token(tmp_path: Path) -> None:
    script = stream((10, ROLE), (200, content("a")), (220, content("b")), (220, FIN + usage(2) + DONE))
    with ScriptedServer(lambda n: script) as server:
        (row,), _ = drive(server.port, tmp_path, [0])
    sent = server.sent[0]
    assert row["outcome"] == "ok"
    assert sent[0] <= row["first_chunk"] < sent[1] <= row["first_token"] < sent[2] <= row["last_token"] <= row["end"]
    assert row["chunk_times"] == [row["first_token"], row["last_token"]]
    assert (row["input_tokens"], row["output_tokens"]) == (5, 2)


def test_utf8_and_lines_split_between_reads(tmp_path: Path) -> None:
    whole = chunked(content("中"))
    at = whole.index("中".encode()) + 1
    script: Script = [(0, HEAD), (10, whole[:at]), (60, whole[at:]), (60, chunked(FIN + DONE) + END)]
    with ScriptedServer(lambda n: script) as server:
        (row,), _ = drive(server.port, tmp_path, [0])
    assert (row["outcome"], row["chunk_bytes"]) == ("ok", [3])
    assert row["first_token"] >= server.sent[0][2]


def test_terminator_split_between_reads(tmp_path: Path) -> None:
    body = HEAD + chunked(content("a") + FIN + DONE) + END
    script: Script = [(0, body[:-3]), (20, body[-3:-1]), (40, body[-1:])]
    with ScriptedServer(lambda n: script) as server:
        rows, _ = drive(server.port, tmp_path, [0, 1000])
    assert [row["outcome"] for row in rows] == ["ok", "ok"]
    assert [row["reused"] for row in rows] == [False, True]
    assert rows[0]["end"] >= server.sent[0][2]


def test_reasoning_comes_before_the_answer(tmp_path: Path) -> None:
    pieces = [(10 * i, delta(reasoning_content="r")) for i in range(10)]
    with ScriptedServer(lambda n: stream(*pieces, (200, content("a") + FIN + usage(11) + DONE))) as server:
        (row,), _ = drive(server.port, tmp_path, [0])
    assert row["chunk_kinds"] == ["reasoning"] * 10 + ["content"]
    assert row["first_token"] < server.sent[0][1]
    assert row["first_answer_token"] >= server.sent[0][10]


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ([(0, HEAD + chunked(content("a"))), (10, None)], "truncated"),
        ([(0, HEAD + chunked(content("a"))), (10, RESET)], "truncated"),
        ([(0, None)], "connect_error"),
        ([(0, HEAD + chunked(content("a") + FIN)), (10, None)], "ok"),
        ([(0, b"HTTP/1.1 503 No\r\ncontent-length: 4\r\n\r\nbusy")], "http_error"),
        ([(0, b"nonsense\r\n\r\n")], "stream_error"),
        ([(0, HEAD + chunked(content("a"))), (1500, END)], "timeout_idle"),
        ([(0, HEAD), *[(100 * i, chunked(content("a"))) for i in range(20)]], "timeout_total"),
    ],
)
def test_outcomes_on_the_wire(tmp_path: Path, script: Script, outcome: str) -> None:
    with ScriptedServer(lambda n: script) as server:
        (row,), _ = drive(server.port, tmp_path, [0], timeouts_ms=(1000, 300, 800))
    assert row["outcome"] == outcome


def test_closed_port(tmp_path: Path) -> None:
    with ScriptedServer(lambda n: OK) as server:
        port = server.port
    rows, _ = drive(port, tmp_path, [0, 1, 2])
    assert [row["outcome"] for row in rows] == ["connect_error"] * 3
    assert all("refused" in row["error"].lower() for row in rows)


def test_a_stalled_stream_does_not_hold_the_others(tmp_path: Path) -> None:
    stall: Script = [(0, HEAD + chunked(content("a"))), (2000, END)]
    with ScriptedServer(lambda n: stall if n == 1 else OK) as server:
        rows, _ = drive(server.port, tmp_path, [0, 30, 60], timeouts_ms=(1000, 300, 5000))
    assert [row["outcome"] for row in rows] == ["ok", "timeout_idle", "ok"]


def test_open_loop_keeps_the_schedule_whatever_the_server_does(tmp_path: Path) -> None:
    slow = stream((400, ROLE + content("a") + FIN + DONE))
    offsets = [20.0 * i for i in range(15)]
    with ScriptedServer(lambda n: slow) as server:
        rows, load = drive(server.port, tmp_path, offsets)
    assert [row["scheduled"] - rows[0]["scheduled"] for row in rows] == [round(20 * MS * i) for i in range(15)]
    # Every request was out before the first reply was: none waited for a connection.
    assert max(server.arrivals) < min(times[0] for times in server.sent.values())
    assert load.peak_in_flight == 15


def test_closed_loop_holds_its_concurrency_and_counts_by_turn(tmp_path: Path) -> None:
    running = peak = 0
    lock = threading.Lock()

    def script(n: int) -> Script:
        nonlocal running, peak
        with lock:
            running += 1
            peak = max(peak, running)

        def leave() -> bytes:
            nonlocal running
            with lock:
                running -= 1
            return HEAD + chunked(content("a") + FIN + DONE) + END

        return _Late(20, leave)

    window = {"warmup": {"requests": 6}, "measure": {"requests": 12}, "drain": 1.0}
    with ScriptedServer(script) as server:
        rows, load = drive(server.port, tmp_path, concurrency=3, requests=60, window=window)
    assert peak == 3
    phases = [row["phase"] for row in sorted(rows, key=lambda row: (row["scheduled"], row["index"]))]
    assert phases.count("warmup") == 6
    assert phases.count("measure") == 12
    assert phases == sorted(phases, key=["warmup", "measure", "drain"].index)
    # Client c takes its own requests in order, each scheduled when the one before had ended.
    for client in range(3):
        mine = [row for row in rows if row["index"] % 3 == client]
        for before, after in pairwise(mine):
            assert after["scheduled"] == before["end"]
    counted = [row["scheduled"] for row in rows if row["phase"] == "measure"]
    uncounted = [row["scheduled"] for row in rows if row["phase"] == "drain"]
    # The window ends where the first uncounted request was due, sent or (all counted ones having ended) not.
    assert load.window_start == min(counted)
    assert load.window_end is not None
    assert max(counted) <= load.window_end
    assert not uncounted or load.window_end == min(uncounted)


class _Late(list):  # type: ignore[type-arg]
    """A script of one piece that is made when it is sent."""

    def __init__(self, at: float, make: object) -> None:
        super().__init__()
        self._at, self._make = at, make

    def __iter__(self):  # type: ignore[no-untyped-def]
        import time

        time.sleep(self._at / 1e3)
        yield 0, self._make()  # type: ignore[operator]


def test_the_load_goes_on_until_the_last_counted_attempt_has_ended(tmp_path: Path) -> None:
    slow = stream((500, ROLE + content("a") + FIN + DONE))
    with ScriptedServer(lambda n: slow if n == 1 else OK) as server:
        rows, _ = drive(
            server.port,
            tmp_path,
            [0, 10, *[20 + 20 * i for i in range(100)]],
            window={"warmup": {"requests": 0}, "measure": {"requests": 2}, "drain": 5.0},
        )
    assert [row["phase"] for row in rows][:3] == ["measure", "measure", "drain"]
    # Uncounted ones went out all the while, and none after.
    assert 20 <= len(rows) <= 30
    assert max(row["scheduled"] for row in rows) <= rows[1]["end"]


def test_all_connections_at_once(tmp_path: Path) -> None:
    slow = stream((1500, ROLE + content("a") + FIN + DONE))
    with ScriptedServer(lambda n: slow) as server:
        rows, load = drive(server.port, tmp_path, [0.0] * 150)
    assert [row["outcome"] for row in rows] == ["ok"] * 150
    assert load.peak_in_flight == 150
    assert max(server.arrivals) < min(times[0] for times in server.sent.values())


def test_interim_replies_are_not_the_reply(tmp_path: Path) -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
    script: Script = [(0, interim), (50, HEAD + chunked(content("a") + FIN + DONE) + END)]
    with ScriptedServer(lambda n: script) as server:
        rows, _ = drive(server.port, tmp_path, [0, 1000])
    assert [(row["outcome"], row["status"], len(row["chunk_times"])) for row in rows] == [("ok", 200, 1)] * 2
    assert all(row["first_token"] >= server.sent[i][1] for i, row in enumerate(rows))


def test_a_kept_alive_connection_closed_under_the_request(tmp_path: Path) -> None:
    """The server closes after each reply without having said so: the request goes out again, once, and says so."""
    script: Script = [(0, HEAD + chunked(content("a") + FIN + DONE) + END), (0, None)]
    with ScriptedServer(lambda n: script) as server:
        rows, _ = drive(server.port, tmp_path, concurrency=1, requests=20)
    assert [row["outcome"] for row in rows] == ["ok"] * 20
    again = [row for row in rows if row["error"] is not None]
    assert all("sent again" in row["error"] and not row["reused"] for row in again)
    assert len(server.requests) == 20


def test_a_reply_after_timeout_total_has_timed_out(tmp_path: Path) -> None:
    late = stream((325, ROLE + content("a") + FIN + DONE))
    with ScriptedServer(lambda n: late) as server:
        rows, _ = drive(server.port, tmp_path, [20.0 * i for i in range(20)], timeouts_ms=(1000, 1000, 300))
    assert [row["outcome"] for row in rows] == ["timeout_total"] * 20


def test_a_closed_loop_against_a_server_that_refuses_at_once(tmp_path: Path) -> None:
    """Failures count, and do not draw the plan empty."""
    busy: Script = [(0, b"HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n")]
    window = {"warmup": {"requests": 2}, "measure": {"seconds": 1.0}, "drain": 1.0}
    with ScriptedServer(lambda n: busy) as server:
        rows, load = drive(server.port, tmp_path, concurrency=2, requests=100, window=window)
    assert load.plan_exhausted is False
    counted = [row for row in rows if row["phase"] == "measure"]
    assert {row["outcome"] for row in counted} == {"http_error"}
    assert len(counted) <= 22  # two clients, a pause of 100 ms after each failure

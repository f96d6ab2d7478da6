"""The spool: everything comes back, in any number, and what a kill cut short ends it without harm."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchcard.runner.client.attempt import NUMBERS, TEXTS, Attempt
from benchcard.runner.client.requests import RequestFile
from benchcard.runner.client.spool import Spool, _record, read_spool
from hypothesis import given
from hypothesis import strategies as st

INTEGERS = st.integers(0, 2**62)
MAYBE = st.none() | INTEGERS


@st.composite
def attempts(draw: st.DrawFn) -> Attempt:
    attempt = Attempt(
        draw(st.integers(0, 10**6)), "measure", draw(INTEGERS), draw(INTEGERS), draw(st.none() | INTEGERS)
    )
    attempt.sent, attempt.end = draw(MAYBE), draw(MAYBE)
    attempt.error = draw(st.none() | st.text(max_size=20))
    attempt.reads = draw(st.lists(st.binary(max_size=40), max_size=8))
    attempt.times = draw(st.lists(INTEGERS, min_size=len(attempt.reads), max_size=len(attempt.reads)))
    return attempt


def same(one: Attempt, other: Attempt) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in (*NUMBERS, *TEXTS, "times", "reads"))


@given(st.lists(attempts(), max_size=5), st.integers(0, 400))
def test_round_trip_and_any_cut(tmp_path_factory, some: list[Attempt], cut: int) -> None:  # type: ignore[no-untyped-def]
    """Whole records come back as they were, however much of the last one is missing."""
    path = tmp_path_factory.getbasetemp() / "spool"
    records = [_record(attempt) for attempt in some]
    whole = b"".join(records)
    path.write_bytes(whole)
    back = list(read_spool(path))
    assert len(back) == len(some)
    assert all(same(a, b) for a, b in zip(some, back, strict=True))
    path.write_bytes(whole[: max(0, len(whole) - cut)])
    left = list(read_spool(path))
    ends = [sum(map(len, records[: i + 1])) for i in range(len(records))]
    assert len(left) == sum(end <= max(0, len(whole) - cut) for end in ends)
    assert all(same(a, b) for a, b in zip(some, left, strict=False))


def test_zeros_that_a_crash_of_the_machine_left(tmp_path: Path) -> None:
    one = _record(Attempt(7, "measure", 1, 2))
    for zeros in (1, 12, 200, 5000):
        (tmp_path / "spool").write_bytes(one + bytes(zeros))
        assert [attempt.index for attempt in read_spool(tmp_path / "spool")] == [7]


def test_what_has_ended_is_on_disk_soon(tmp_path: Path) -> None:
    """Half a second after an attempt has ended, the system has it: kill -9 takes no more than that."""

    async def main() -> int:
        spool = Spool(tmp_path / "spool")
        for i in range(300):
            spool.add(Attempt(i, "measure", 0, 0))
        await asyncio.sleep(1.5)
        found = sum(1 for _ in read_spool(tmp_path / "spool"))
        spool.close()
        return found

    assert asyncio.run(main()) == 300


def test_an_attempt_that_ends_after_the_spool_was_closed(tmp_path: Path) -> None:
    """An interrupted cell closes its spool, and then its connections report their ends: no traceback on a terminal."""
    raised: list[dict[str, object]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context))
        spool = Spool(tmp_path / "spool")
        spool.add(Attempt(1, "measure", 0, 0))
        spool.close()
        spool.add(Attempt(2, "measure", 0, 0))
        await asyncio.sleep(0.05)

    asyncio.run(main())
    assert raised == []
    assert [attempt.index for attempt in read_spool(tmp_path / "spool")] == [1]


def test_requests_in_a_file(tmp_path: Path) -> None:
    requests = [b"one", b"", b"three" * 1000]
    opened = RequestFile.write(tmp_path / "r", requests).open()
    assert [opened[i] for i in range(3)] == requests
    opened.close()
    RequestFile.write(tmp_path / "none", []).open().close()


VICTIM = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from tests.runner.client.drive import drive
drive({port}, Path({folder!r}), [10.0 * i for i in range(1000)], workers={workers})
"""


def test_kill_9_leaves_what_has_ended(tmp_path: Path) -> None:
    from .scripted import DONE, FIN, ScriptedServer, content, stream, usage

    ok = stream((0, content("a") + FIN + usage(1) + DONE))
    root = str(Path(__file__).parents[3])
    for workers in (1, 2):
        folder = tmp_path / str(workers)
        folder.mkdir()
        with ScriptedServer(lambda n: ok) as server:
            script = VICTIM.format(tests=root, port=server.port, folder=str(folder), workers=workers)
            victim = subprocess.Popen([sys.executable, "-c", script], cwd=root)
            deadline = time.monotonic() + 60
            while len(server.requests) < 250 and time.monotonic() < deadline:
                time.sleep(0.02)
            os.kill(victim.pid, signal.SIGKILL)
            victim.wait()
            time.sleep(1.0)  # workers notice that they are alone
            after = len(server.requests)
            time.sleep(0.3)
            assert len(server.requests) == after, "a worker outlived its runner"
            kept = [a for spool in sorted(folder.glob("cell.*.spool")) for a in read_spool(spool)]
        assert len(kept) >= 150  # about 2.5 s of 10 ms each, less the last half second or so
        assert len({attempt.index for attempt in kept}) == len(kept)
        assert all(attempt.reads for attempt in kept if attempt.fault is None)

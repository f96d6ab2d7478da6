"""benchcard's own row: its measuring client, driven by itself in a process of its own. Here is all that knows its
interface.

    python ours.py URL STREAMS REQUESTS TOKENS      (what benchcard_row starts)
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from benchcard.runner.client.cell import CellLoad, read_attempts, run_cell
from benchcard.runner.client.load import LoadSpec
from benchcard.runner.client.pool import Rules, Timeouts
from benchcard.runner.client.reply import parse_reply
from benchcard.runner.client.requests import RequestFile
from benchcard.runner.client.wire import Target, request_prefix, request_rest
from benchcard.runner.client.worker import CellJob
from benchcard.runner.plan.requests import PlannedRequest
from benchcard.runner.plan.slots import CLOSED_LOOP_DRAIN_PER_CLIENT
from child import run_child
from loops import body
from peers import attempt
from row import LOAD, Measured, Row
from server import Served
from truth import GAPS, Figures, PeerError, Work, figures

_TIMEOUTS = Timeouts(connect=5 * 10**9, idle=10 * 10**9, total=120 * 10**9)


def benchcard_row(server: Served, streams: int, requests: int, tokens: int) -> Row:
    """benchcard. It keeps the load up until the last counted reply has ended: the server sends some tokens that do not
    count, and its rate is of all of them."""

    def measure() -> Measured:
        numbers = map(str, (streams, requests, tokens))
        command = [sys.executable, str(Path(__file__).resolve()), server.url, *numbers]
        result = json.loads(run_child(command, server.client_core).output)
        note = f"It parses after the load: {result['parsing'] / (requests * tokens) * 1e6:.1f} µs/token more."
        shown = Figures(**result["figures"])
        return Measured("", shown, GAPS, result["cpu"], LOAD, note, set(result["ids"]))

    return attempt("benchcard", server, Work(streams, requests, tokens), measure)


def _job(url: str, work: Work, folder: Path) -> CellJob:
    target = Target.from_url(f"{url}/v1")
    asked = json.dumps(body(work.tokens), separators=(",", ":")).encode()
    # The load goes on while the last counted replies end.
    count = work.requests + CLOSED_LOOP_DRAIN_PER_CLIENT * work.streams
    planned = [PlannedRequest(i, "", None, i % work.streams, None, 0, 5, work.tokens) for i in range(count)]
    window = {"warmup": {"requests": 0}, "measure": {"requests": work.requests}, "drain": 1.0}
    return CellJob(
        target,
        request_prefix(target, "chat"),
        Rules(_TIMEOUTS),
        LoadSpec(window, planned, work.streams, 0),
        RequestFile.write(folder / "requests", (request_rest(target, f"r{i}", asked) for i in range(count))),
        folder / "cell.spool",
    )


def _result(job: CellJob, load: CellLoad, tokens: int) -> dict[str, object]:
    """What the client measured; times in the spool are monotonic ns."""
    start = time.process_time()
    ids: list[str] = []
    waits: list[float] = []
    token_times: list[list[int]] = []
    received = 0
    for tried in read_attempts(job):
        times = [chunk.time for chunk in parse_reply(tried.times, tried.reads).chunks]
        received += len(times)
        if tried.phase != "measure":
            continue
        if tried.sent is None or len(times) != tokens:
            raise PeerError(f"request {tried.index}: {len(times)} tokens of {tokens} ({tried.fault})")
        ids.append(f"r{tried.index}")
        waits.append((times[0] - tried.sent) / 1e6)
        token_times.append(times)
    parsing = time.process_time() - start
    result = asdict(figures(waits, token_times, GAPS))
    # The CPU time was spent on all tokens that came, also on those that do not count: the counted ones' share of it.
    share = len(ids) * tokens / received
    return {"figures": result, "cpu": load.cpu / 1e9 * share, "parsing": parsing * share, "ids": ids}


def main() -> None:
    """The command line: run the load, print what came of it as one line of JSON."""
    url, *numbers = sys.argv[1:]
    work = Work(*map(int, numbers))
    with tempfile.TemporaryDirectory() as folder:
        job = _job(url, work, Path(folder))
        print(json.dumps(_result(job, run_cell(job), work.tokens)))


if __name__ == "__main__":
    main()

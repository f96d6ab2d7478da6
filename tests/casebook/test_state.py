"""Casebook 44, 45: whose numbers they are, and a number that is not there. And a server that was reset in a cell."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from benchcard.analysis.evidence import judge_evidence
from benchcard.analysis.read import read_bundle
from benchcard.analysis.server_cell import read_server
from benchcard.analysis.server_metrics import server
from benchcard.runner.engines import fleet as fleets
from benchcard.runner.engines.fleet import Fleet
from benchcard.runner.engines.probe import Endpoint, Probe
from benchcard.runner.plan.blocks import Cell
from benchcard.runner.telemetry.record import scrape, server_frame, watch
from benchcard.schema.card import load_card
from benchcard.schema.errors import SystemUnderTestError

from ..analysis.bundles import ab_card, build
from ..runner.cards import small_card


class Scripted:
    """A server whose health is good and whose metrics page is `page`."""

    def __init__(self) -> None:
        self.page = ""
        self.asked = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                data = (outer.page if self.path == "/metrics" else "{}").encode()
                self.send_response(200)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
                outer.asked.set()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def endpoint(self) -> Endpoint:
        root = f"http://127.0.0.1:{self.port}"
        return Endpoint(f"{root}/v1", f"{root}/metrics")

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def after_the_next_look(self, page: str) -> None:
        """Another page, once the one before was read during the load."""
        self.asked.clear()
        assert self.asked.wait(10)
        self.page = page
        self.asked.clear()
        assert self.asked.wait(10)


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    server = Scripted()
    yield server
    server.close()


def test_44_an_old_server_on_the_port(tmp_path: Path, scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    """It came to the port after the look whether the port is free, and says that it is healthy. The new arm's server
    has exited at bind, or is about to: what answers is not what was started, and nothing is measured."""
    card = load_card(small_card(tmp_path, flags=f", port: {scripted.port}")).resolved
    monkeypatch.setattr(fleets, "port_in_use", lambda port: False)
    notes: list[str] = []
    verified: list[Any] = []
    (tmp_path / "logs").mkdir()
    fleet = Fleet(
        card, tmp_path / "logs", lambda running, _: verified.append(running), lambda kind, **_: notes.append(kind)
    )
    try:
        with pytest.raises(SystemUnderTestError, match="baseline: another server answers on the port"):
            fleet.server_for(Cell("b01-baseline-l1", 1, "baseline", 1, 40.0))
    finally:
        fleet.stop_all()
    assert verified == []
    assert notes == []


NEW = 'vllm:kv_cache_usage_perc{engine="0"} 0.25\n'
OLD = 'vllm:gpu_cache_usage_perc{engine="0"} 0.25\n'
OTHER = 'vllm:num_requests_waiting{engine="0"} 2\n'


@pytest.mark.parametrize(("page", "usage"), [(NEW, 0.25), (OLD, 0.25), (OTHER, None)], ids=["new", "old", "neither"])
def test_45_a_renamed_metric(scripted: Scripted, page: str, usage: float | None) -> None:
    """Both names are read; of neither there is null and a warning, never 0."""
    scripted.page = page
    probe = Probe(scripted.endpoint)
    samples = scrape(probe, "before")
    with watch(scripted.endpoint, 0.1) as during:
        scripted.after_the_next_look(page)
    samples += during + scrape(probe, "after")
    probe.close()
    told = read_server(server_frame("b01", 0, samples), {"load_start": samples[0][0], "load_end": samples[-1][0]})
    document = server({("baseline", 1, 40.0): [("b01", told)]})
    (row,) = [row for row in document["rows"] if row["metric"] == "server.kv_cache_usage.mean"]
    assert row["value"] == usage
    missing = "the server exposes none of vllm:kv_cache_usage_perc, vllm:gpu_cache_usage_perc, sglang:token_usage"
    warned = [warning for warning in document["warnings"] if warning["text"] == missing]
    assert warned == ([] if usage is not None else [{"kind": "missing", "text": missing, "cells": ["b01"]}])
    assert row["undefined"] == (None if usage is not None else f"b01: {missing}")


def counters(queries: int, hits: int) -> str:
    return (
        "# TYPE vllm:prefix_cache_queries_total counter\n"
        f'vllm:prefix_cache_queries_total{{engine="0"}} {queries}\n'
        "# TYPE vllm:prefix_cache_hits_total counter\n"
        f'vllm:prefix_cache_hits_total{{engine="0"}} {hits}\n'
    )


@pytest.mark.parametrize("last", [counters(100, 50), counters(9000, 4000)], ids=["below", "above"])
def test_a_counter_that_was_reset_within_the_cell(scripted: Scripted, last: str, tmp_path: Path) -> None:
    """1,000 queries before; reset to 10 in the cell; at its end below where it was, or above: both are flagged, no rate
    is made of them, and what the card wants as evidence is unknown."""
    scripted.page = counters(1000, 800)
    probe = Probe(scripted.endpoint)
    samples = scrape(probe, "before")
    with watch(scripted.endpoint, 0.1) as during:
        scripted.after_the_next_look(counters(10, 0))
    scripted.page = last
    samples += during + scrape(probe, "after")
    probe.close()
    frame = server_frame("b01", 0, samples)
    told = read_server(frame, {"load_start": samples[0][0], "load_end": samples[-1][0]})
    assert told is not None
    assert told.reset is not None
    assert "went backwards" in told.reset
    document = server({("candidate", 1, 20.0): [("b01", told)]})
    assert [warning["kind"] for warning in document["warnings"]] == ["reset"]
    assert {row["value"] for row in document["rows"]} == {None}
    evidence = {"metric": "server.prefix_cache_hit_rate", "arm": "candidate", "direction": "at_least", "limit": 0.5}
    rows = frame.to_dicts()
    bundle = read_bundle(build(tmp_path, ab_card(method__blocks=1, method__spare_blocks=0), server=lambda *_: rows))
    (judged,) = judge_evidence(bundle, [evidence], [cell for block in bundle.blocks for cell in block.cells], [20.0])
    assert (judged["word"], judged["observed"]) == ("unknown", None)
    assert "went backwards" in judged["reason"]

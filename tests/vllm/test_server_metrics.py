"""The metrics of a real vLLM: what it exposes is what the catalogue reads, and client and server saw the same."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
from benchcard.analysis.server_cell import ServerCell, read_server
from benchcard.analysis.server_names import SERVER_NAMES

from .cards import benchcard


def told(run: Path, cell: str) -> ServerCell:
    client = pl.read_parquet(run / "telemetry" / f"client-{cell}.parquet").row(0, named=True)
    found = read_server(pl.read_parquet(run / "telemetry" / f"server-{cell}.parquet"), client)
    assert found is not None
    return found


def crosscheck(run: Path, what: str, load: float) -> list[dict[str, object]]:
    document = json.loads((run / "inference_baseline.json").read_text())
    return [row for row in document["crosscheck"] if row["what"] == what and row["load"] == load]


def test_everything_in_the_catalogue_is_exposed_but_for_speculation(run: Path) -> None:
    """A name that this release no longer has would show here."""
    server = told(run, "b01-baseline-l1")
    assert server.reset is None
    speculation = {"drafts", "draft_tokens", "accepted_tokens"}
    assert server.absent == speculation
    assert not set(server.missing) - speculation
    assert server.engines == ("0",)
    names = {row.name for row in SERVER_NAMES} - speculation
    assert names == {key.split(".")[0] for key in server.changes} | set(server.gauges)


def test_counts_are_the_clients(run: Path) -> None:
    for cell in ("b01-baseline-l1", "b02-baseline-l1"):
        events = pl.read_parquet(run / "events" / f"{cell}.parquet")
        server = told(run, cell)
        # one client, which ends after its last counted request: nothing is cut off
        assert events["outcome"].unique().to_list() == ["ok"]
        assert server.change("finished") == (float(len(events)), None)
        assert server.change("prompt_tokens") == (float(events["input_tokens"].sum()), None)
        assert server.change("generation_tokens") == (float(events["output_tokens"].sum()), None)
        assert server.change("itl.count") == (float((events["output_tokens"] - 1).sum()), None)


def test_ttft_means_agree_within_10_percent_and_5_ms_at_low_load_or_the_report_says_why(run: Path) -> None:
    for what in ("ttft", "e2e", "itl"):
        for row in crosscheck(run, what, 1.0):
            client, server = float(str(row["client"])), float(str(row["server"]))
            if abs(client - server) > 0.1 * server + 0.005:
                text = (run / "REPORT.md").read_text()
                assert f"- Mean {what.upper()}: {row['note']}." in text
                assert "without network, HTTP and JSON" in text
                # the rest of the way, on a machine that something else loads, too
                assert client - server < 0.1, row


def test_nothing_differs_at_either_load(run: Path) -> None:
    for what in ("requests", "prompt_tokens", "output_tokens"):
        for load in (1.0, 8.0):
            assert {row["word"] for row in crosscheck(run, what, load)} == {"agree"}, crosscheck(run, what, load)


def test_gauges_show_the_queue_and_the_seats(run: Path) -> None:
    """Eight clients, four seats: at most four run, and some wait; one client never waits."""
    high, low = told(run, "b01-baseline-l2"), told(run, "b01-baseline-l1")
    for name, most in (("running", 4.0), ("waiting", 4.0)):
        gauge = high.gauge(name)[0]
        assert gauge is not None
        assert 0 < gauge.most <= most
    alone = low.gauge("running")[0]
    assert alone is not None
    assert alone.most == 1.0
    waiting = low.gauge("waiting")[0]
    assert waiting is not None
    assert waiting.most == 0.0


def test_the_prefix_cache_hit_by_the_servers_count(run: Path) -> None:
    """Of 296 tokens 256 are shared: two of the CPU build's blocks, from the second request on."""
    document = json.loads((run / "inference_baseline.json").read_text())
    rows = [row for row in document["server"]["rows"] if row["metric"] == "server.prefix_cache_hit_rate"]
    assert [row["load"] for row in rows] == [1.0, 8.0]
    for row in rows:
        assert 0.7 < row["value"] <= 256 / 296


def test_the_sampler_is_in_the_report_and_the_audit_holds(run: Path) -> None:
    text = (run / "REPORT.md").read_text()
    assert "## What the servers said of themselves" in text
    assert benchcard("audit", run).splitlines()[-1] == "nothing failed"

"""What is seen of a server that somebody else runs before it is measured: what must not be ends the run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchcard.runner.engines.process import free_port

from .between import Proxy
from .cards import LAX, benchcard, only_run
from .outside import Deployment, lines, start_engine, stop_engine, two_servers


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    found = Deployment(tmp_path_factory.mktemp("engines"))
    found.start("a", caching=False)
    found.start("b", caching=True)
    yield found
    found.stop()


def refused(card: Path, tmp_path: Path) -> str:
    """What is said of a card whose run ends before anything is measured."""
    said = benchcard("run", card, "--out", tmp_path / "runs", code=3).stderr
    assert lines(only_run(tmp_path / "runs"), "cell_started") == []
    return said


def test_replicas_behind_one_address(deployment: Deployment, tmp_path: Path) -> None:
    with Proxy([deployment.ports["a"], deployment.ports["b"]]) as balancer:
        said = refused(two_servers(tmp_path, balancer.url, deployment.url("b")), tmp_path)
        found = f"baseline: at {balancer.url} at least 2 servers answer; the card says 1 replica. Seen in 8 looks: "
        assert found in said
        assert "process start times: 20" in said
        assert "cache settings: enable_prefix_caching=" in said
        assert "went back: " in said
        assert "Give the address of one of them, or say replicas: 2" in said


def test_one_server_at_two_addresses(deployment: Deployment, tmp_path: Path) -> None:
    """Both arms' addresses lead to one engine, one of them through a proxy."""
    with Proxy([deployment.ports["a"]]) as proxy:
        card = two_servers(tmp_path, deployment.url("a"), proxy.url)
        text = card.read_text().replace("enable_prefix_caching: true", "enable_prefix_caching: false")
        card.write_text(text)
        said = refused(card, tmp_path)
    assert (
        f"baseline and candidate are one server: {deployment.url('a')} and {proxy.url} lead to the same process"
    ) in said


def test_a_proxy_that_buffers(deployment: Deployment, tmp_path: Path) -> None:
    lax = LAX.replace("coalesced_chunks: 100%", "coalesced_chunks: 5%")
    with Proxy([deployment.ports["b"]], buffer=True, header="Via: 1.1 scripted") as proxy:
        said = refused(two_servers(tmp_path, deployment.url("a"), proxy.url, lax=lax), tmp_path)
        assert f"candidate: {proxy.url} holds streams back: of 24 chunks 100% came together" in said
        assert "(via: 1.1 scripted)" in said
        assert "raise validity.coalesced_chunks to 100%" in said


def test_a_buffer_that_the_card_allows(deployment: Deployment, tmp_path: Path) -> None:
    ttft = "objectives: {ttft: {at_most: 1 us}}"
    with Proxy([deployment.ports["b"]], buffer=True, header="X-Pod: pod-7") as proxy:
        accepted = "[server.buffering]"
        card = two_servers(tmp_path, deployment.url("a"), proxy.url, objectives=ttft, confounded=accepted)
        said = benchcard("run", card, "--out", tmp_path / "runs").stderr
    assert "the card allows it (validity.coalesced_chunks)" in said
    assert "of the objective on TTFT" in said
    run = only_run(tmp_path / "runs")
    baseline, candidate = (
        json.loads((run / "identity" / f"{arm}.json").read_text())["fields"] for arm in ("baseline", "candidate")
    )
    assert [fields["server.buffering"]["value"] for fields in (baseline, candidate)] == [False, True]
    assert [fields["server.replicas_seen"]["value"] for fields in (baseline, candidate)] == [1, 1]
    assert candidate["server.answered_by"] == {
        "value": {"x-pod": "pod-7"}, "source": "observed", "volatile": True,
    }  # fmt: skip
    trip = baseline["server.round_trip"]
    assert trip["volatile"] is True
    assert 0 < trip["value"]["min"] <= trip["value"]["median"] <= trip["value"]["max"]
    said = {row["name"]: row["value"] for row in json.loads((run / "verdict.json").read_text())["conditions"]}
    assert said["buffering on the way (baseline)"] == "none seen in a short stream"
    assert said["buffering on the way (candidate)"] == "streams are held back: times of tokens are the buffer's"
    assert said["replicas (baseline)"] == "1 seen"
    assert "of the objective on TTFT" in said["round trip (candidate)"]
    assert benchcard("audit", run).stdout.splitlines()[-1] == "nothing failed"


def test_a_probe_of_the_host(deployment: Deployment, tmp_path: Path) -> None:
    fields = {
        "node": {"value": "sha256:0123456789abcdef", "source": "observed"},
        "gpu.count": {"value": None, "source": "unknown", "why": "no GPU"},
        "model.name": {"value": "atlas-70b", "source": "observed"},
        "client.cores": {"value": 96, "source": "observed"},
    }
    file = tmp_path / "probe.json"
    file.write_text(json.dumps({"probe_version": 1, "node": "x", "fields": fields}))
    card = two_servers(tmp_path, deployment.url("a"), deployment.url("b"), baseline_more=", probe: probe.json")
    benchcard("run", card, "--out", tmp_path / "runs")
    run = only_run(tmp_path / "runs")
    found = json.loads((run / "identity" / "baseline.json").read_text())["fields"]
    assert found["node"] == {"value": "sha256:0123456789abcdef", "source": "observed", "by": "probe"}
    assert found["gpu.count"] == {"value": None, "source": "unknown", "why": "no GPU", "by": "probe"}
    assert found["model.name"] == {"value": "atlas-70b", "source": "observed"}
    assert found["client.cores"]["value"] != 96
    assert benchcard("audit", run).stdout.splitlines()[-1] == "nothing failed"
    fields["model.name"]["value"] = "another"
    file.write_text(json.dumps({"probe_version": 1, "node": "x", "fields": fields}))
    said = benchcard("run", card, "--out", tmp_path / "again", code=3).stderr
    assert "baseline: model.name is atlas-70b, as the server says; its probe's file says another" in said


def test_replicas_that_the_card_knows_of(deployment: Deployment, tmp_path: Path) -> None:
    """They are measured; what the metrics say of one of them is evidence of nothing."""
    other = free_port()
    start_engine(tmp_path, other, caching=True)
    evidence = "evidence: [{metric: server.prefix_cache_hit_rate, arm: candidate, at_least: 0%}]"
    try:
        with Proxy([deployment.ports["b"], other]) as balancer:
            more = f', replicas: 2, metrics: "{balancer.url.removesuffix("/v1")}/metrics"'
            card = two_servers(tmp_path, deployment.url("a"), balancer.url, candidate_more=more, objectives=evidence)
            benchcard("run", card, "--out", tmp_path / "runs")
    finally:
        stop_engine(tmp_path, other)
    run = only_run(tmp_path / "runs")
    fields = json.loads((run / "identity" / "candidate.json").read_text())["fields"]
    assert fields["server.replicas_seen"] == {"value": 2, "source": "observed"}
    verdict = json.loads((run / "verdict.json").read_text())
    (row,) = verdict["evidence"]
    assert row["word"] == "unknown"
    assert row["reason"] == "2 replicas answer at one address, and each reading of the metrics is of one of them"
    (check,) = [row for row in verdict["validity"] if row["name"] == "replicas"]
    assert check["passed"] is True
    assert benchcard("audit", run).stdout.splitlines()[-1] == "nothing failed"

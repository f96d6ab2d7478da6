"""The identity files of a run: the arm's first look, and what each cell found beside it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from benchcard.runner.attempts import AttemptLog
from benchcard.runner.bundle import Bundle
from benchcard.runner.client.wire import Target
from benchcard.runner.engines.fleet import Running
from benchcard.runner.engines.probe import Endpoint
from benchcard.runner.identity import records
from benchcard.runner.identity.fields import changed, gone, observed, unknown, volatile
from benchcard.runner.identity.observe import Server, look_again
from benchcard.runner.identity.process import started
from benchcard.runner.identity.records import Records
from benchcard.runner.plan.blocks import Cell
from benchcard.schema.digest import digest_file
from benchcard.schema.errors import SystemUnderTestError

ALWAYS = {"process.pid", "process.started", "container.id", "host.frequency", "host.memory_available"}
ALWAYS |= {"neighbours.load", "neighbours.busy", "engine.instance"}


def test_each_cell_of_a_run_says_that_it_found_the_same_server(good_run: Path) -> None:
    lines = [json.loads(line) for line in (good_run / "attempts.jsonl").read_text().splitlines()]
    ended = {line["cell"]: line["identity_sha256"] for line in lines if line["kind"] == "cell_ended"}
    files = {path.stem: path for path in (good_run / "identity" / "cells").iterdir()}
    assert set(files) == set(ended)
    for cell, path in files.items():
        found = json.loads(path.read_text())
        assert digest_file(path) == ended[cell]
        assert (found["cell"], found["of"], found["gone"]) == (cell, f"identity/{found['arm']}.json", [])
        assert set(found["fields"]) == ALWAYS
        assert all(field["volatile"] for field in found["fields"].values())


def test_the_first_look_of_a_run(good_run: Path) -> None:
    document = json.loads((good_run / "identity" / "candidate.json").read_text())
    assert (document["identity_version"], document["arm"]) == (2, "candidate")
    for name, field in document["fields"].items():
        assert field["source"] in ("observed", "declared", "unknown"), name
        assert ("why" in field) == (field["source"] == "unknown"), name
    fields = document["fields"]
    assert fields["engine.config"]["value"]["cache_config"]["enable_prefix_caching"] is True
    assert fields["process.argv"]["value"][:3] == ["python", "-m", "benchcard.runner.engines.simulated"]
    assert fields["engine.system_fingerprint"]["value"].startswith("simulated-")
    assert fields["node"] == fields["client.node"]


def test_what_changed() -> None:
    first = {
        "a": observed(1),
        "b": observed({"x": 1}),
        "c": unknown("w"),
        "p": volatile(observed(7)),
        "old": observed(0),
    }
    now = {"a": observed(1), "b": observed({"x": 2}), "c": observed(3), "p": volatile(observed(7)), "new": observed(1)}
    assert changed(first, now) == {
        "b": observed({"x": 2}),
        "c": observed(3),
        "p": volatile(observed(7)),
        "new": observed(1),
    }
    assert gone(first, now) == ["old"]
    # to Python true is 1, to the gate it is not
    assert changed({"a": observed({"x": True})}, {"a": observed({"x": 1})}) == {"a": observed({"x": 1})}


CARD: dict[str, Any] = {
    "system": {
        "engine": {"kind": "openai", "version": "any"}, "flags": {}, "neighbours": "none", "hardware": {},
        "model": {"name": "m", "context_limit": {"unknown": "x"}},
    },
    "arms": {"baseline": {"flags": {}, "expect": {}}},
    "workload": {"endpoint": "completions"},
}  # fmt: skip


class Probe:
    """An outside server, as HTTP shows it."""

    began, cache, version, asked = 1000.0, {"block_size": "16"}, "0.9.0", 0

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    def close(self) -> None:
        pass

    def json(self, url: str, within: float = 10.0) -> Any:
        return {"version": self.version} if url.endswith("/version") else None

    def models(self) -> list[dict[str, Any]]:
        return [{"id": "m", "max_model_len": 2048}]

    def metrics(self) -> list[tuple[str, str, float]]:
        return [("process_start_time_seconds", "{}", self.began)]

    def cache_config(self) -> dict[str, str]:
        return self.cache

    def ask(self, endpoint: str, body: bytes) -> Any:
        Probe.asked += 1
        return {"system_fingerprint": "fp"}


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Records, Bundle, Running, AttemptLog]:
    """Records of a run against an outside server, looked at once."""
    monkeypatch.setattr(records, "Probe", Probe)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(Probe, "asked", 0)
    bundle = Bundle(tmp_path)
    (tmp_path / "identity").mkdir()
    log = AttemptLog(bundle.log)
    endpoint = Endpoint("http://h:1/v1", "http://h:1/metrics")
    running = Running("baseline", 1, endpoint, Target("h", 1, False, "/v1"), None, None, {})
    found = Records(bundle, CARD, log, lambda _running, _fields: {})
    found.started(running, Probe(endpoint), {"model.tokenizer_check": observed("alike")})  # type: ignore[arg-type]
    return found, bundle, running, log


Outside = tuple[Records, Bundle, Running, AttemptLog]


def cell_file(outside: Outside, name: str = "b01-baseline-l1") -> dict[str, Any]:
    found, bundle, running, _ = outside
    found.before(Cell(name, 1, "baseline", 1, 1.0), running)
    document: dict[str, Any] = json.loads(bundle.cell_identity(name).read_text())
    return document


def test_an_outside_server_is_what_http_shows(outside: Outside) -> None:
    _, bundle, _, log = outside
    fields = json.loads(bundle.identity("baseline").read_text())["fields"]
    assert fields["engine.version"] == {"value": "0.9.0", "source": "observed"}
    assert fields["engine.system_fingerprint"]["value"] == "fp"
    assert fields["process.started"] == {
        "value": "1970-01-01T00:16:40.000+00:00",
        "source": "observed",
        "volatile": True,
    }
    assert fields["server.url"] == {"value": "http://h:1/v1", "source": "declared"}
    for name in ("process.argv", "process.env", "host.cpu", "gpu.model", "model.chat_template_sha256"):
        assert fields[name] == {"value": None, "source": "unknown", "why": "the server is not started by this run"}
    assert log.lines[0]["sha256_of_file"] == digest_file(bundle.identity("baseline"))


def test_a_cell_that_found_the_same(outside: Outside) -> None:
    found = cell_file(outside)
    assert set(found["fields"]) == {"process.started", "neighbours.load", "neighbours.busy"}
    assert found["gone"] == []
    # Nothing that was not restarted is asked for a reply again.
    assert Probe.asked == 1


def test_a_cell_that_found_other_settings(outside: Outside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Probe, "cache", {"block_size": "32"})
    found = cell_file(outside)
    assert found["fields"]["engine.cache_config"] == {"value": {"block_size": "32"}, "source": "observed"}


def test_an_outside_server_that_was_restarted_is_looked_at_again(
    outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Probe, "began", 2000.0)
    monkeypatch.setattr(Probe, "version", "0.9.1")
    found = cell_file(outside)
    assert Probe.asked == 2
    assert found["fields"]["engine.version"]["value"] == "0.9.1"
    assert found["fields"]["process.started"]["value"] == "1970-01-01T00:33:20.000+00:00"
    # The tokenizer was checked when the server came up first, and still counts as it did.
    assert found["gone"] == []


def test_an_outside_server_that_hides_its_restarts_is_looked_at_whole_each_time(
    outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the start of its process nothing says that it was not restarted, with other flags."""
    monkeypatch.setattr(Probe, "metrics", lambda self: [])
    cell_file(outside)
    asked = Probe.asked
    monkeypatch.setattr(
        Probe,
        "json",
        lambda self, url, within=10.0: {"vllm_config": {"seed": 1}} if "server_info" in url else {"version": "0.9.0"},
    )
    found = cell_file(outside, "b01-baseline-l2")
    assert found["fields"]["engine.config"] == {"value": {"seed": 1}, "source": "observed"}
    assert Probe.asked == asked + 1


def test_a_server_that_does_not_answer_is_measured_all_the_same(
    outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(self: Probe) -> None:
        raise SystemUnderTestError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(Probe, "models", silent)
        found = cell_file(outside)
    assert set(found["fields"]) == {"process.started", "neighbours.load", "neighbours.busy", "server.answers"}
    assert found["fields"]["server.answers"] == {"value": False, "source": "observed", "volatile": True}
    assert "server.answers" not in cell_file(outside, "b02-baseline-l1")["fields"]


def test_another_version_than_the_cards_ends_the_run(outside: Outside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CARD["system"]["engine"], "version", "0.9.0")
    monkeypatch.setattr(Probe, "version", "0.9.1")
    with pytest.raises(SystemUnderTestError, match=r"baseline: engine version 0\.9\.1; the card says 0\.9\.0"):
        cell_file(outside)


def test_a_launched_server_is_another_one_when_its_process_is(outside: Outside) -> None:
    _, bundle, running, _ = outside
    known = json.loads(bundle.identity("baseline").read_text())["fields"]
    probe: Any = Probe(running.endpoint)
    me = Server(os.getpid(), 1, {})
    known |= {
        "process.pid": volatile(observed(os.getpid())),
        "process.started": volatile(observed(started(os.getpid()))),
    }
    again = look_again(CARD, "baseline", probe, me, known)
    assert again is not None
    assert {"host.frequency", "host.memory_available"} <= set(again)
    known |= {"process.started": volatile(observed("2001-01-01T00:00:00+00:00"))}
    assert look_again(CARD, "baseline", probe, me, known) is None

"""Servers that somebody else runs: processes seen in a cell, evidence behind a balancer, and the conditions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .bundles import Cell, Row, ab_card, analyse, build

STARTED = "process_start_time_seconds"


def external(replicas: int = 1) -> Row:
    card = ab_card()
    for arm in ("baseline", "candidate"):
        url = f"http://{arm}/v1"
        card["arms"][arm]["server"] = {"url": url, "metrics": None, "api_key": None, "replicas": replicas}
    return card


def samples(before: float, after: float) -> Any:
    """The server's metrics, with these start times (Unix time, s; cells begin at 1.7e9) in one cell, and with the first
    in all others."""

    def add(cell: Cell, rows: list[Row]) -> list[Row]:
        change = cell.cell == "b03-candidate-l2"
        out = list(rows)
        for when, at in (("before", before), ("after", after if change else before)):
            out.append({**rows[0], "when": when, "name": STARTED, "labels": "{}", "value": at})
        return out

    return add


def check(verdict: Row) -> Row:
    (found,) = [row for row in verdict["validity"] if row["name"] == "replicas"]
    return dict(found)


@pytest.mark.parametrize(
    ("after", "replicas", "passed"),
    [
        (100.0, 1, True),     # one process
        (200.0, 1, False),    # another that was up long before
        (200.0, 2, True),     # which the card knows of
        (1e12, 1, True),      # one that started meanwhile: a restart, which is another matter
    ],
)  # fmt: skip
def test_processes_that_answered(tmp_path: Path, after: float, replicas: int, passed: bool) -> None:
    verdict = analyse(build(tmp_path, external(replicas), server=samples(100.0, after)))
    found = check(verdict)
    assert found["passed"] is passed
    assert found["observed"] == (0 if passed else 1)
    assert found["where"] == ([] if passed else ["b03-candidate-l2"])
    assert ("replicas" in str(verdict["blocks"])) is not passed


def test_servers_of_our_own_have_no_such_check(tmp_path: Path) -> None:
    verdict = analyse(build(tmp_path, ab_card(), server=samples(100.0, 200.0)))
    assert not [row for row in verdict["validity"] if row["name"] == "replicas"]


@pytest.mark.parametrize(("declared", "seen"), [(2, None), (1, 2)])
def test_evidence_from_behind_a_balancer_is_unknown(tmp_path: Path, declared: int, seen: int | None) -> None:
    bundle = build(tmp_path, external(declared))
    if seen is not None:
        add_fields(bundle, "candidate", {"server.replicas_seen": {"value": seen, "source": "observed"}})
    verdict = analyse(bundle)
    (row,) = [row for row in verdict["evidence"] if row["arm"] == "candidate"]
    reason = "2 replicas answer at one address, and each reading of the metrics is of one of them"
    assert (row["word"], row["reason"]) == ("unknown", reason)
    told = [row for row in verdict["server"]["rows"] if row["arm"] == "candidate"]
    assert told
    assert all(row["value"] is None and row["undefined"].endswith(reason) for row in told)


def add_fields(bundle: Path, arm: str, fields: Row) -> None:
    path = bundle / "identity" / f"{arm}.json"
    identity = json.loads(path.read_text())
    identity["fields"] |= fields
    path.write_text(json.dumps(identity))


def test_what_the_conditions_say_of_the_way(tmp_path: Path) -> None:
    bundle = build(tmp_path, external())
    trip = {"median": 0.00041, "min": 0.00036, "max": 0.0009249, "requests": 9, "path": "/health"}
    far = {**trip, "median": 0.09, "max": 0.1}
    add_fields(bundle, "baseline", {
        "server.round_trip": {"value": trip, "source": "observed", "volatile": True},
        "server.replicas_seen": {"value": 1, "source": "observed"},
        "server.buffering": {"value": False, "source": "observed"},
    })  # fmt: skip
    add_fields(bundle, "candidate", {
        "server.round_trip": {"value": far, "source": "observed", "volatile": True},
        "server.replicas_seen": {"value": None, "source": "unknown", "why": "nothing tells them apart"},
        "server.buffering": {"value": True, "source": "observed"},
    })  # fmt: skip
    rows = {row["name"]: (row["value"], row["source"]) for row in analyse(bundle)["conditions"]}
    few = "9 small requests before the first cell"
    assert rows["round trip (baseline)"] == (f"0.41 ms (0.36 to 0.925 ms, {few})", "observed")
    assert rows["round trip (candidate)"] == (
        f"90 ms (0.36 to 100 ms, {few}): 15% of the objective on TTFT", "observed",
    )  # fmt: skip
    assert rows["replicas (baseline)"] == ("1 seen", "observed")
    assert rows["replicas (candidate)"] == ("nothing tells them apart", "unknown")
    assert rows["buffering on the way (baseline)"] == ("none seen in a short stream", "observed")
    assert rows["buffering on the way (candidate)"] == (
        "streams are held back: times of tokens are the buffer's", "observed",
    )  # fmt: skip
    assert not [name for name in rows if name.startswith("server.round_trip")]


def test_fewer_replicas_than_declared_are_said(tmp_path: Path) -> None:
    bundle = build(tmp_path, external(2))
    add_fields(bundle, "baseline", {"server.replicas_seen": {"value": 1, "source": "observed"}})
    rows = {row["name"]: row["value"] for row in analyse(bundle)["conditions"]}
    assert rows["replicas (baseline)"] == "1 seen, 2 declared"

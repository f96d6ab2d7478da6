"""A pilot's ceilings: in a closed loop goodput has none, since a faster system is asked for more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from benchcard.analysis import pilot


@pytest.mark.parametrize(
    ("metric", "kind", "shares"),
    [
        ("goodput", "rate", [1.0, 0.9]),
        ("goodput", "concurrency", []),
        ("attainment", "concurrency", [1.0, 0.9]),
        ("request_throughput", "concurrency", []),
    ],
)
def test_ceilings(metric: str, kind: str, shares: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    card = {"claim": {"metric": metric}, "workload": {"load_kind": kind, "loads": [4]}}
    reading = cast(Any, SimpleNamespace(bundle=SimpleNamespace(card=card)))
    monkeypatch.setattr(pilot, "pairs", lambda *_: SimpleNamespace(baseline=(1.0, 0.9)))
    assert pilot._baseline(reading, 1)["share_of_ceiling"] == shares

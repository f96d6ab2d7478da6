"""Two populations on the embedded engine, end to end: planned, sent, judged, reported apart; and the audit passes."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
import yaml

from .cards import benchcard, only_run, small_card


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("populations")
    path = small_card(folder)
    card = yaml.safe_load(path.read_text())
    requests = card["workload"]["requests"]
    card["workload"]["populations"] = {
        "documents": {"share": "70%", "prefix": requests.pop("prefix")},
        "chat": {"share": "30%", "objectives": {"ttft": {"at_most": "1 s"}}},
    }
    card["claim"] = {"metric": "ttft.p50", "must_fall_by": "2%", "at": ["40 req/s"], "population": "documents"}
    card["guards"] = [{"metric": "ttft.p50", "may_rise_by": "900%", "population": "chat"}]
    path.write_text(yaml.safe_dump(card))
    benchcard("run", path, "--out", folder / "runs", code=None)
    return only_run(folder / "runs")


def test_each_population_is_reported(run: Path) -> None:
    verdict = json.loads((run / "verdict.json").read_text())
    assert verdict["verdict"] != "invalid"
    planned = pl.read_parquet(run / "plan" / "requests.parquet")
    assert set(planned["population"]) == {"documents", "chat"}
    used = [block["block"] for block in verdict["blocks"] if block["used"]]
    counted = planned.filter((pl.col("phase") == "measure") & pl.col("block").is_in(used))
    shares = {(r["arm"], r["population"]): r["attempted"] for r in verdict["population_shares"]}
    for name in ("documents", "chat"):
        wanted = counted.filter(pl.col("population") == name).height
        assert shares["baseline", name] == shares["candidate", name] == wanted
    assert [row["population"] for row in verdict["guards"]] == ["chat"]
    assert {row["population"] for row in verdict["population_effects"]} == {"documents", "chat"}
    assert "## Populations" in (run / "REPORT.md").read_text()


def test_the_audit_passes(run: Path) -> None:
    assert benchcard("audit", run).stdout.splitlines()[-1] == "nothing failed"

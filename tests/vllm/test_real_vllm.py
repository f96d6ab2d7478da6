"""The whole pipe against a real vLLM. These tests need what `make vllm` installs, and fail without it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl

from .cards import MODEL, ROOT, SMALL, benchcard, events


def test_every_counted_attempt_is_whole(run: Path) -> None:
    counted = events(run).filter(pl.col("phase") == "measure")
    assert len(counted) == 2 * 2 * 24
    assert counted["outcome"].to_list() == ["ok"] * len(counted)
    assert counted["finish_reason"].to_list() == ["length"] * len(counted)
    assert counted["fingerprint"].n_unique() == 1
    assert counted["fingerprint"][0].startswith("vllm-0.32.0")


def test_lengths_are_the_planned_ones_by_the_servers_own_count(run: Path) -> None:
    ok = events(run).filter(pl.col("outcome") == "ok")
    assert ok["input_tokens"].to_list() == ok["asked_input_tokens"].to_list()
    assert ok["output_tokens"].to_list() == ok["asked_output_tokens"].to_list()
    # Per-chunk usage accounts for every token, also for those whose text is not yet a whole character.
    short = ok.select(missing=pl.col("output_tokens") - pl.col("chunk_tokens").list.sum())["missing"]
    assert short.min() >= 0
    assert short.sum() <= 0.05 * ok["output_tokens"].sum()


def test_the_shared_prefix_is_cached(run: Path) -> None:
    """256 tokens are two of the CPU build's blocks: with one client cached from the second request of a cell on."""
    alone = pl.col("cell").str.ends_with("-l1")
    ok = events(run).filter(alone & (pl.col("outcome") == "ok") & (pl.col("phase") == "measure"))
    assert set(ok["cached_tokens"].to_list()) == {256}


def test_identity_is_what_the_server_says(run: Path) -> None:
    fields = json.loads((run / "identity" / "baseline.json").read_text())["fields"]
    assert fields["engine.version"]["source"] == "observed"
    assert fields["engine.version"]["value"].startswith("0.32.0")
    assert fields["engine.cache_config"]["value"]["enable_prefix_caching"] == "True"
    assert fields["model.context_limit"] == {"value": 2048, "source": "observed"}
    assert fields["engine.config"]["value"]["cache_config"]["enable_prefix_caching"] is True
    assert fields["engine.config"]["value"]["model_config"]["max_model_len"] == 2048
    assert fields["engine.system_fingerprint"]["value"].startswith("vllm-0.32.0-")


def test_identity_is_what_the_host_says(run: Path) -> None:
    fields = json.loads((run / "identity" / "baseline.json").read_text())["fields"]
    value = {name: field["value"] for name, field in fields.items()}
    weights = hashlib.sha256((ROOT / MODEL / "model.safetensors").read_bytes()).hexdigest()
    assert value["model.weights_sha256"] == {"model.safetensors": f"sha256:{weights}"}
    assert {"tokenizer.json", "tokenizer_config.json"} <= set(value["model.tokenizer_files"])
    assert value["model.chat_template_sha256"].startswith("sha256:")
    assert value["process.argv"][1:3] == ["-m", "vllm.entrypoints.openai.api_server"]
    # Set for the server, set by it for its workers, and loaded by them.
    assert value["process.env"]["VLLM_NO_USAGE_STATS"] == "1"
    assert value["process.env"]["VLLM_WORKER_MULTIPROC_METHOD"] == "spawn"
    assert value["process.libraries"]["libtorch_cpu.so"].startswith("sha256:")
    assert value["engine.packages"]["torch"] == value["process.packages"]["torch"]["version"]
    for name, field in fields.items():
        assert ("why" in field) == (field["source"] == "unknown"), name
    for path in (run / "identity" / "cells").iterdir():
        found = json.loads(path.read_text())
        assert found["gone"] == []
        assert all(field.get("volatile") for field in found["fields"].values()), found


def test_metrics_before_and_after(run: Path) -> None:
    for path in (run / "telemetry").glob("server-*.parquet"):
        frame = pl.read_parquet(path).filter(pl.col("name") == "vllm:generation_tokens_total")
        before, after = (frame.filter(pl.col("when") == when)["value"][0] for when in ("before", "after"))
        cell = pl.read_parquet(run / "events" / path.name.removeprefix("server-"))
        # The server counts what it made, the client what arrived: cancelled attempts are the difference.
        assert after - before >= cell.filter(pl.col("outcome") == "ok")["output_tokens"].sum()


def test_the_report_and_the_audit(run: Path) -> None:
    baseline = json.loads((run / "inference_baseline.json").read_text())
    assert baseline["valid"] is True
    assert [point["load"] for point in baseline["sweep"]] == [1, 8]
    assert benchcard("audit", run).splitlines()[-1] == "nothing failed"


def test_nothing_outlives_the_run(run: Path) -> None:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            assert b"vllm.entrypoints" not in command


def test_a_flag_that_vllm_does_not_know(tmp_path: Path) -> None:
    card = tmp_path / "card.yaml"
    card.write_text(SMALL.replace("enforce-eager: true", "enforce-eager: true, no-such-flag: 1"))
    result = subprocess.run(
        [sys.executable, "-m", "benchcard.runner.cli", "run", str(card), "--out", str(tmp_path / "runs")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert result.returncode == 3
    assert "no-such-flag" in result.stderr

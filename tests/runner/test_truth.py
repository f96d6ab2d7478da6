"""The verdict against the truth: the embedded engine's model says what a card's effect really is.

In virtual time a cell takes milliseconds, so the population's mean effect is known from hundreds of blocks, and the
interval that the real analysis gives for a few of them can be held against it.
"""

from __future__ import annotations

import json
import statistics
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
from benchcard.runner.analysis_process import Analysis, installed_revision
from benchcard.runner.engines.simulated.virtual import virtual_timings
from benchcard.runner.plan.plan import make_plan
from benchcard.runner.virtual_run import virtual_run
from benchcard.schema.card import load_card

from .cards import benchcard, small_card


def virtual_card(folder: Path, blocks: int, **changes: str) -> Path:
    """The small card, with a window long enough for a well-behaved effect and no more drain than it needs."""
    path = small_card(folder, measure="1 s", spares="0", **changes)
    text = path.read_text().replace("drain: 5 s", "drain: 1 s").replace("blocks: 6", f"blocks: {blocks}")
    path.write_text(text.replace("timeout_total: 5 s, timeout_idle: 3 s", "timeout_total: 1 s, timeout_idle: 1 s"))
    return path


def virtual_verdict(folder: Path, seed: int, blocks: int, **changes: str) -> dict[str, Any]:
    """The real analysis's verdict over a run in virtual time."""
    folder.mkdir()
    card = load_card(virtual_card(folder, blocks, **changes), installed_revision=installed_revision())
    bundle = virtual_run(make_plan(card.resolved, card.digest, seed), folder / "run", card.text)
    Analysis(installed_revision(), "benchcard.analysis", None).run("verdict", str(bundle.root))
    verdict: dict[str, Any] = json.loads((bundle.root / "verdict.json").read_text())
    return verdict


def effect(verdict: dict[str, Any]) -> dict[str, Any]:
    (only,) = [row for row in verdict["effects"] if row["claimed"]]
    return dict(only)


def test_the_interval_contains_the_true_effect(tmp_path: Path) -> None:
    """20 seeds of 8 blocks against the mean of 500 further blocks: at least 17 intervals contain it (19 are
    expected)."""
    with ThreadPoolExecutor(2) as pool:
        population = pool.submit(virtual_verdict, tmp_path / "population", 999, 500)
        verdicts = list(pool.map(lambda seed: virtual_verdict(tmp_path / f"s{seed}", seed, 8), range(20)))
        truth = effect(population.result())
    assert truth["blocks"] == 500
    assert truth["scale"] == "log"
    intervals = [effect(verdict)["interval"] for verdict in verdicts]
    covered = sum(low <= truth["mean"] <= high for low, high in intervals)
    assert covered >= 17, (covered, truth["mean"], intervals)


def test_thresholds_below_and_above_the_truth_and_equal_arms(tmp_path: Path) -> None:
    """Supported clearly below the truth, falsified clearly above it; two equal arms never support a rise of 2%."""
    assert virtual_verdict(tmp_path / "below", 1, 8, threshold="2%")["verdict"] == "supported"
    assert virtual_verdict(tmp_path / "above", 1, 8, threshold="200%")["verdict"] == "falsified"
    # Equal in all that matters: one differs in a limit that neither reaches (arms without any difference are refused).
    for seed in range(5):
        equal = virtual_verdict(
            tmp_path / f"equal{seed}", seed, 8, treatment="enable-prefix-caching: false, max-num-seqs: 33"
        )
        assert equal["verdict"] != "supported"
        assert set(effect(equal)["d"]) == {0.0}


def test_live_timing_is_the_models(good_run: Path) -> None:
    """Each live request, against the model and the engine's own log of its lateness.

    The engine's log says when it planned and when it sent each token; the model, given the arrivals that the engine
    logged, plans the same to the nanosecond (tests/runner/simulated). The client's stamps must lie after the sends, and
    the clock of both is one: so the client's error is known for every token.
    """
    epoch = json.loads((good_run / "attempts.jsonl").read_text().splitlines()[0])["epoch_ns"]
    logged = {}
    for path in (good_run / "logs").glob("*.engine.jsonl"):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            logged[row["request_id"]] = row
    seen, errors = 0, []
    for path in (good_run / "events").glob("*.parquet"):
        for row in pl.read_parquet(path).filter(pl.col("outcome") == "ok").rows(named=True):
            truth = logged[f"{row['cell']}-{row['index']}"]
            assert len(row["chunk_times"]) == len(truth["token_sent_ns"]) == row["output_tokens"]
            assert row["cached_tokens"] == truth["cached_tokens"]
            for at, planned, sent in zip(
                row["chunk_times"], truth["token_planned_ns"], truth["token_sent_ns"], strict=True
            ):
                assert planned <= sent
                assert planned <= at + epoch
                errors.append(at + epoch - sent)
            seen += 1
    assert seen > 200
    # What remains after the engine's own lateness is the way through the kernel and the client's wake-up.
    assert abs(statistics.median(errors)) < 1_000_000


def test_the_model_agrees_with_the_engines_log(good_run: Path) -> None:
    """Arrivals that the live engine logged, played through the pure model: the same planned times, to the
    nanosecond."""
    plan = make_plan(
        resolved := json.loads((good_run / "card.resolved.json").read_text()), "x", resolved["method"]["seed"]
    )
    for arm in ("baseline", "candidate"):
        rows = [json.loads(x) for x in (good_run / "logs" / f"{arm}-b01.engine.jsonl").read_text().splitlines()]
        requests = {f"b01-{arm}-l1-{r.index}": r for r in plan.requests[1, 1]}
        played = virtual_timings(
            [
                (i, row["arrival_ns"], plan.prompts.tokens((1, 1), request), request.output_tokens)
                for i, row in enumerate(rows)
                for request in [requests[row["request_id"]]]
            ],
            {**resolved["system"]["flags"], **resolved["arms"][arm]["flags"], "max-model-len": 32768},
            costs="atlas",
            speedup=10,
        )  # fmt: skip
        whole = [(i, row) for i, row in enumerate(rows) if row["outcome"] == "ok"]
        assert len(whole) > 15
        # A request that the client gave up leaves a gap that the replay does not have: compare up to the first of them.
        cut = min((row["arrival_ns"] for row in rows if row["outcome"] != "ok"), default=None)
        for i, row in whole:
            if cut is None or row["token_planned_ns"][-1] < cut:
                assert played[i].token_ns == row["token_planned_ns"]


def test_a_live_run_agrees_with_virtual_time(good_run: Path) -> None:
    """The quick run's verdict is the one that virtual time gives for the same plan."""
    verdict = json.loads((good_run / "verdict.json").read_text())
    assert verdict["verdict"] == "supported"
    assert benchcard("verdict", good_run, "--exit-code").stdout.startswith("verdict: supported")

"""A system that slows down by a tenth over the run, and two arms that are equal: randomized blocks against A…A B…B.

The arms differ in a limit that neither reaches. Both orders get the same requests; what differs is when a cell was run.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from benchcard.analysis.__main__ import main
from benchcard.runner.analysis_process import installed_revision
from benchcard.runner.bundle import Bundle
from benchcard.runner.plan.blocks import Cell
from benchcard.runner.plan.plan import Plan, make_plan
from benchcard.runner.virtual_run import CELL_SPACING, virtual_cell, virtual_run
from benchcard.schema.card import load_card

from .cards import small_card

BLOCKS = 8
CELLS = 2 * BLOCKS
#: the first cell starts at 0, the last after this long (s)
RUN_S = (CELLS - 1) * CELL_SPACING / 1e9
SLOWER = 0.1


def drifting_card(folder: Path, drift: float) -> Path:
    """The small card with two equal arms, whose servers stay up and slow down, and a claim on the median latency."""
    path = small_card(
        folder, measure="1 s", spares="0", restart="never", flags=f", misbehave: drift={drift!r}",
        treatment="enable-prefix-caching: false, max-num-seqs: 33",
    )  # fmt: skip
    text = path.read_text().replace("blocks: 6", f"blocks: {BLOCKS}").replace("drain: 5 s", "drain: 1 s")
    text = text.replace("timeout_total: 5 s, timeout_idle: 3 s", "timeout_total: 1 s, timeout_idle: 1 s")
    path.write_text(text.replace("metric: goodput, must_rise_by", "metric: e2e.p50, must_fall_by"))
    return path


def verdict_of(bundle: Path) -> dict[str, Any]:
    assert main(["verdict", str(bundle)]) == 0
    verdict: dict[str, Any] = json.loads((bundle / "verdict.json").read_text())
    return verdict


def effect(verdict: dict[str, Any]) -> dict[str, Any]:
    (only,) = [row for row in verdict["effects"] if row["claimed"]]
    return dict(only)


def in_order(plan: Plan, run: Path, cells: list[Cell]) -> dict[str, Any]:
    """The verdict of the same cells, played in this order, on one clock."""
    for number, cell in enumerate(cells):
        virtual_cell(plan, cell, Bundle(run), number * CELL_SPACING)
    return verdict_of(run)


def excludes_zero(verdict: dict[str, Any]) -> bool:
    low, high = effect(verdict)["interval"]
    return not low <= 0 <= high


@pytest.fixture(scope="module")
def virtual_runs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Plan, Path]]:
    """20 runs in the planned order, each of another seed."""
    folder = tmp_path_factory.mktemp("drift")
    card = load_card(drifting_card(folder, SLOWER / RUN_S), installed_revision=installed_revision())
    runs = []
    for seed in range(20):
        plan = make_plan(card.resolved, card.digest, seed)
        runs.append((plan, virtual_run(plan, folder / f"s{seed}", card.text).root))
    return runs


def test_the_last_cell_is_slower_by_a_tenth_or_more(virtual_runs: list[tuple[Plan, Path]], tmp_path: Path) -> None:
    """One cell, played first and played last: steps cost a tenth more, and as there is a queue, latency more than
    that."""
    plan, run = virtual_runs[0]
    shutil.copytree(run, copy := tmp_path / "copy")
    cell = plan.blocks[0].cells[0]
    metric = {}
    for place in (0, CELLS - 1):
        virtual_cell(plan, cell, Bundle(copy), place * CELL_SPACING)
        rows = verdict_of(copy)["metrics"]
        metric[place] = next(r["value"] for r in rows if (r["cell"], r["metric"]) == (cell.cell, "tpot.p50"))
    assert 1 + SLOWER - 0.01 < metric[CELLS - 1] / metric[0] < 1 + 2 * SLOWER


def test_randomized_blocks_keep_the_interval_honest(virtual_runs: list[tuple[Plan, Path]]) -> None:
    """Of 20 intervals at 95% one is expected to exclude the true effect, 0; more than 4 of them do with probability
    0.003 (binomial). None supports the claim, which is false."""
    verdicts = [verdict_of(run) for _, run in virtual_runs]
    assert sum(map(excludes_zero, verdicts)) <= 4
    assert "supported" not in {verdict["verdict"] for verdict in verdicts}
    # the drift is there: no block is without a difference
    assert all(d != 0 for verdict in verdicts for d in effect(verdict)["d"])


def test_the_same_cells_one_arm_after_the_other_would_have_claimed_an_effect(
    virtual_runs: list[tuple[Plan, Path]], tmp_path: Path
) -> None:
    """Half the run lies between the arms, so about half the drift looks like an effect: +5% or more for the arm that
    comes last. Put first, the candidate seems faster: a claim of a fall by 2% is supported, at every seed."""
    for plan, run in virtual_runs[:3]:
        cells = [cell for block in plan.blocks for cell in block.cells]
        baseline, candidate = ([cell for cell in cells if cell.arm == arm] for arm in ("baseline", "candidate"))
        shutil.copytree(run, copy := tmp_path / run.name)
        slower = in_order(plan, copy, baseline + candidate)
        assert 0.03 < effect(slower)["interval"][0] < effect(slower)["mean"] < 0.1
        assert slower["verdict"] == "falsified"
        faster = in_order(plan, copy, candidate + baseline)
        assert -0.1 < effect(faster)["mean"] < effect(faster)["interval"][1] < -0.03
        assert faster["verdict"] == "supported"

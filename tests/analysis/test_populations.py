"""Populations reported apart: judged by their own objectives, measured over their own attempts, compared block by
block; and the flag where the treatment helps one and harms another."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from benchcard.analysis.goodput import judge
from benchcard.analysis.populations import Part, measure_parts
from benchcard.analysis.quantities import quantities
from benchcard.analysis.window import Window
from benchcard.schema.event import EVENT_COLUMNS

from .bundles import MS, SECOND, Cell, Row, ab_card, analyse, baseline_card, build, event, frame, process, reply

#: Student's t at 97.5% with 7 degrees of freedom, from a printed table
T7 = 2.364624

CHAT_TTFT = {"success": True, "ttft": {"at_most": 0.2}}
CARD_TTFT = {"success": True, "ttft": {"at_most": 0.6}}


def population(share: float | None, objectives: Row | None = None, by_level: list[float] | None = None) -> Row:
    return {
        "share": share,
        "share_by_level": by_level,
        "lengths": {"input": {"median": 64.0, "sigma": 0.0}, "output": {"median": 5.0, "sigma": 0.0}},
        "prefix": None,
        "priority": "none",
        "sampling": {"ignore_eos": True},
        "objectives": objectives,
    }


MIX = {"chat": population(0.7, CHAT_TTFT), "batch": population(0.3)}


def attempts() -> list[Row]:
    """Chat: TTFT 100, 200, 300 ms and a failure; batch: TTFT 300 and 900 ms; three chunks of one token, 50 ms apart."""
    chat = [reply(i, [ms, ms + 50, ms + 100], population="chat") for i, ms in enumerate((100, 200, 300))]
    batch = [reply(i, [ms, ms + 50, ms + 100], population="batch") for i, ms in ((4, 300), (5, 900))]
    return [*chat, event(3, outcome="http_error", population="chat"), *batch]


def test_each_population_is_judged_by_its_own_objectives() -> None:
    """Chat: 300 ms misses 200 ms, and one failed. Batch, by the card's 600 ms: 900 ms misses. Good: 2 of 4, 1 of 2."""
    table = frame(EVENT_COLUMNS, attempts())
    found = judge(table, quantities(table), CARD_TTFT, {"chat": CHAT_TTFT, "batch": None})
    assert (found.attempted, found.good) == (6, 3)
    assert found.missed == found.first_cause == {"success": 1, "ttft": 2}


def test_an_objective_of_one_population_alone_is_a_cause_of_its_own_misses_only() -> None:
    table = frame(EVENT_COLUMNS, attempts())
    own = {"chat": CHAT_TTFT, "batch": {"success": True, "e2e": {"at_most": 0.5}}}
    found = judge(table, quantities(table), CARD_TTFT, own)
    # batch: e2e 400 ms is good, 1000 ms is not; its TTFT of 900 ms misses nothing that is declared for it
    assert found.missed == {"success": 1, "ttft": 1, "e2e": 1}
    assert list(found.missed) == ["success", "ttft", "e2e"]
    assert found.good == 3


def test_without_objectives_for_all_the_cell_has_no_good_attempts() -> None:
    table = frame(EVENT_COLUMNS, attempts())
    found = judge(table, quantities(table), None, {"chat": CHAT_TTFT, "batch": None})
    assert (found.good, found.missed) == (None, {"success": 1, "ttft": 1})
    assert judge(table, quantities(table), None, {"chat": CHAT_TTFT, "batch": CARD_TTFT}).good == 3


TEN_SECONDS = Window(0, 10 * SECOND)


def parts(rows: list[Row], window: Window | None = TEN_SECONDS, **changes: Any) -> dict[str, Part]:
    table = frame(EVENT_COLUMNS, rows)
    card = ab_card(workload__populations=MIX, objectives=CARD_TTFT) | changes
    return measure_parts(card, table, table.filter(pl.col("phase") == "measure"), window)


def test_the_metrics_of_each_population() -> None:
    """Over a window of 10 s: rates are divided by it, proportions by the population's own attempts."""
    found = parts(attempts())
    chat, batch = ({name: value.value for name, value in found[name].values.items()} for name in ("chat", "batch"))
    assert {name: chat[name] for name in ("goodput", "request_throughput", "output_throughput", "ttft.p50")} == {
        "goodput": 0.2, "request_throughput": 0.3, "output_throughput": 0.9, "ttft.p50": 0.2,
    }  # fmt: skip
    assert (chat["attainment"], chat["error_rate"], chat["tpot.p50"]) == (0.5, 0.25, 0.05)
    assert (batch["goodput"], batch["request_throughput"], batch["output_throughput"]) == (0.1, 0.2, 0.6)
    assert (batch["attainment"], batch["error_rate"], batch["ttft.max"]) == (0.5, 0.0, 0.9)
    assert (found["chat"].values["ttft.p50"].n, found["chat"].values["ttft.p50"].undefined) == (3, {"http_error": 1})


def test_a_population_counts_its_own_tokens_of_every_phase_in_the_window() -> None:
    """Chat's warm-up reply has 2 of 3 tokens in the window, which begins at 140 ms; batch's are no concern of chat."""
    rows = [reply(0, [100, 150, 200], population="chat", phase="warmup"), reply(1, [300, 350], population="batch")]
    found = parts(rows, Window(140 * MS, 140 * MS + 2 * SECOND))
    assert [found[name].values["output_throughput"].value for name in ("chat", "batch")] == [1.0, 1.0]


def test_a_population_without_attempts_is_undefined_with_the_reason() -> None:
    found = parts([reply(0, [100], population="chat")])["batch"].values
    assert (found["ttft.p50"].value, found["ttft.p50"].undefined) == (None, {"no attempts in the window": 0})
    assert (found["attainment"].value, found["goodput"].value) == (None, 0.0)


def test_without_a_window_rates_are_undefined() -> None:
    value = parts(attempts(), None)["chat"].values["goodput"]
    assert (value.value, value.undefined) == (None, {"no measured window": 4})


# A whole bundle. Every third request is batch's. In block b the candidate's TTFT is FALL[b] ms for chat (baseline
# 100 ms), and RISE[b] ms for batch (baseline 200 ms).
FALL = (80, 81, 79, 80, 82, 78, 80, 84)
RISE = (220, 222, 218, 220, 224, 216, 220, 225)


def two_kinds(cell: Cell, rows: list[Row]) -> list[Row]:
    out = []
    for row in rows:
        batch = row["index"] % 3 == 0
        ttft = 200 if batch else 100
        if cell.arm == "candidate":
            ttft = (RISE if batch else FALL)[cell.block - 1]
        timed = reply(row["index"], [ttft + 20 * i for i in range(5)], scheduled=row["scheduled"])
        times = {key: timed[key] for key in ("chunk_times", "first_token", "first_answer_token", "last_token", "end")}
        out.append(row | times | {"population": "batch" if batch else "chat"})
    return out


def card(**changes: Any) -> Row:
    """The claim is about chat's TTFT; batch's may rise by 5%."""
    declared = ab_card(
        workload__populations=MIX,
        claim__metric="ttft.p50", claim__direction="must_fall_by", claim__threshold={"value": 0.1, "scale": "relative"},
        guards=[
            {"metric": "ttft.p50", "direction": "may_rise_by", "margin": {"value": 0.05, "scale": "relative"},
             "at": [20.0], "population": "batch"},
        ],
    )  # fmt: skip
    declared["claim"]["population"] = "chat"
    return declared | changes


@pytest.fixture(scope="module")
def verdict(tmp_path_factory: pytest.TempPathFactory) -> Row:
    return analyse(build(tmp_path_factory.mktemp("two"), card(), rows=two_kinds))


def interval(ratios: list[float]) -> list[float]:
    logs = [math.log(ratio) for ratio in ratios]
    mean, half = statistics.mean(logs), T7 * statistics.stdev(logs) / math.sqrt(8)
    return [mean, mean - half, mean + half]


def the_effect(verdict: Row, name: str, metric: str, load: float = 20.0) -> Row:
    wanted = (name, metric, load)
    (row,) = (r for r in verdict["population_effects"] if (r["population"], r["metric"], r["load"]) == wanted)
    return dict(row)


def test_the_effect_on_each_population(verdict: Row) -> None:
    for name, candidate, baseline in (("chat", FALL, 0.1), ("batch", RISE, 0.2)):
        row = the_effect(verdict, name, "ttft.p50")
        wanted = interval([ms / 1000 / baseline for ms in candidate])
        assert [row["mean"], *row["interval"]] == pytest.approx(wanted, abs=1e-6)
        assert row["ratio"] == pytest.approx(math.exp(wanted[0]), abs=1e-6)
        assert (row["scale"], row["blocks"], row["reason"]) == ("log", 8, None)
        assert row["baseline"] == pytest.approx(baseline)
        assert row["candidate"] == pytest.approx(statistics.mean(candidate) / 1000)
    metrics = {row["metric"] for row in verdict["population_effects"]}
    assert metrics == {"ttft.p50", "tpot.p50", "goodput"}
    # equal in both arms: no change, and no side of zero
    assert the_effect(verdict, "chat", "tpot.p50")["interval"] == [0.0, 0.0]


def test_reversed_between_populations(verdict: Row) -> None:
    rows = verdict["population_reversals"]
    assert [(row["flag"], row["metric"], row["load"], row["better"], row["worse"]) for row in rows] == [
        ("reversed_between_populations", "ttft.p50", load, ["chat"], ["batch"]) for load in (10.0, 20.0)
    ]
    text = (
        "at 20 req/s ttft.p50 got better for chat (−20%, 95% interval −21% to −18%) "
        "and worse for batch (+10%, 95% interval +9.1% to +12%)"
    )
    assert rows[1]["text"] == text
    conditions = [row for row in verdict["conditions"] if row["name"] == "reversed between populations"]
    assert [row["value"] for row in conditions] == [row["text"] for row in rows]
    assert verdict["sentence"].endswith(f"Reversed between populations: {rows[0]['text']}; {text}.")


def test_the_claim_and_the_guards_of_a_population(verdict: Row) -> None:
    (effect,) = (row for row in verdict["effects"] if row["claimed"])
    assert effect["mean"] == pytest.approx(interval([ms / 100 for ms in FALL])[0], abs=1e-6)
    assert (effect["word"], verdict["claim"]["population"]) == ("supported", "chat")
    (guard,) = verdict["guards"]
    assert (guard["population"], guard["word"]) == ("batch", "regressed")
    assert verdict["verdict"] == "falsified"
    assert [row["text"] for row in verdict["because"]][:2] == [
        "the guard ttft.p50 of batch may rise by 5% at 20 req/s regressed",
        "ttft.p50 of chat at 20 req/s: the interval of the effect lies below the threshold of −10%",
    ]
    assert (
        "lowered ttft.p50 of chat by 20% (95% interval 18% to 21%), that is −19.5 ms (−21.0 to −18.0), over 8 blocks"
        in verdict["sentence"]
    )


def test_shares_beside_the_declared_ones(verdict: Row) -> None:
    """Of the 100 counted requests at 20 req/s (indexes 10 to 109) 33 are multiples of 3; over 8 blocks 264."""
    rows = {(r["arm"], r["load"], r["population"]): r for r in verdict["population_shares"]}
    row = rows["candidate", 20.0, "batch"]
    assert (row["declared"], row["attempted"], row["of"], row["share"], row["reason"]) == (0.3, 264, 800, 0.33, None)
    assert rows["baseline", 20.0, "chat"]["share"] == 0.67
    # of each arm's 1200: 800 and 400, where 840 and 360 are expected
    statistic = 40**2 / 840 + 40**2 / 360
    assert math.erfc(math.sqrt(statistic / 2)) == pytest.approx(0.0117, abs=5e-5)
    (mix,) = (r for r in verdict["conditions"] if r["name"] == "mix")
    assert mix == {
        "name": "mix",
        "value": "declared 70% chat, 30% batch; 66.7% and 33.3% of counted attempts "
        "(chi-square test against the declared shares: p 0.012)",
        "source": "observed",
    }


def test_rows_of_every_cell_and_their_summary(verdict: Row) -> None:
    of = [r for r in verdict["populations"] if r["cell"] == "b01-candidate-l2" and r["metric"] == "ttft.p50"]
    assert [(r["population"], r["value"], r["n"], r["undefined"]) for r in of] == [
        ("chat", 0.08, 67, {}), ("batch", 0.22, 33, {}),
    ]  # fmt: skip
    assert set(of[0]) == {
        "cell", "block", "arm", "load_point", "load", "population", "metric", "unit", "value", "n", "undefined",
    }  # fmt: skip
    goodput = {
        r["population"]: r["value"]
        for r in verdict["populations"]
        if (r["cell"], r["metric"]) == ("b01-baseline-l2", "goodput")
    }
    (whole,) = (r for r in verdict["metrics"] if (r["cell"], r["metric"]) == ("b01-baseline-l2", "goodput"))
    assert goodput == {"chat": 13.4, "batch": 6.6}
    assert whole["value"] == 20.0


def test_the_mean_over_the_levels_where_the_mix_follows_a_profile(tmp_path: Path) -> None:
    mixed = {"chat": population(None, None, [0.9, 0.4]), "batch": population(None, None, [0.1, 0.6])}
    declared = card()
    declared["workload"]["populations"] = mixed
    found = analyse(build(tmp_path, declared, rows=two_kinds))
    assert [row["declared"] for row in found["population_shares"]][:2] == [0.65, 0.35]
    (mix,) = (row["value"] for row in found["conditions"] if row["name"] == "mix")
    assert mix == ("declared 65% chat, 35% batch (mean over the profile's levels); 66.7% and 33.3% of counted attempts")


def test_a_zero_in_some_block_leaves_no_log_ratio(tmp_path: Path) -> None:
    """Batch's objective of 100 ms is never met: goodput 0 in both arms, compared as a difference."""
    declared = card()
    declared["workload"]["populations"] = MIX | {"batch": population(0.3, {"success": True, "ttft": {"at_most": 0.1}})}
    row = the_effect(analyse(build(tmp_path, declared, rows=two_kinds)), "batch", "goodput")
    assert (row["scale"], row["mean"], row["ratio"]) == ("difference", 0.0, None)
    assert row["reason"] == "zero in some block, so no log ratio"


def test_fewer_than_six_blocks_carry_no_flag(tmp_path: Path) -> None:
    declared = card(method={"blocks": 5, "seed": 1, "spare_blocks": 0, "pause_between_cells": 0.0})
    found = analyse(build(tmp_path, declared, rows=two_kinds))
    assert (found["population_reversals"], the_effect(found, "chat", "ttft.p50")["blocks"]) == ([], 5)


def test_an_invalid_run_carries_no_flag(tmp_path: Path) -> None:
    found = analyse(build(tmp_path, card(), rows=two_kinds, skip=lambda cell: cell.block > 7))
    assert (found["verdict"], found["population_reversals"]) == ("invalid", [])
    assert "Reversed" not in found["sentence"]


def test_a_card_without_populations_says_nothing_of_them(tmp_path: Path) -> None:
    found = analyse(build(tmp_path, ab_card()))
    assert not [key for key in found if key.startswith("population")]
    assert "mix" not in {row["name"] for row in found["conditions"]}
    assert not (tmp_path / "series" / "populations.parquet").exists()
    assert all("population" not in row for row in found["guards"])


def test_a_baseline_has_its_populations_apart(tmp_path: Path) -> None:
    def rows(_: Cell, events: list[Row]) -> list[Row]:
        return [row | {"population": "batch" if row["index"] % 4 == 0 else "chat"} for row in events]

    declared = baseline_card(workload__populations={"chat": population(0.75), "batch": population(0.25)})
    found = analyse(build(tmp_path, declared, rows=rows, skip=lambda cell: cell.block > 3))
    assert {row["share"] for row in found["population_shares"]} == {0.75, 0.25}
    assert {row["population"] for row in found["populations"]} == {"chat", "batch"}
    assert "population_effects" not in found
    series = pl.read_parquet(tmp_path / "series" / "populations.parquet")
    assert set(series["population"]) == {"chat", "batch"}
    # a card without objectives has no good attempts, and says so
    assert {row["reason"] for row in found["population_summary"] if row["metric"] == "goodput"} == {
        "undefined in 3 of 3 blocks"
    }


@pytest.mark.parametrize("place", ["claim", "guards[0]"])
def test_a_population_that_is_not_on_the_card_is_refused(place: str, tmp_path: Path) -> None:
    declared = card()
    (declared["claim"] if place == "claim" else declared["guards"][0])["population"] = "night"
    done = process("verdict", str(build(tmp_path, declared, rows=two_kinds)))
    assert done.returncode == 2
    assert f"{place}.population is 'night'; the workload has chat, batch" in done.stderr

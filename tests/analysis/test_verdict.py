"""Bundles end to end, through the process: each word, its reasons and its sentence."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import benchcard.analysis
import pytest
from benchcard.analysis.metrics import METRICS
from benchcard.reports.render import render
from scipy import stats

from .bundles import CERTIFICATE, Cell, Row, ab_card, analyse, build, point, process

Good = Callable[[int, str, int], float]

PLACE = (
    "On atlas-70b with the embedded simulated engine (atlas costs, times divided by 10), for completions: "
    "120 (median; sigma 0.4) tokens in, 60 (median; sigma 0.5) out, "
    "behind 12 shared documents of 1500 tokens (zipf 1.1)"
)
TREATMENT = "enable-prefix-caching=true (instead of false)"


def gain(*by_load: float, noise: float = 0.01) -> Good:
    """Attainment of .5 ± .03 in the baseline, times the gain at each load in the candidate, with a little noise."""

    def good(block: int, arm: str, point: int) -> float:
        base = 0.5 + (block * 5 % 7 - 3) / 100
        return base if arm == "baseline" else base * by_load[point - 1] + (block * 3 % 5 - 2) * noise

    return good


def codes(verdict: Row) -> list[str]:
    return [row["code"] for row in verdict["because"]]


def effect_at(verdict: Row, load: float) -> Row:
    (row,) = [row for row in verdict["effects"] if row["load"] == load]
    return dict(row)


def test_supported(tmp_path: Path) -> None:
    verdict = analyse(build(tmp_path, good=gain(1.0, 1.34)), apart=True)
    assert verdict["verdict"] == "supported"
    assert codes(verdict) == ["claim_supported", "guard_passed", "guard_passed", "evidence_holds", "evidence_holds"]
    effect = effect_at(verdict, 20.0)
    low, high = (round(100 * (ratio - 1)) for ratio in effect["ratio_interval"])
    size = round(100 * (effect["ratio"] - 1))
    # the counts of good requests differ by 19, 16, 18, 18, 15, 18, 15, 20 over 5 s: mean 17.375, s 1.84681, t 2.36462
    assert effect["absolute"]["difference"] == pytest.approx(3.475)
    assert effect["absolute"]["interval"] == pytest.approx([3.16621, 3.78379], abs=1e-5)
    assert verdict["sentence"] == (
        f"{PLACE} at 20 req/s, {TREATMENT} raised goodput by {size}% (95% interval {low}% to {high}%), "
        "that is +3.47 req/s (+3.17 to +3.78), over 8 blocks; the threshold was +5%: supported."
    )
    assert effect["word"] == "supported"
    # the load that is not claimed is exploratory: shown, without a word
    other = effect_at(verdict, 10.0)
    assert (other["claimed"], other["word"]) == (False, None)
    assert other["interval"] is not None


def test_falsified_although_there_is_a_rise(tmp_path: Path) -> None:
    card = ab_card(claim__threshold={"value": 0.5, "scale": "relative"})
    verdict = analyse(build(tmp_path, card, good=gain(1.0, 1.34)), apart=True)
    assert verdict["verdict"] == "falsified"
    assert verdict["because"][0] == {
        "code": "claim_falsified",
        "text": "goodput at 20 req/s: the interval of the effect lies below the threshold of +50%, "
        "although the effect has the claimed direction",
    }
    assert (
        "the threshold was +50%: falsified. At 20 req/s there is a rise, smaller than the claim." in verdict["sentence"]
    )


def test_inconclusive_says_what_could_be_seen(tmp_path: Path) -> None:
    verdict = analyse(build(tmp_path, good=gain(1.0, 1.06, noise=0.03)), apart=True)
    assert verdict["verdict"] == "inconclusive"
    assert codes(verdict)[0] == "claim_inconclusive"
    effect = effect_at(verdict, 20.0)
    assert effect["smallest_detectable"] > 0
    assert effect["blocks_needed"] > 8
    text = verdict["sentence"]
    assert "changed goodput by an estimated +7.1% (95% interval −0.1% to +15%, zero included), that is" in text
    assert "the interval spans the threshold: 8 blocks with this spread detect (power 80%) an effect" in text
    assert f"; one as far from it as the one seen takes {effect['blocks_needed']} blocks." in text
    assert not any(word in text for word in ("trend", "no difference", "almost", "nearly"))


def test_mixed_names_each_load(tmp_path: Path) -> None:
    verdict = analyse(build(tmp_path, good=gain(0.7, 1.34)), apart=True)
    assert verdict["verdict"] == "mixed"
    assert verdict["because"][0]["text"] == (
        "the effect turns around between loads: goodput rose at 20 req/s and fell at 10 req/s"
    )
    assert "at 10 req/s lowered goodput by" in verdict["sentence"]
    assert "at 20 req/s raised goodput by" in verdict["sentence"]
    assert effect_at(verdict, 10.0)["bonferroni_interval"][1] < 0 < effect_at(verdict, 20.0)["bonferroni_interval"][0]


def test_invalid_when_blocks_are_missing(tmp_path: Path) -> None:
    verdict = analyse(build(tmp_path, good=gain(1.0, 1.34), skip=lambda cell: cell.block > 5), apart=True)
    assert verdict["verdict"] == "invalid"
    assert codes(verdict) == ["incomplete"]
    assert verdict["because"][0]["text"] == (
        "incomplete: 5 of 8 blocks are valid (block 6: not run; block 7: not run; block 8: not run)"
    )
    assert verdict["sentence"].endswith(": invalid.")
    effect = effect_at(verdict, 20.0)
    assert (effect["word"], effect["reason"], effect["blocks"]) == (None, "the run is invalid", 5)
    assert {guard["word"] for guard in verdict["guards"]} == {"indeterminate"}


def no_objectives(**changes: Any) -> Row:
    claim = {"metric": "output_throughput", "direction": "must_rise_by", "scope": "loads", "at": [20.0]}
    claim["threshold"] = {"value": 0.05, "scale": "relative"}
    return ab_card(objectives=None, claim=claim, **changes)


def more_tokens(cell: Cell, events: list[Row]) -> list[Row]:
    """The candidate's chunks hold two tokens each: twice the output."""
    if cell.arm == "baseline":
        return events
    return [row | {"chunk_tokens": [2] * 5, "output_tokens": 10} for row in events]


def test_a_claim_that_needs_no_objectives_has_a_verdict_and_a_report_without_them(tmp_path: Path) -> None:
    bundle = build(tmp_path, no_objectives(), rows=more_tokens)
    verdict = analyse(bundle, apart=True)
    assert verdict["verdict"] == "supported"
    assert "raised output_throughput by 100%" in verdict["sentence"]
    (goodput,) = [row for row in verdict["metrics"] if row["cell"] == "b01-baseline-l2" and row["metric"] == "goodput"]
    assert (goodput["value"], goodput["undefined"]) == (None, {"the card has no objectives": 100})
    assert [row["good"] for row in verdict["attribution"]] == [None] * 4
    assert {row["name"]: row["value"] for row in verdict["conditions"]}["objectives"] == "none"
    assert not (bundle / "series" / "goodput.parquet").exists()
    markdown, html = (path.read_text() for path in render(bundle))
    assert "The card states no objectives, so no request can be called good." in markdown
    assert "## Outcomes" in markdown
    assert "output_throughput must rise by at least 5%" in html


def test_a_guard_on_goodput_without_objectives_is_indeterminate_with_a_reason(tmp_path: Path) -> None:
    guard = {"metric": "goodput", "direction": "may_fall_by", "margin": {"value": 0.05, "scale": "relative"}}
    verdict = analyse(build(tmp_path, no_objectives(guards=[guard | {"at": [20.0]}]), rows=more_tokens))
    (row,) = verdict["guards"]
    assert row["word"] == "indeterminate"
    assert row["reason"].startswith("undefined in block 1 (baseline)")


def test_an_incomplete_run_names_three_blocks_by_their_first_cause_and_counts_the_rest(tmp_path: Path) -> None:
    gone = ("b02-baseline-l1", "b02-candidate-l2", "b02-baseline-l2")

    def busy(cell: Cell, row: Row) -> Row:
        return row | {"cpu": row["load_end"] - row["load_start"]} if cell.cell == "b03-candidate-l2" else row

    def skip(cell: Cell) -> bool:
        # block 3 was given up at its first cell; of block 4 the first cell was killed
        return cell.cell in gone or cell.block > 3 or (cell.block == 3 and cell.cell != "b03-candidate-l2")

    bundle = build(tmp_path, client=busy, skip=skip)
    with (bundle / "attempts.jsonl").open("a") as log:
        for cell in ("b02-candidate-l2", "b04-baseline-l1"):
            log.write(json.dumps({"kind": "cell_killed", "cell": cell, "why": "kill -9"}) + "\n")
        log.write(json.dumps({"kind": "run_ended", "why": "no spare block left: killed"}) + "\n")
    verdict = analyse(bundle)
    assert verdict["because"][0]["text"] == (
        "incomplete: 1 of 8 blocks are valid (block 2: b02-candidate-l2 was killed (kill -9); "
        "block 3: b03-candidate-l2 failed client_cpu; block 4: b04-baseline-l1 was killed (kill -9); and 4 more)"
    )
    (check,) = [row for row in verdict["validity"] if row["name"] == "enough_blocks"]
    assert "esume" not in check["advice"]
    assert "more spare blocks" in check["advice"]


def test_one_block_is_one_block(tmp_path: Path) -> None:
    card = ab_card(method__blocks=1, method__spare_blocks=0)
    verdict = analyse(build(tmp_path, card, skip=lambda cell: True))
    assert verdict["because"][0]["text"] == "incomplete: 0 of 1 block is valid (block 1: not run)"
    (check,) = [row for row in verdict["validity"] if row["name"] == "enough_blocks"]
    assert check["advice"].startswith("Resume the run if it was interrupted")


def test_a_spare_takes_the_place_of_a_block_with_an_invalid_cell(tmp_path: Path) -> None:
    def busy(cell: Cell, row: Row) -> Row:
        return row | {"cpu": row["load_end"] - row["load_start"]} if cell.cell == "b02-candidate-l1" else row

    verdict = analyse(build(tmp_path, good=gain(1.0, 1.34), client=busy, skip=lambda cell: cell.block > 9))
    assert verdict["verdict"] == "supported"
    fates = {row["block"]: (row["used"], row["reason"]) for row in verdict["blocks"]}
    assert fates[2] == (False, "b02-candidate-l1 failed client_cpu")
    assert fates[9] == (True, None)
    assert fates[10] == (False, "spare, not run")
    assert {row["block"] for row in verdict["metrics"]} == {1, 3, 4, 5, 6, 7, 8, 9}
    (check,) = [row for row in verdict["validity"] if row["name"] == "client_cpu"]
    assert (check["passed"], check["observed"], check["where"]) == (False, 1.0, ["b02-candidate-l1"])


def test_a_spare_that_was_run_without_need_is_not_used(tmp_path: Path) -> None:
    verdict = analyse(build(tmp_path, good=gain(1.0, 1.34), skip=lambda cell: cell.block > 9))
    assert [row["block"] for row in verdict["blocks"] if row["used"]] == list(range(1, 9))
    assert verdict["blocks"][8]["reason"] == "not needed: enough earlier blocks are valid"


def test_a_killed_cell_has_no_events_and_its_block_does_not_count(tmp_path: Path) -> None:
    bundle = build(tmp_path, good=gain(1.0, 1.34), skip=lambda cell: cell.cell == "b03-baseline-l2" or cell.block > 9)
    log = bundle / "attempts.jsonl"
    log.write_text(
        log.read_text() + json.dumps({"kind": "cell_killed", "cell": "b03-baseline-l2", "why": "kill -9"}) + "\n{"
    )
    verdict = analyse(bundle)
    assert verdict["verdict"] == "supported"
    assert verdict["blocks"][2]["reason"] == "b03-baseline-l2 was killed (kill -9)"
    assert verdict["blocks"][8]["used"]


def test_evidence_that_fails_comes_first_whatever_the_effect(tmp_path: Path) -> None:
    def never_hit(cell: Cell, rows: list[Row]) -> list[Row]:
        return [row | {"value": 0.0} if "hits" in row["name"] else row for row in rows]

    verdict = analyse(build(tmp_path, good=gain(1.0, 1.34), server=never_hit))
    assert verdict["verdict"] == "inconclusive"
    assert codes(verdict)[0] == "evidence_fails"
    assert verdict["sentence"].startswith(
        "The treatment did not take effect as declared: server.prefix_cache_hit_rate of the candidate: 0%; "
        "at least 50% was expected. On atlas-70b"
    )
    assert effect_at(verdict, 20.0)["word"] == "supported"


def test_evidence_that_is_unknown_supports_nothing(tmp_path: Path) -> None:
    verdict = analyse(build(tmp_path, good=gain(1.0, 1.34), server=lambda cell, rows: None))
    assert verdict["verdict"] == "inconclusive"
    assert codes(verdict)[0] == "evidence_unknown"
    assert verdict["evidence"][0]["observed"] is None
    assert verdict["evidence"][0]["reason"] == "b01-candidate-l2: the server's metrics were not read"


def slower_candidate(cell: Cell, events: list[Row]) -> list[Row]:
    """The candidate's chunks 10% further apart."""
    if cell.arm == "baseline":
        return events
    out = []
    for row in events:
        first = row["first_token"]
        times = [first + (time - first) * 11 // 10 for time in row["chunk_times"]]
        out.append(row | {"chunk_times": times, "last_token": times[-1], "end": times[-1]})
    return out


def test_a_regressed_guard_falsifies_by_name(tmp_path: Path) -> None:
    verdict = analyse(build(tmp_path, good=gain(1.0, 1.34), rows=slower_candidate))
    assert verdict["verdict"] == "falsified"
    assert verdict["because"][0] == {
        "code": "guard_regressed",
        "text": "the guard tpot.p50 may rise by 3% at 20 req/s regressed",
    }
    assert "The guard tpot.p50 may rise by 3% at 20 req/s regressed." in verdict["sentence"]
    (guard,) = [row for row in verdict["guards"] if row["metric"] == "tpot.p50"]
    assert guard["change"] == pytest.approx(0.10, abs=0.005)


def test_confounded_differences_support_nothing_unless_they_do_not_exist(tmp_path: Path) -> None:
    card = ab_card(identity__confounded=["host.node"])
    verdict = analyse(build(tmp_path / "a", card, good=gain(1.0, 1.34)))
    assert (verdict["verdict"], codes(verdict)[0]) == ("inconclusive", "confounded")
    text = "The arms also differ in host.node, beside the treatment; the effect may come from there."
    assert verdict["sentence"].endswith(text)
    same = ab_card(identity__confounded=["host.cpu"])
    assert analyse(build(tmp_path / "b", same, good=gain(1.0, 1.34)))["verdict"] == "supported"


def test_every_load_must_be_supported(tmp_path: Path) -> None:
    both = ab_card(claim__scope="every_load", claim__at=[10.0, 20.0])
    verdict = analyse(build(tmp_path / "a", both, good=gain(1.3, 1.34)))
    assert verdict["verdict"] == "supported"
    assert "at 10 req/s raised goodput by" in verdict["sentence"]
    assert "; at 20 req/s raised goodput by" in verdict["sentence"]
    assert analyse(build(tmp_path / "b", both, good=gain(1.0, 1.34)))["verdict"] == "falsified"


def test_some_load(tmp_path: Path) -> None:
    some = ab_card(claim__scope="some_load", claim__at=[10.0, 20.0])
    verdict = analyse(build(tmp_path / "a", some, good=gain(1.0, 1.34)))
    assert verdict["verdict"] == "supported"
    assert [row["word"] for row in verdict["effects"]] == ["falsified", "supported"]
    assert effect_at(verdict, 20.0)["p_adjusted"] == pytest.approx(2 * effect_at(verdict, 20.0)["p"])
    assert analyse(build(tmp_path / "b", some, good=gain(1.0, 1.0)))["verdict"] == "falsified"


def test_at_some_load_sentence_row_and_next_step_name_the_same_blocks(tmp_path: Path) -> None:
    some = ab_card(claim__scope="some_load", claim__at=[10.0, 20.0])
    verdict = analyse(build(tmp_path, some, good=gain(1.0, 1.06, noise=0.03)), apart=True)
    row = effect_at(verdict, 20.0)
    assert (verdict["verdict"], row["word"]) == ("inconclusive", "inconclusive")
    (part,) = [part for part in verdict["next"]["parts"] if part["load_point"] == 2]
    # one load of two must show it: a two-sided level of 97.5%, so that one block fewer falls short of 80%
    distance = (row["mean"] - row["threshold"]) / row["stdev"]

    def chance(n: int) -> float:
        return float(stats.nct.sf(stats.t.ppf(1 - 0.025 / 2, n - 1), n - 1, distance * n**0.5))

    assert chance(row["blocks_needed"] - 1) < 0.8 <= chance(row["blocks_needed"])
    assert part["blocks_needed"] == row["blocks_needed"]
    assert f"takes {row['blocks_needed']} blocks." in verdict["sentence"]


def test_must_fall_by(tmp_path: Path) -> None:
    claim = {"metric": "ttft.p50", "direction": "must_fall_by", "threshold": {"value": 0.15, "scale": "relative"}}
    card = ab_card(claim=claim | {"scope": "loads", "at": [20.0]}, guards=[])
    verdict = analyse(build(tmp_path, card, good=lambda block, arm, point: 1.0 if arm == "candidate" else 0.2))
    assert verdict["verdict"] == "supported"
    assert "lowered ttft.p50 by 89% (95% interval 89% to 89%)" in verdict["sentence"]
    assert "the threshold was −15%: supported." in verdict["sentence"]


def test_nothing_good_anywhere_has_a_defined_answer(tmp_path: Path) -> None:
    verdict = analyse(build(tmp_path, good=lambda block, arm, point: 0.0))
    assert verdict["verdict"] == "inconclusive"
    assert effect_at(verdict, 20.0)["scale"] == "scaled"
    assert effect_at(verdict, 20.0)["flags"] == ["degenerate"]
    assert (
        "candidate − the threshold's multiple of the baseline is zero in every block" in verdict["because"][0]["text"]
    )


def test_no_good_request_in_one_baseline_block(tmp_path: Path) -> None:
    def good(block: int, arm: str, point: int) -> float:
        return 0.9 - block / 100 if arm == "candidate" else 0.0 if block == 4 else 0.2

    verdict = analyse(build(tmp_path, good=good))
    assert verdict["verdict"] == "supported"
    effect = effect_at(verdict, 20.0)
    assert (effect["scale"], effect["ratio"], len(effect["d"])) == ("scaled", None, 8)
    assert "zero in some block" in effect["reason"]
    assert "req/s above 1.05 × the baseline's (95% interval" in verdict["sentence"]


def all_fail(_: Cell, events: list[Row]) -> list[Row]:
    gone = ("first_token", "first_answer_token", "last_token", "output_tokens", "finish_reason")
    lists = ("chunk_times", "chunk_tokens", "chunk_kinds", "chunk_bytes")
    failed = dict.fromkeys(gone) | {name: [] for name in lists} | {"outcome": "connect_error"}
    return [row | failed | {"end": row["scheduled"] + 1} for row in events]


def test_all_requests_fail(tmp_path: Path) -> None:
    claim = {"metric": "ttft.p50", "direction": "must_fall_by", "threshold": {"value": 0.05, "scale": "relative"}}
    card = ab_card(claim=claim | {"scope": "loads", "at": [20.0]})
    verdict = analyse(build(tmp_path, card, rows=all_fail))
    assert verdict["verdict"] == "inconclusive"
    effect = effect_at(verdict, 20.0)
    assert (effect["mean"], effect["word"], effect["d"]) == (None, "inconclusive", [None] * 8)
    assert effect["reason"].startswith("undefined in block 1 (baseline), block 2 (baseline)")
    assert verdict["attribution"][0]["outcomes"] == {"connect_error": 400}
    (summary,) = [r for r in verdict["summary"] if (r["arm"], r["load"], r["metric"]) == ("baseline", 20.0, "ttft.p95")]
    assert (summary["mean"], summary["reason"]) == (None, "undefined in 8 of 8 blocks")


def test_one_block_decides_nothing(tmp_path: Path) -> None:
    card = ab_card(method__blocks=1, method__spare_blocks=0)
    verdict = analyse(build(tmp_path, card, good=gain(1.0, 1.34)))
    assert verdict["verdict"] == "inconclusive"
    effect = effect_at(verdict, 20.0)
    assert (effect["interval"], effect["flags"], effect["reason"]) == (None, ["few_blocks"], "1 block; a word needs 6")


def test_five_blocks_have_an_interval_but_no_word(tmp_path: Path) -> None:
    card = ab_card(method__blocks=5, method__spare_blocks=0)
    verdict = analyse(build(tmp_path, card, good=gain(1.0, 1.34)))
    assert verdict["verdict"] == "inconclusive"
    assert verdict["sentence"].endswith(": inconclusive. At 20 req/s there are 5 blocks; a word needs 6.")


def test_a_run_with_nothing_in_it(tmp_path: Path) -> None:
    verdict = analyse(build(tmp_path, skip=lambda cell: True, identity=False))
    assert verdict["verdict"] == "invalid"
    assert verdict["metrics"] == verdict["attribution"] == []
    unknown = {row["name"] for row in verdict["conditions"] if row["source"] == "unknown"}
    assert {"identity of baseline", "identity of candidate"} <= unknown


def test_prompts_that_the_server_counts_otherwise(tmp_path: Path) -> None:
    """A chat template adds 7 tokens: planned and counted stand side by side, and the difference is a condition."""

    def prompt_row(name: str, excess: Callable[[Row], int | None]) -> str:
        def rows(_: Cell, events: list[Row]) -> list[Row]:
            return [
                row | {"input_tokens": None if (more := excess(row)) is None else row["asked_input_tokens"] + more}
                for row in events
            ]

        conditions = analyse(build(tmp_path / name, rows=rows))["conditions"]
        return str(next(row["value"] for row in conditions if row["name"] == "prompt lengths"))

    assert prompt_row("none", lambda row: 0) == "as planned in all 2400 replies that count them"
    assert prompt_row("seven", lambda row: 7) == (
        "not as planned in 2400 of 2400 replies: the server counts +7 tokens; both are kept"
    )
    # Of a cell's counted attempts, index 50 lies in every cell: 32 cells.
    assert prompt_row("some", lambda row: {50: -1, 52: 9}.get(row["index"], 0)) == (
        "not as planned in 64 of 2400 replies: the server counts -1 to +9 tokens; both are kept"
    )
    assert prompt_row("unknown", lambda row: None) == "unknown (no reply says how many tokens its prompt had)"


def test_what_the_client_was_is_a_condition(tmp_path: Path) -> None:
    """Up to which load it was seen to be right, what it did without, and how many attempts took more than one try."""
    conditions = {row["name"]: row["value"] for row in analyse(build(tmp_path / "plain"))["conditions"]}
    assert conditions["measuring client"] == (
        "1 worker (uvloop, timerfd); seen to be right to 1 ms at up to 64 streams and 25,000 tokens/s"
    )
    assert "retries" not in conditions

    def again(cell: Cell, rows: list[Row]) -> list[Row]:
        return [row | {"tries": 2} if row["index"] % 50 == 49 and cell.block == 1 else row for row in rows]

    root = build(tmp_path / "again", ab_card(workload__client__retries=3), rows=again)
    client = {"workers": 2, "loop": "asyncio", "timer": "event loop", "costs": ["no uvloop: slower"]}
    slow = CERTIFICATE | {"client": client, "points": [point(itl_p99_error=0.1)]}
    (root / "instrument" / "2.json").write_text(json.dumps(slow))
    rows = [(row["name"], row["value"]) for row in analyse(root)["conditions"]]
    assert ("retries", "6 of 2400 counted attempts were tried more than once (up to 3 retries)") in rows
    assert [value for name, value in rows if name == "measuring client"][1] == (
        "2 workers (asyncio, event loop); not seen to be right to 1 ms at any load; no uvloop: slower"
    )


def test_conditions_cannot_be_parted_from_the_verdict(tmp_path: Path) -> None:
    verdict = analyse(build(tmp_path, good=gain(1.0, 1.34), seed=99))
    conditions = {row["name"]: row for row in verdict["conditions"]}
    assert conditions["days"]["value"] == "single day"
    assert conditions["model"]["value"] == "atlas-70b (bfloat16, context 32768)"
    assert conditions["treatment"]["value"] == TREATMENT
    assert conditions["arrivals"]["value"] == "open loop, constant"
    assert conditions["loads"]["value"] == "10 and 20 req/s"
    assert conditions["cache state"]["value"] == "cold"
    assert conditions["window"]["value"] == "warm-up 0.5 s, measured 5 s, drain 2 s"
    assert conditions["objectives"]["value"].startswith("success; ttft ≤ 600 ms; every itl ≤ 150 ms")
    assert conditions["system.hardware.accelerators"] == {
        "name": "system.hardware.accelerators",
        "value": "embedded engine",
        "source": "unknown",
    }
    assert conditions["host.cpu"]["source"] == "observed"
    assert conditions["gpu.name"] == {"name": "gpu.name", "value": "no accelerator was found", "source": "unknown"}
    assert "engine.cache_config.enable_prefix_caching (differs between arms)" in conditions
    assert conditions["seed"]["value"] == "99, drawn for a second day"
    assert verdict["seed"] == 99


def test_each_fact_stands_once_and_what_is_unknown_says_so(tmp_path: Path) -> None:
    card = ab_card()
    card["system"]["model"]["precision"] = {"unknown": "the server does not tell"}
    bundle = build(tmp_path, card)
    for arm in ("baseline", "candidate"):
        path = bundle / "identity" / f"{arm}.json"
        identity = json.loads(path.read_text())
        identity["fields"] |= {
            "client.cpu": {"value": "Example CPU", "source": "observed", "why": None},
            "client.cores": {"value": 2, "source": "observed", "why": None},
            "model.precision": {"value": card["system"]["model"]["precision"], "source": "declared", "why": None},
            "model.weights_sha256": {"value": None, "source": "unknown", "why": "no weights"},
            "hardware.accelerators": {"value": None, "source": "unknown", "why": "embedded engine"},
        }
        path.write_text(json.dumps(identity))
    conditions = {row["name"]: row for row in analyse(bundle)["conditions"]}
    assert (conditions["client.cpu"]["value"], conditions["client.cpu"]["source"]) == ("Example CPU", "observed")
    assert conditions["client.cores"]["value"] == "2"
    assert not [name for name in conditions if name.startswith("system.")]
    precision = conditions["model.precision"]
    assert (precision["value"], precision["source"]) == ("unknown (the server does not tell)", "unknown")
    assert conditions["model.weights_sha256"]["source"] == conditions["hardware.accelerators"]["source"] == "unknown"


def test_the_documents_shape(tmp_path: Path) -> None:
    bundle = build(tmp_path, good=gain(1.0, 1.34))
    verdict = analyse(bundle)
    assert set(verdict) == {
        "verdict_version", "run", "card", "seed", "revision", "libraries", "verdict", "because", "sentence", "claim",
        "effects", "guards", "evidence", "validity", "blocks", "conditions", "attribution", "summary", "metrics",
        "steady_state", "latency", "objective_percentiles", "knee", "calibration", "next", "power", "flags", "server",
        "crosscheck", "identity",
    }  # fmt: skip
    assert verdict["verdict_version"] == 1
    assert set(verdict["libraries"]) == {"numpy", "scipy", "polars"}
    assert len(verdict["metrics"]) == 8 * 4 * len(METRICS)
    assert len(verdict["summary"]) == 4 * len(METRICS)
    for row in verdict["attribution"]:
        assert row["attempted"] == row["good"] + sum(row["first_cause"].values())
    assert "NaN" not in (bundle / "verdict.json").read_text()
    (summary,) = [r for r in verdict["summary"] if (r["arm"], r["load"], r["metric"]) == ("candidate", 20.0, "goodput")]
    assert summary["mean"] == pytest.approx(effect_at(verdict, 20.0)["candidate"])


def test_a_copy_under_another_name_writes_the_same_bytes(tmp_path: Path) -> None:
    bundle = build(tmp_path / "bundle", good=gain(1.0, 1.34))
    analyse(bundle)
    source = Path(benchcard.analysis.__file__).parent
    shutil.copytree(source, tmp_path / "copy" / "pinned", ignore=shutil.ignore_patterns("__pycache__"))
    arguments = ["pinned", "verdict", str(bundle), "--out", str(tmp_path / "again")]
    # it must have loaded nothing of the installed package
    probe = "import sys, runpy; sys.argv = sys.argv[1:]; sys.path.insert(0, '.')\n"
    probe += "try:\n    runpy.run_module('pinned', run_name='__main__', alter_sys=True)\n"
    probe += (
        "except SystemExit as end:\n    assert not [m for m in sys.modules if m.startswith('benchcard.')]; raise end\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe, *arguments], cwd=tmp_path / "copy", capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "again" / "verdict.json").read_bytes() == (bundle / "verdict.json").read_bytes()
    for name in ("goodput", "latency", "steady"):
        again = tmp_path / "again" / "series" / f"{name}.parquet"
        assert again.read_bytes() == (bundle / "series" / f"{name}.parquet").read_bytes()


def test_the_checks_of_a_cell_while_the_run_goes_on(tmp_path: Path) -> None:
    bundle = build(tmp_path, skip=lambda cell: cell.block > 1)
    done = process("check", str(bundle), stdin="b01-baseline-l1\nb01-candidate-l2\n")
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["cell"] for answer in answers] == ["b01-baseline-l1", "b01-candidate-l2"]
    assert all(check["passed"] for answer in answers for check in answer["checks"])
    assert process("check", str(bundle), stdin="b99-baseline-l1\n").returncode == 2


def test_order_of_rows_and_blocks_in_time_does_not_matter(tmp_path: Path) -> None:
    def shuffled(cell: Cell, events: list[Row]) -> list[Row]:
        return events[::-1]

    first: Any = analyse(build(tmp_path / "a", good=gain(1.0, 1.34)))
    second: Any = analyse(build(tmp_path / "b", good=gain(1.0, 1.34), rows=shuffled))
    assert first == second


def _other_system(root: Path, arm: str, name: str, value: object) -> None:
    path = root / "identity" / f"{arm}.json"
    found = json.loads(path.read_text())
    found["fields"][name] = {"value": value, "source": "observed"}
    path.write_text(json.dumps(found))


def test_a_forbidden_difference_of_identity_is_invalid_whatever_the_effect(tmp_path: Path) -> None:
    root = build(tmp_path, good=gain(1.0, 1.34))
    _other_system(root, "candidate", "engine.version", "0.2.0")
    verdict = analyse(root)
    assert (verdict["verdict"], codes(verdict)[0]) == ("invalid", "identity")
    text = "the arms differ in more than the card declares or accepts: engine.version (baseline 0.1.0, candidate 0.2.0)"
    assert verdict["because"][0]["text"] == text
    assert f"this run says nothing about {TREATMENT}: {text}: invalid." in verdict["sentence"]
    reason = "the run is invalid, since the arms are not the systems that the card declares"
    claimed = [row for row in verdict["effects"] if row["claimed"]]
    assert [(row["word"], row["reason"]) for row in claimed] == [(None, reason)]
    assert {(row["word"], row["reason"]) for row in verdict["guards"]} == {("indeterminate", reason)}
    assert verdict["next"]["action"] == "repair"
    assert verdict["next"]["text"] == (
        f"Nothing in this run answers the question: {text}. Start the arms alike in all but the treatment; or declare "
        "what differs: as a flag or a variable of the arms, under identity.treatment where it follows from the "
        "treatment, under identity.confounded where it is accepted (the verdict then carries it). Then run a new card."
    )


def test_an_accepted_difference_supports_nothing_and_stands_in_the_headline(tmp_path: Path) -> None:
    root = build(tmp_path, ab_card(identity={"treatment": [], "confounded": ["engine.*"]}), good=gain(1.0, 1.34))
    _other_system(root, "candidate", "engine.version", "0.2.0")
    verdict = analyse(root)
    assert (verdict["verdict"], codes(verdict)[0]) == ("inconclusive", "confounded")
    assert verdict["sentence"].endswith(
        "The arms also differ in engine.*, beside the treatment; the effect may come from there."
    )


def test_a_treatment_that_did_not_arrive_is_inconclusive_first(tmp_path: Path) -> None:
    root = build(tmp_path, good=gain(1.0, 1.34))
    for arm in ("baseline", "candidate"):
        _other_system(root, arm, "engine.cache_config.enable_prefix_caching", "unset")
    verdict = analyse(root)
    assert (verdict["verdict"], codes(verdict)[0]) == ("inconclusive", "treatment_not_arrived")
    assert verdict["sentence"].startswith(
        "The treatment did not take effect as declared: enable-prefix-caching (baseline false, candidate true), and "
        "both engines resolved engine.cache_config.enable_prefix_caching to unset. "
    )

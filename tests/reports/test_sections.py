"""Single sections: what is left out and why, the noise floor, replaced blocks, the attempt log."""

from __future__ import annotations

from pathlib import Path

import bundles
import pytest
from benchcard.reports import baseline, effects, headline, procedure, read, service, start, steady, summary
from benchcard.reports.document import Section, Table, table


def _read(tmp_path: Path, result: bundles.Json, **options: object) -> read.Bundle:
    return read.read_bundle(bundles.write(tmp_path / "bundle", result, **options))  # type: ignore[arg-type]


def _table(section: Section, index: int = 0) -> list[list[str]]:
    tables = [block for block in section.blocks if isinstance(block, Table)]
    return [[cell.text for cell in row] for row in tables[index].rows]


def _metrics(n: int) -> bundles.Json:
    """A verdict whose cells have n values of each latency; no reasoning, one token a chunk."""
    verdict = bundles.supported()
    names = [f"{q}.{s}" for q in ("ttft", "ttfa", "itl", "icl") for s in ("p50", "p95", "p99")]
    at = {"arm": "baseline", "load_point": 2, "load": 12.0, "unit": "s"}
    verdict["summary"] = [
        {**at, "metric": m, "better": "lower", "mean": 0.1, "stdev": 0.01, "blocks": 8, "values": [], "reason": None}
        for m in names
    ]
    verdict["metrics"] = [
        {**at, "cell": "b01-baseline-l2", "block": 1, "metric": m, "value": 0.1, "n": n, "undefined": {}} for m in names
    ]
    return verdict


def test_a_percentile_that_a_block_cannot_carry_is_not_shown(tmp_path: Path) -> None:
    names, notes = summary.shown_metrics(_read(tmp_path, _metrics(129)))
    assert names == ["ttft.p50", "itl.p50"]
    assert notes == [
        "ttfa is the same as ttft here: no token of reasoning came first.",
        "icl is the same as itl here: each chunk is one token.",
        "Not shown, because p95 needs 130 values a block: ttft.p95, itl.p95.",
        "Not shown, because p99 needs 662 values a block: ttft.p99, itl.p99.",
    ]


@pytest.mark.parametrize(
    ("mean", "shown"), [(None, []), (0.1, []), (0.05, ["itl_retokenized.p50", "itl_retokenized.p95"])]
)
def test_the_texts_tokens_are_shown_where_they_say_something(
    mean: float | None, shown: list[str], tmp_path: Path
) -> None:
    """Not without a tokenizer on the card, and not where they say what the reported ones say."""
    verdict = _metrics(150)
    for key in ("summary", "metrics"):
        again = [dict(row) for row in verdict[key] if row["metric"].startswith("itl.")]
        for row in again:
            row["metric"] = row["metric"].replace("itl.", "itl_retokenized.")
            row["mean" if key == "summary" else "value"] = mean
        verdict[key] += again
    names, notes = summary.shown_metrics(_read(tmp_path, verdict))
    assert [name for name in names if name.startswith("itl_retokenized.")] == shown
    assert any(note.startswith("itl_retokenized is the same as itl") for note in notes) == (mean == 0.1)


@pytest.mark.parametrize(
    ("n", "shown"), [(0, ["p50"]), (130, ["p50", "p95"]), (661, ["p50", "p95"]), (662, ["p50", "p95", "p99"])]
)
def test_percentiles_by_number_of_values(n: int, shown: list[str], tmp_path: Path) -> None:
    names, _ = summary.shown_metrics(_read(tmp_path, _metrics(n)))
    assert [name.split(".")[1] for name in names if name.startswith("ttft.")] == shown


def test_latencies_that_differ_are_both_shown(tmp_path: Path) -> None:
    verdict = _metrics(700)
    next(row for row in verdict["summary"] if row["metric"] == "ttfa.p50")["mean"] = 0.2
    names, notes = summary.shown_metrics(_read(tmp_path, verdict))
    assert "ttfa.p50" in names
    assert notes == ["icl is the same as itl here: each chunk is one token."]


def test_noise_floor_is_twice_the_spread(tmp_path: Path) -> None:
    result = bundles.baseline()
    found = baseline.noise_notes(read.read_bundle(bundles.write(tmp_path / "b", result, bundles.baseline_card())))
    # throughput 255 ± 5, TTFT 31 ± 1 ms, TPOT 19.5 ± .5 ms
    assert found[1] == (
        "At 8 concurrent, a later change must move output throughput by more than 10 tokens/s (3.9%), "
        "TTFT p50 by more than 2 ms (6.5%) or TPOT p50 by more than 1 ms (5.1%) to be told from noise."
    )


def test_repeats_that_agree_exactly_leave_the_noise_unresolved(tmp_path: Path) -> None:
    result = bundles.baseline()
    result["sweep"] = result["sweep"][1:]
    result["sweep"][0]["metrics"]["output_throughput"]["stdev"] = 0.0
    found = baseline.noise_notes(read.read_bundle(bundles.write(tmp_path / "b", result, bundles.baseline_card())))
    assert found[0].endswith(
        "At 8 concurrent, every repeat gave the same output throughput, so that noise is not resolved."
    )
    assert "by more than 0" not in found[0]


def test_an_invalid_baseline_says_so_and_why(tmp_path: Path) -> None:
    result = bundles.baseline()
    result["valid"] = False
    result["validity"][0].update(passed=False, observed=None, reason="no client telemetry", where=["b01-baseline-l1"])
    document = baseline.baseline_document(
        read.read_bundle(bundles.write(tmp_path / "b", result, bundles.baseline_card()))
    )
    assert (document.word, document.tone) == ("invalid", "muted")
    assert document.because == (
        "schedule lag failed in b01-baseline-l1: observed undefined (no client telemetry), limit 5 ms. "
        "run on a quieter machine",
    )


def test_a_replaced_block_and_its_spare_both_stand_in_the_table(tmp_path: Path) -> None:
    verdict = bundles.supported()
    verdict["blocks"][2].update(used=False, reason="b03-candidate-l2 failed client_cpu")
    verdict["blocks"][2]["cells"][0].update(valid=False, failed_checks=["client_cpu"])
    verdict["blocks"][8].update(used=True, reason=None, cells=verdict["blocks"][1]["cells"])
    verdict["validity"][1]["passed"] = False
    bundle = _read(tmp_path, verdict)
    rows = _table(procedure.blocks_section(bundle))
    assert rows[2] == ["3", "candidate: 12, 6; baseline: 12, 6", "not used", "", "b03-candidate-l2 failed client_cpu"]
    # d is listed in the order of the used blocks: 1, 2, 4 … 9; the last is ln(11.05 / 9.95)
    assert rows[8][2:4] == ["used (spare)", "+11.1%"]
    validity = procedure.validity_section(bundle)
    assert "replaced by spares, so the run itself is valid" in validity.blocks[0].text  # type: ignore[union-attr]


def test_log_lines_in_words(tmp_path: Path) -> None:
    log = [
        {"kind": "run_resumed", "time": "2026-09-23T11:00:00Z"},
        {"kind": "cell_killed", "time": "2026-09-23T11:01:00Z", "cell": "b02-baseline-l1", "why": "the run was killed"},
        {"kind": "block_replaced", "time": "2026-09-23T11:02:00Z", "block": 2, "by": 9, "why": "killed cell"},
        {"kind": "cell_ended", "cell": "b01-baseline-l1"},
    ]
    notes = procedure.log_notes(_read(tmp_path, bundles.supported(), log=log))
    assert notes is not None
    assert notes.items == (
        "2026-09-23T11:00:00Z: run resumed",
        "2026-09-23T11:01:00Z: cell killed in b02-baseline-l1 (the run was killed)",
        "2026-09-23T11:02:00Z: block 2 replaced by block 9 (killed cell)",
    )


def test_a_window_without_length_has_undefined_rates_not_zero(tmp_path: Path) -> None:
    verdict = bundles.supported()
    verdict["attribution"][0].update(per_second=None, window_s=None)
    rows = _table(service.attribution_section(_read(tmp_path, verdict)))
    assert rows[0][2:] == ["undefined"] * 6


def test_without_objectives_nothing_is_called_good(tmp_path: Path) -> None:
    card = bundles.copy.deepcopy(bundles.CARD)
    card["objectives"] = None
    bundle = _read(tmp_path, bundles.supported(), card=card)
    assert [block.kind for block in service.goodput_section(bundle).blocks] == ["paragraph"]
    assert service.attribution_section(bundle).title == "Outcomes"


def test_a_table_with_a_wrong_row_is_a_bug() -> None:
    with pytest.raises(ValueError, match="1 cells under 2 headings"):
        table("caption", "a|#b", [["x"]])


def test_latencies_say_how_many_attempts_they_leave_out_where_any_failed(tmp_path: Path) -> None:
    bundle = _read(tmp_path, bundles.supported())
    for found in (service.latency_section(bundle), summary.metrics_section(bundle)):
        (notes,) = [b for b in found.blocks if b.kind == "bullets" and "have no latency" in b.items[0]]
        assert notes.items[0] == (  # type: ignore[union-attr]
            "12 req/s baseline: 51 of 5,760 attempts failed and have no latency here; they count as missed."
        )
    verdict = bundles.supported()
    verdict["attribution"] = [bundles.attribution("baseline", 5760, 0, 0, 0)]
    assert summary.failed_notes(_read(tmp_path, verdict)) == []


def test_flags_stand_second_and_one_block_is_explained(tmp_path: Path) -> None:
    verdict = bundles.supported()
    verdict["effects"][1]["flags"] = ["one_block"]
    found = effects.effect_section(_read(tmp_path, verdict))
    assert [row[1] for row in _table(found, 1)] == ["none", "one_block"]
    (notes,) = [block for block in found.blocks if block.kind == "bullets"]
    assert notes.items[-1].startswith("one block: one block drives the effect")  # type: ignore[union-attr]
    # ln(10.6 / 9.8) and ln(11.3 / 10.1) are the least and the most of the example: 8.2% and 11.9%
    assert _table(found, 0)[1][7:9] == ["+1.01 req/s (0.88 req/s to 1.14 req/s)", "8.2% to 11.9%"]


def test_a_second_run_of_the_same_day_is_named_beside_the_days(tmp_path: Path) -> None:
    folder = bundles.write(tmp_path / "bundle", bundles.supported())
    again = bundles.reproduction()
    near = "the two runs started 56 s apart: this repeats the run, it does not sample another day"
    again["because"].append({"code": "same_day", "text": near})
    (folder / "reproduction.json").write_text(bundles.json.dumps(again))
    rows = {row[0]: row[1] for row in _table(procedure.conditions_section(read.read_bundle(folder)))}
    assert rows["days"] == f"single day for this verdict; {near} (below: reproduced)"


def test_one_of_a_counted_unit_is_singular() -> None:
    assert [headline.check_value(n, "blocks") for n in (0, 1, 8)] == ["0 blocks", "1 block", "8 blocks"]


def test_a_bundle_of_an_analysis_that_did_not_look_has_no_section_on_steady_state(tmp_path: Path) -> None:
    verdict = bundles.supported()
    del verdict["steady_state"]
    assert steady.steady_sections(_read(tmp_path, verdict)) == ()


def test_a_load_that_drifts_is_named_with_what_to_do(tmp_path: Path) -> None:
    verdict = bundles.supported()
    verdict["steady_state"] = [bundles.steady("candidate", 2, 12.0, "drifts", 0.12)]
    assert headline.decision(_read(tmp_path / "a", verdict))[0].startswith("The claim held and every guard held")
    verdict.update(verdict="invalid", because=[{"code": "not_steady", "text": "no steady state: …"}])
    found = _read(tmp_path / "b", verdict)
    assert headline.decision(found)[-1] == (
        "The card declares 12 req/s steady, and TTFT drifts there. What to do, in a new card: a longer warm-up, or a "
        "lower load. A load past saturation has no steady state: it is a finite window, and not named under "
        "steady_state."
    )
    (section,) = steady.steady_sections(found)
    assert _table(section) == [
        [
            "12 req/s", "candidate", "drifts", "+12.0%", "+11.5% to +12.6%", "8", "701 to 708",
            "0 to 350 (boundary in 1)", "3 (timeout_total)",
        ]
    ]  # fmt: skip


def test_no_load_declared_and_too_few_requests(tmp_path: Path) -> None:
    """What is undefined says why, and is no 0."""
    row = bundles.steady("baseline", 1, 6.0, None, 0.0, mean=None, interval=None, blocks=1, reason="few requests")
    row["cells"] = [{**row["cells"][0], "requests": 7, "mser_requests": None, "mser_at_boundary": None}]
    (section,) = steady.steady_sections(_read(tmp_path, {**bundles.supported(), "steady_state": [row]}))
    assert section.blocks[0].text.startswith("The card declares no load steady: each window is a finite one")  # type: ignore[union-attr]
    assert _table(section) == [
        [
            "6 req/s", "baseline", "finite window", "undefined", "undefined", "1", "7", "undefined", "none",
            "few requests",
        ]
    ]  # fmt: skip


def _cold(result: bundles.Json, arms: tuple[str, ...]) -> bundles.Json:
    """A result with the metrics of a cold start at the card's first load: 2 s until ready, a first TTFT of 0.5 s."""
    at = {"load_point": 1, "load": 6.0, "better": "lower", "stdev": 0.1, "blocks": 2, "reason": None}
    result["summary"] = [
        {**at, "arm": arm, "metric": metric, "unit": unit, "mean": mean, "values": [mean - 0.1, mean + 0.1]}
        for arm in arms
        for metric, unit, mean in (("start.ready", "s", 2.0), ("first.ttft", "s", 0.5), ("first.slowdown", "times", 12))
    ]
    return result


def _cold_card(card: bundles.Json) -> bundles.Json:
    return {**card, "workload": {**card["workload"], "test": "cold_start"}}


def test_a_cold_start_has_a_table_of_its_own(tmp_path: Path) -> None:
    result = _cold(bundles.supported(), ("baseline", "candidate"))
    (found,) = start.start_sections(_read(tmp_path, result, card=_cold_card(bundles.CARD)))
    assert found.title == "Cold start"
    assert _table(found)[:2] == [
        ["6 req/s", "start.ready", "baseline", "2.00 ± 0.10 s", "1.9 s to 2.1 s"],
        ["6 req/s", "start.ready", "candidate", "2.00 ± 0.10 s", "1.9 s to 2.1 s"],
    ]
    assert ["6 req/s", "first.slowdown", "baseline", "12.00 ± 0.10 times", "11.9 times to 12.1 times"] in _table(found)
    assert ["6 req/s", "start.first_token", "baseline", "not computed", ""] in _table(found)
    assert "none is of a server in steady state" in str(found.blocks[0])


def test_any_other_card_has_none(tmp_path: Path) -> None:
    assert start.start_sections(_read(tmp_path, bundles.supported())) == ()


def test_a_baseline_of_cold_starts_is_headed_by_them(tmp_path: Path) -> None:
    result = _cold(bundles.baseline(), ("baseline",))
    document = baseline.baseline_document(_read(tmp_path, result, card=_cold_card(bundles.baseline_card())))
    assert document.sentence == (
        "Under the conditions below, a cold start took: at 1 concurrent start.ready 2.00 ± 0.10 s and first.ttft 500 ± "
        "100 ms (mean ± stdev over the repeats)."
    )
    assert document.sections[0].title == "Cold start"


def test_a_name_that_stands_for_several_unknown_conditions_is_set_apart(tmp_path: Path) -> None:
    """Else "gpu.ecc and 7 more and 6 more" would be read."""
    names = ["node", "gpu.clocks, gpu.count and 7 more", *(f"c{n}" for n in range(6))]
    verdict = bundles.supported()
    verdict["conditions"] = [{"name": name, "value": "not told", "source": "unknown"} for name in names]
    assert headline.decision(_read(tmp_path / "a", verdict))[-1] == (
        "Unknown conditions: node; gpu.clocks, gpu.count and 7 more; c0; c1; c2; c3; and 2 more."
    )
    verdict["conditions"] = [row for row in verdict["conditions"] if "," not in row["name"]]
    assert headline.decision(_read(tmp_path / "b", verdict))[-1] == (
        "Unknown conditions: node, c0, c1, c2, c3, c4 and 1 more."
    )

"""The numbers in the headline are verdict.json's, to the digits shown; each verdict word says what it must."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bundles
import pytest
from benchcard.reports import headline, read
from benchcard.reports.document import Document
from benchcard.reports.render import ab_document
from benchcard.schema.errors import VERDICT_EXIT_CODES, BundleError, InputError


def _bundle(tmp_path: Path, result: bundles.Json) -> read.Bundle:
    return read.read_bundle(bundles.write(tmp_path / "bundle", result))


def _numbers(text: str) -> list[tuple[float, float]]:
    """(number, half a unit of its last digit) for each number in the text."""
    found = []
    for sign, whole, decimals in re.findall(r"([−+]?)(\d[\d,]*)(?:\.(\d+))?", text):
        value = float(whole.replace(",", "") + (f".{decimals}" if decimals else ""))
        found.append((-value if sign == "−" else value, 0.5 * 10.0 ** -len(decimals)))
    return found


def _all_numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [n for item in value.values() for n in _all_numbers(item)]
    if isinstance(value, list):
        return [n for item in value for n in _all_numbers(item)]
    return [float(value)] if isinstance(value, int | float) and not isinstance(value, bool) else []


def _top(document: Document) -> list[str]:
    return [*document.because, *document.decision]


@pytest.mark.parametrize("name", ["supported", "falsified", "inconclusive", "mixed"])
def test_numbers_of_the_headline_and_effect_table_are_the_verdicts(name: str, tmp_path: Path) -> None:
    verdict = getattr(bundles, name)()
    document = ab_document(_bundle(tmp_path, verdict))
    known = _all_numbers(verdict)
    # people read relative changes in percent; those of the thresholds come from ln(1 + δ)
    known += [100 * n for n in known] + [100 * math.expm1(n) for n in known if abs(n) < 5]
    known += [95.0, 50.0, 8.0, 10.0, 0.0001]  # the confidence, a percentile's name, "8 times in 10", the least p shown
    tables = [
        block for s in document.sections if s.id in ("effect", "guards") for block in s.blocks if block.kind == "table"
    ]
    texts = _top(document) + [cell.text for t in tables for row in t.rows for cell in row]
    known += [1993 * 600 / 86400]  # the new card's days
    for text in (text for text in texts if not text.startswith("Unknown ")):  # counts and names: the lint reads them
        for number, half in _numbers(text):
            assert any(abs(abs(number) - abs(n)) <= half * (1 + 1e-9) for n in known), (text, number)


def test_every_verdict_word_has_a_symbol_and_a_tone() -> None:
    assert set(headline.WORDS) == set(VERDICT_EXIT_CODES)
    assert len({symbol for symbol, _ in headline.WORDS.values()}) == 5


def test_supported_speaks_of_its_conditions_only(tmp_path: Path) -> None:
    assert headline.decision(_bundle(tmp_path, bundles.without_next(bundles.supported()))) == (
        "The effect clears the threshold that the card fixed beforehand, and every guard holds.",
        "That answers the question for the conditions below, and for no others.",
    )


def test_what_makes_the_ground_unsure_stands_under_the_verdict(tmp_path: Path) -> None:
    verdict = bundles.supported()
    next(row for row in verdict["effects"] if row["claimed"])["flags"] = ["fragile"]
    (row,) = [row for row in bundles.aa()["aa"] if row["word"] == "clean"]
    verdict["aa"] = [{**row, "equivalent": False, "interval": [-0.005241, 0.0198]}, {**row, "load": 12.0}]
    card = bundles.aa_card()
    bundle = read.read_bundle(bundles.write(tmp_path / "bundle", verdict, card))
    lines = headline.decision(bundle)
    assert lines[1:3] == (
        "Fragile at 12 req/s: the t interval decides, and the exact sign-flip test disagrees with it about the "
        "threshold.",
        # e^.0198 = 1.02
        "A bias of the procedure beyond ±1% is not ruled out at 6 req/s: goodput of the baseline against itself, 95% "
        "interval −0.5% to +2.0%.",
    )
    assert lines[3].startswith("What it cost")
    invalid = {**verdict, "verdict": "invalid"}
    bundle = read.read_bundle(bundles.write(tmp_path / "invalid", invalid, card))
    assert not any(line.startswith(("Fragile", "A bias")) for line in headline.decision(bundle))


def test_supported_without_a_guard_says_so(tmp_path: Path) -> None:
    verdict = {**bundles.supported(), "guards": []}
    assert headline.decision(_bundle(tmp_path, bundles.without_next(verdict)))[0] == (
        "The effect clears the threshold that the card fixed beforehand, and the card declares no guard."
    )


def test_falsified_by_a_guard_names_it(tmp_path: Path) -> None:
    verdict = bundles.supported()
    verdict["verdict"] = "falsified"
    verdict["guards"][0]["word"] = "regressed"
    assert headline.decision(_bundle(tmp_path, bundles.without_next(verdict)))[0] == (
        "A guard regressed at 12 req/s: tpot.p50 may rise by at most 1%."
    )


def test_falsified_although_there_is_an_effect(tmp_path: Path) -> None:
    assert headline.effect_notes(_bundle(tmp_path, bundles.falsified())) == (
        "There is an effect in the claimed direction at 12 req/s (8.8% to 11.4%); "
        "it is smaller than the 12% that the card asks for.",
    )


def test_inconclusive_states_the_smallest_detectable_effect(tmp_path: Path) -> None:
    verdict = bundles.inconclusive()
    verdict["effects"][0]["flags"] = ["fragile"]
    notes = headline.effect_notes(_bundle(tmp_path, verdict))
    # .03468 / .03 × .0141048 = .016305 on d, 1.6%
    assert notes[0].startswith("At 12 req/s the smallest detectable effect lies 1.6% from the threshold: 8 blocks")
    assert notes[0].endswith("would take 1993 blocks.")
    assert notes[1].startswith("fragile: the t interval and the exact sign-flip test disagree")


def test_failed_evidence_is_said_first(tmp_path: Path) -> None:
    verdict = bundles.inconclusive()
    verdict["evidence"][0].update(word="fails", observed=0.0)
    assert headline.decision(_bundle(tmp_path, bundles.without_next(verdict)))[0] == (
        "It is not shown that the treatment took effect: server.prefix_cache_hit_rate (candidate). "
        "The effect below says nothing about the hypothesis."
    )


def test_invalid_says_which_check_where_and_what_to_do(tmp_path: Path) -> None:
    assert headline.decision(_bundle(tmp_path, bundles.without_next(bundles.invalid())))[1] == (
        "schedule lag failed in b03-candidate-l2: observed 21.3 ms, limit 5 ms. What to do: run on a quieter machine"
    )


def test_the_example_of_attribution(tmp_path: Path) -> None:
    """8 req/s offered, goodput 6.2, 1.1 missed TTFT, .4 an ITL, .3 errored: the row reads just so."""
    verdict = bundles.supported()
    first = {"success": 30, "ttft": 110, "itl": 40}
    rates = {"attempted": 8.0, "good": 6.2, "missed": {}, "first_cause": {k: n / 100 for k, n in first.items()}}
    verdict["attribution"] = [
        {
            "arm": "candidate",
            "load_point": 1,
            "load": 8.0,
            "window_s": 100.0,
            "attempted": 800,
            "good": 620,
            "missed": first,
            "first_cause": first,
            "outcomes": {"ok": 770, "stream_error": 30},
            "per_second": rates,
        }
    ]
    document = ab_document(_bundle(tmp_path, verdict))
    tables = [b for s in document.sections if s.id == "attribution" for b in s.blocks if b.kind == "table"]
    assert [c.heading for c in tables[0].columns] == [
        "Load",
        "Arm",
        "Attempted",
        "Good",
        "Missed: failed",
        "Missed: TTFT",
        "Missed: ITL",
    ]
    assert [cell.text for cell in tables[0].rows[0]] == ["8 req/s", "candidate", "8.00", "6.20", "0.30", "1.10", "0.40"]
    assert [cell.text for cell in tables[2].rows[0]] == ["8 req/s", "candidate", "770", "30"]


@pytest.mark.parametrize(
    ("spoil", "error", "says"),
    [
        (lambda b: (b / "verdict.json").unlink(), BundleError, "neither verdict.json nor inference_baseline.json"),
        (lambda b: (b / "card.resolved.json").unlink(), BundleError, "card.resolved.json: not found"),
        (lambda b: (b / "verdict.json").write_text("{"), BundleError, "not JSON"),
        (lambda b: (b / "verdict.json").write_text("[]"), BundleError, "wanted a JSON object"),
        (lambda b: (b / "verdict.json").write_text('{"verdict_version": 2}'), InputError, "format version 2"),
        (lambda b: (b / "verdict.json").write_bytes(b"\xff"), BundleError, "cannot be read"),
        (lambda b: (b / "series" / "latency.parquet").write_text("x"), BundleError, "not a Parquet table"),
    ],
)
def test_a_damaged_bundle_is_refused_by_name(
    spoil: Callable[[Path], object], error: type[Exception], says: str, tmp_path: Path
) -> None:
    bundle = bundles.write(tmp_path / "bundle", bundles.supported())
    spoil(bundle)
    with pytest.raises(error, match=re.escape(says)):
        read.read_bundle(bundle)


def test_an_unknown_verdict_word_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="found 'proven'"):
        ab_document(_bundle(tmp_path, {**bundles.supported(), "verdict": "proven"}))


def test_a_torn_log_line_is_left_out(tmp_path: Path) -> None:
    bundle = bundles.write(tmp_path / "bundle", bundles.supported())
    lines = [json.dumps({"kind": "run_resumed", "time": "2026-09-23T11:00:00Z"}), '{"kind": "cell_ki']
    (bundle / "attempts.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert [line["kind"] for line in read.read_bundle(bundle).log] == ["run_resumed"]

"""Warnings: what a card's author should know and may want, in the words a person reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchcard.schema.card import load_card

CARDS = Path(__file__).parent / "cards"
GOOD = (CARDS / "good-ab.yaml").read_text(encoding="utf-8")


def warnings(folder: Path, over: str) -> str:
    (folder / "base.yaml").write_text(GOOD, encoding="utf-8")
    (folder / "card.yaml").write_text("extends: base.yaml\n" + over, encoding="utf-8")
    card = load_card(folder / "card.yaml")
    return "\n".join(problem.as_warning().replace(f"{folder}/", "") for problem in card.warnings)


@pytest.mark.parametrize("name", ["good-ab", "good-baseline", "good-openai", "minimal-baseline"])
def test_a_plain_card_has_none(name: str) -> None:
    assert load_card(CARDS / f"{name}.yaml").warnings == ()


def test_speculation_on_random_text(tmp_path: Path) -> None:
    over = "arms: {candidate: {flags: {speculative_config: '{}'}}}\nsystem: {flags: {spec-draft: 4, special: 1}}\n"
    assert warnings(tmp_path, over) == (
        "card.yaml:2:28: warning: arms.candidate.flags.speculative-config: found speculation (speculative-config) with "
        "prompts of random tokens and ignore_eos; wanted requests: {file: …} and ignore_eos: false (drafts are "
        "accepted at another rate than on the service's text)\n"
        "card.yaml:3:18: warning: system.flags.spec-draft: found speculation (spec-draft) with prompts of random "
        "tokens and ignore_eos; wanted requests: {file: …} and ignore_eos: false (drafts are accepted at another "
        "rate than on the service's text)"
    )


def test_speculation_on_recorded_text(tmp_path: Path) -> None:
    (tmp_path / "asked.jsonl").write_text('{"prompt": "Who?", "output_tokens": 3}\n')
    flags = "arms: {candidate: {flags: {speculative-config: '{}'}}}\n"
    recorded = "requests: {lengths: , file: asked.jsonl}"
    assert warnings(tmp_path, f"{flags}workload: {{{recorded}}}\n") == (
        "card.yaml:2:28: warning: arms.candidate.flags.speculative-config: found speculation (speculative-config) with "
        "ignore_eos; wanted ignore_eos: false (drafts are accepted at another rate than on the service's text)"
    )
    assert warnings(tmp_path, f"{flags}workload: {{{recorded}, sampling: {{ignore_eos: false}}}}\n") == ""
    assert warnings(tmp_path, f"{flags}workload: {{sampling: {{ignore_eos: false}}}}\n") == (
        "card.yaml:2:28: warning: arms.candidate.flags.speculative-config: found speculation (speculative-config) with "
        "prompts of random tokens; wanted requests: {file: …} (drafts are accepted at another rate than on the "
        "service's text)"
    )


@pytest.mark.parametrize(
    ("unit", "rate"),
    [("s", "0.005"), ("ms", None), ("us", None), ("ns", "5e+06")],  # gaps of 200 of them
)
def test_a_trace_whose_unit_is_in_doubt(tmp_path: Path, unit: str, rate: str | None) -> None:
    (tmp_path / "day.csv").write_text("timestamp,input_tokens,output_tokens\n0,1,1\n200,1,1\n400,1,1\n")
    over = f"workload:\n  arrivals: {{process: trace, file: day.csv, format: csv, unit: {unit}}}\n"
    said = warnings(tmp_path, over + "  window: {warmup: 0 requests, measure: 3 requests}\n")
    assert said == ("" if rate is None else (
        f"card.yaml:3:36: warning: workload.arrivals.file: found a trace with a mean rate of {rate} req/s; wanted a "
        "rate that a service sees (are its timestamps in that unit?)"
    ))  # fmt: skip

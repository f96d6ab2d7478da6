"""Chat with the model's own tokenizer against a real vLLM: prompts are as long as declared, by the server's count."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from .cards import MODEL, ROOT, SMALL, benchcard, changed, events, only_run, require_vllm

#: what SmolLM2's template takes in a prompt of one question: system message, roles, the start of the answer
TEMPLATE_TOKENS = 30

CHAT = changed(
    SMALL,
    ("id: vllm-check", "id: vllm-tokenizer"),
    ("context_limit: 2048}", "context_limit: 2048, tokenizer: tokenizer}"),
    ("concurrency: [1, 4]", "endpoint: chat\n  concurrency: [4]"),
    ("lengths: {input: 40, output: 12}", "lengths: {input: {median: 60, sigma: 0.6}, output: 12}"),
)


def card_in(folder: Path) -> Path:
    """A card beside a copy of the model's tokenizer."""
    require_vllm()
    (folder / "tokenizer").mkdir(parents=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(ROOT / MODEL / name, folder / "tokenizer" / name)
    (folder / "card.yaml").write_text(CHAT)
    return folder / "card.yaml"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    benchcard("run", card_in(folder), "--out", folder / "runs")
    return only_run(folder / "runs")


def replies(run: Path) -> pl.DataFrame:
    return events(run).filter(pl.col("outcome") == "ok")


def test_every_prompt_is_as_long_as_planned_by_the_servers_own_count(run: Path) -> None:
    ok = replies(run)
    assert len(ok) >= 10
    assert ok["input_tokens"].to_list() == ok["asked_input_tokens"].to_list()
    # Drawn lengths, none below the document, the template and one word.
    assert ok["asked_input_tokens"].n_unique() > 5
    assert ok["asked_input_tokens"].min() >= 256 + TEMPLATE_TOKENS + 1


def test_the_document_is_the_same_text_in_every_prompt(run: Path) -> None:
    """256 tokens after the template's beginning: one block of the CPU build for sure, and two with it."""
    counted = replies(run).filter(pl.col("phase") == "measure")
    assert set(counted["cached_tokens"].to_list()) == {256}


def test_texts_are_counted_again(run: Path) -> None:
    ok = replies(run)
    assert ok["retokenized_tokens"].null_count() == 0
    assert ok["chunk_tokens_retokenized"].list.sum().to_list() == ok["retokenized_tokens"].to_list()
    # What the model makes is not always what its text is cut into again; mostly it is.
    same = (ok["retokenized_tokens"] - ok["output_tokens"]).abs() <= 1
    assert same.mean() > 0.8


def test_the_server_was_asked(run: Path) -> None:
    fields = json.loads((run / "identity" / "baseline.json").read_text())["fields"]
    assert fields["model.tokenizer_check"] == {
        "value": "planned prompts counted alike by the server",
        "source": "observed",
    }


def test_another_template_than_the_servers_is_found_out(tmp_path: Path) -> None:
    card = card_in(tmp_path)
    template = tmp_path / "tokenizer" / "chat_template.jinja"
    template.write_text(template.read_text().replace("helpful AI assistant", "helpful and kind AI assistant"))
    benchcard("run", card, "--out", tmp_path / "runs", code=3)
    run = only_run(tmp_path / "runs")
    assert not list((run / "events").glob("*.parquet"))
    (stopped,) = (line for line in (run / "attempts.jsonl").read_text().splitlines() if '"run_stopped"' in line)
    said = re.search(r"the server makes (\d+) tokens of the prompt of .*tokenizer.json makes (\d+);", stopped)
    assert said is not None
    assert int(said[2]) - int(said[1]) == 2  # " and kind"

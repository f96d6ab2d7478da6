"""Quality gates on the card: which are refused and why, what the defaults make of one, and files of items."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchcard.schema.card import load_card
from benchcard.schema.errors import CardError
from benchcard.schema.items import Item, read_items
from benchcard.schema.rules_quality import prompts_needed
from benchcard.schema.table import FileError
from hypothesis import given
from hypothesis import strategies as st

GOOD = (Path(__file__).parent / "cards" / "good-ab.yaml").resolve()


def write(folder: Path, gates: str, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.jsonl").write_text(text)
    path = folder / "card.yaml"
    base = folder / "base.yaml"
    base.write_text(GOOD.read_text())
    path.write_text(f"extends: base.yaml\nquality: {gates}\n")
    return path


def refused(folder: Path, gates: str, **files: str) -> list[str]:
    with pytest.raises(CardError) as caught:
        load_card(write(folder, gates, **files))
    return [f"{problem.path}: found {problem.found}; wanted {problem.wanted}" for problem in caught.value.problems]


def test_what_the_defaults_make_of_the_smallest_rows(tmp_path: Path) -> None:
    card = write(
        tmp_path,
        "[{risk: cache_reuse, gate: greedy_divergence, before_token: 100, excess_over_aa_at_most: 1 pt}, "
        "{risk: answers, gate: task_metric, items: arithmetic, may_fall_by: 2 pt}, "
        "{risk: marks, gate: task_metric, items: marks.jsonl, scorer: exact_text, may_fall_by: 20 pt}]",
        marks="".join(json.dumps({"prompt": f"p{k}", "answer": k}) + "\n" for k in range(31)),
    )
    first, second, third = load_card(card).resolved["quality"]
    common = {"concurrency": 8, "repeats": 1, "within": 600.0}
    assert first == common | {
        "risk": "cache_reuse", "gate": "greedy_divergence", "prompts": 500, "items": None, "output_tokens": 100,
        "reuse": True, "before_token": 100, "excess_over_aa_at_most": 0.01,
    }  # fmt: skip
    assert second == common | {
        "risk": "answers", "gate": "task_metric", "prompts": 500, "items": "arithmetic", "output_tokens": 32,
        "reuse": False, "may_fall_by": 0.02, "scorer": "exact_number",
    }  # fmt: skip
    assert (third["prompts"], third["output_tokens"], third["scorer"]) == (31, 256, "exact_text")
    assert (third["items"]["name"], third["items"]["rows"], third["items"]["answered"]) == ("marks.jsonl", 31, 31)


def test_the_fewest_prompts_that_can_pass() -> None:
    """1 − .05^(1/298) = 1.0003%, 1 − .05^(1/299) = .9970%."""
    assert prompts_needed("greedy_divergence", 0.01) == 299
    assert prompts_needed("greedy_divergence", 0) is None
    assert prompts_needed("task_metric", 0.5) == 30
    assert prompts_needed("mean_output_tokens", 0.02) == 30
    assert prompts_needed("conformance", 0) == 1


@given(st.floats(0.002, 0.9))
def test_the_fewest_prompts_by_trying_all(limit: float) -> None:
    tried = next(n for n in range(1, 5000) if 1 - 0.05 ** (1 / n) < limit)
    assert prompts_needed("greedy_divergence", limit) == tried


TASK = "[{risk: marks, gate: task_metric, items: marks.jsonl, scorer: exact_number, may_fall_by: 90 pt%s}]"


@pytest.mark.parametrize(
    ("rows", "more", "said"),
    [
        ([{"prompt": "a", "answer": 1}] * 1, "", "quality[0].items: found 1 prompt for a limit of 90 pt"),
        ([{"prompt": f"a{k}"} for k in range(30)], "", "quality[0].items: found 30 items of marks.jsonl without an"),
        (
            [{"prompt": f"a{k}", "answer": k} for k in range(30)], ", prompts: 31",
            "quality[0].prompts: found 31 prompts of marks.jsonl; wanted at most 30, its items",
        ),
    ],
)  # fmt: skip
def test_items_that_do_not_suffice(tmp_path: Path, rows: list[dict], more: str, said: str) -> None:
    found = refused(tmp_path, TASK % more, marks="".join(json.dumps(row) + "\n" for row in rows))
    assert any(line.startswith(said) for line in found), found


def test_a_file_needs_a_scorer(tmp_path: Path) -> None:
    gates = "[{risk: marks, gate: task_metric, items: marks.jsonl, may_fall_by: 50 pt}]"
    rows = "".join(json.dumps({"prompt": f"a{k}", "answer": k}) + "\n" for k in range(30))
    assert refused(tmp_path, gates, marks=rows) == [
        "quality[0].scorer: found nothing; wanted exact_number, exact_text or contains"
    ]


def test_items_are_read() -> None:
    data = b'{"prompt": "2+2?", "answer": 4}\n\n{"id": "x", "prompt": [5, 6], "answer": " a b"}\n{"prompt": "?"}\n'
    found = read_items(data, "completions")
    assert found.items == [Item("1", "2+2?", "4"), Item("x", [5, 6], " a b"), Item("4", "?", None)]
    assert (found.rows, found.answered) == (3, 2)
    (asked,) = read_items(b'{"messages": [{"role": "user", "content": "hi"}], "answer": 1.50}', "chat").items
    assert (asked.prompt, asked.answer) == ([{"role": "user", "content": "hi"}], "1.50")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "line 0: found no items; wanted at least one"),
        (b'{"prompt": "a", "id": "1"}\n{"prompt": "b", "id": 1}', "line 2: found the id 1 of line 1 again; wanted"),
        (b'{"prompt": "a", "answer": ""}', "line 1: found the answer ''; wanted a text or a number"),
        (b'{"prompt": "a", "answer": true}', "line 1: found the answer true; wanted a text or a number"),
        (b'{"prompt": "a", "id": []}', "line 1: found the id an empty list; wanted a text of 1 to 100 characters"),
        (b'{"question": "a"}', "line 1: found a row without prompt or messages; wanted one of them"),
        (b'{"messages": [{"role": "user", "content": "hi"}]}', "line 1: found messages; wanted a prompt, which"),
    ],
)
def test_items_that_cannot_be_read(data: bytes, said: str) -> None:
    with pytest.raises(FileError) as caught:
        read_items(data, "completions")
    assert str(caught.value).startswith(said)

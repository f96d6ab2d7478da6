"""The six cards of the design: each validates, or is refused for exactly the keys that are not yet supported and the
files that do not lie beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchcard.schema.card import load_card
from benchcard.schema.errors import CardError

CARDS = Path(__file__).parent / "cards"
NOT_YET = {
    "closed-loop-ngram": set(),
    "external-fp8-kv": set(),
    "minimal-ab": set(),
}
TRAFFIC = ("workload.requests.file.path", "traffic.jsonl")
NO_FILE = {
    "closed-loop-ngram": {("workload.requests.file.path", "edits.jsonl")},
    "external-fp8-kv": {TRAFFIC, ("quality[0].items", "gsm8k.jsonl")},
    "minimal-ab": {TRAFFIC},
}
VALID = ["atlas-document-trace", "minimal-baseline", "good-ab", "good-baseline", "good-openai"]


@pytest.mark.parametrize("name", VALID)
def test_validates(name: str) -> None:
    assert load_card(CARDS / f"{name}.yaml").resolved["id"]


@pytest.mark.parametrize("name", sorted(NOT_YET))
def test_is_refused_for_exactly_what_is_not_yet_supported(name: str) -> None:
    with pytest.raises(CardError) as caught:
        load_card(CARDS / f"{name}.yaml")
    not_yet = [problem for problem in caught.value.problems if problem.hint.startswith("not yet supported: ")]
    assert {problem.path for problem in not_yet} == NOT_YET[name]
    others = {(problem.path, problem.found) for problem in caught.value.problems if problem not in not_yet}
    why = "which cannot be read (No such file or directory)"
    assert others == {(path, f"{file}, {why}") for path, file in NO_FILE[name]}


@pytest.mark.parametrize("path", sorted(CARDS.glob("*.expected.txt")), ids=lambda path: path.name.partition(".")[0])
def test_what_a_person_reads(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CARDS)
    with pytest.raises(CardError) as caught:
        load_card(path.name.replace(".expected.txt", ".yaml"))
    assert str(caught.value) + "\n" == path.read_text(encoding="utf-8")


def test_every_card_is_tested() -> None:
    names = {path.stem for path in CARDS.glob("*.yaml")}
    assert names == {*NOT_YET, *VALID, "vllm-prefix-caching"}  # the last one is incomplete on purpose

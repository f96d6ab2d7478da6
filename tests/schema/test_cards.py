"""The six cards of the design: each validates, or is refused for exactly the keys that are not yet supported."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchcard.schema.card import load_card
from benchcard.schema.errors import CardError

CARDS = Path(__file__).parent / "cards"
REFUSED = {
    "atlas-document-trace": {"workload.populations", "quality[0]", "quality[1]", "method.aa"},
    "closed-loop-ngram": {"workload.requests.file", "quality[0]"},
    "external-fp8-kv": {"workload.requests.file", "quality[0]", "method.aa", "method.swap"},
    "minimal-ab": {"workload.requests.file", "quality[0]"},
}
VALID = ["minimal-baseline", "good-ab", "good-baseline", "good-openai"]


@pytest.mark.parametrize("name", VALID)
def test_validates(name: str) -> None:
    assert load_card(CARDS / f"{name}.yaml").resolved["id"]


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_is_refused_for_exactly_what_is_not_yet_supported(name: str) -> None:
    with pytest.raises(CardError) as caught:
        load_card(CARDS / f"{name}.yaml")
    assert {problem.path for problem in caught.value.problems} == REFUSED[name]
    assert all(problem.hint.startswith("not yet supported: ") for problem in caught.value.problems)


@pytest.mark.parametrize("path", sorted(CARDS.glob("*.expected.txt")), ids=lambda path: path.name.partition(".")[0])
def test_what_a_person_reads(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CARDS)
    with pytest.raises(CardError) as caught:
        load_card(path.name.replace(".expected.txt", ".yaml"))
    assert str(caught.value) + "\n" == path.read_text(encoding="utf-8")


def test_every_card_is_tested() -> None:
    names = {path.stem for path in CARDS.glob("*.yaml")}
    assert names == {*REFUSED, *VALID, "vllm-prefix-caching"}  # the last one is incomplete on purpose

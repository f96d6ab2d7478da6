"""`benchcard new`: the first card validates as it is, and only names that are ids are taken."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchcard.schema.card import load_card
from benchcard.schema.errors import InputError
from benchcard.schema.template import new_card


@pytest.mark.parametrize("kind", ["ab", "baseline"])
def test_it_validates_and_runs_on_the_embedded_engine(kind: str, tmp_path: Path) -> None:
    text = new_card("my-first-1", kind)
    assert 20 <= len(text.splitlines()) <= 40
    assert all(len(line) <= 100 for line in text.splitlines())
    path = tmp_path / "card.yaml"
    path.write_text(text, encoding="utf-8")
    card = load_card(path).resolved
    assert (card["id"], card["kind"]) == ("my-first-1", kind)
    assert card["system"]["engine"]["kind"] == "simulated"


@pytest.mark.parametrize("name", ["a", "0", "no", "null", "1e3", "017", "-", "---", "-a", "a" * 64, "prefix-caching-2"])
def test_names_that_are_ids(name: str, tmp_path: Path) -> None:
    path = tmp_path / "card.yaml"
    path.write_text(new_card(name, "ab"), encoding="utf-8")
    assert load_card(path).resolved["id"] == name


@pytest.mark.parametrize("name", ["", "Prefix Caching!", "a" * 65, "../x", "a\n", "{kind}", "é"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(InputError, match="wanted 1 to 64 of a-z, 0-9 and -"):
        new_card(name, "ab")


def test_a_name_that_is_none_gets_a_better_one() -> None:
    with pytest.raises(InputError) as caught:
        new_card("Prefix Caching!", "ab")
    assert str(caught.value) == (
        "found the name Prefix Caching!; wanted 1 to 64 of a-z, 0-9 and - (such as prefix-caching)"
    )


def test_an_unknown_kind() -> None:
    with pytest.raises(InputError, match="found the kind abc; wanted ab or baseline"):
        new_card("x", "abc")

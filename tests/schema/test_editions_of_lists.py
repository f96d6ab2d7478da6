"""A later key of a list's items: a card resolved before has it in none of them."""

from __future__ import annotations

import copy
from pathlib import Path

from benchcard.schema.card import load_card
from benchcard.schema.editions import later_keys, without_later_keys

CARD = Path(__file__).parent / "cards" / "good-ab.yaml"


def test_the_items_of_a_list_have_later_keys() -> None:
    assert ("guards", "[]", "population") in set(later_keys())


def test_guards_resolved_before_are_compared_without_it() -> None:
    again = load_card(CARD)
    assert [guard["population"] for guard in again.resolved["guards"]] == [None, None]
    old = copy.deepcopy(again.resolved)
    for guard in old["guards"]:
        del guard["population"]
    assert without_later_keys(old, again) == old
    assert without_later_keys(again.resolved, again) == again.resolved


def test_a_guard_that_names_a_population_is_compared(tmp_path: Path) -> None:
    path = tmp_path / "card.yaml"
    text = CARD.read_text().replace("may_rise_by: 3%}", "may_rise_by: 3%, population: chat}")
    path.write_text(
        text.replace("  requests:", "  populations: {chat: {share: 70%}, batch: {share: 30%}}\n  requests:")
    )
    again = load_card(path)
    old = copy.deepcopy(again.resolved)
    for guard in old["guards"]:
        del guard["population"]
    assert without_later_keys(old, again) != old

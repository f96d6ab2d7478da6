"""Keys that came later: an old card is not held against them, and each is of an edition that there is."""

from __future__ import annotations

import copy
from pathlib import Path

from benchcard.schema.card import load_card
from benchcard.schema.editions import later_keys, without_later_keys
from benchcard.schema.structure import card_schema
from benchcard.schema.versions import CARD_EDITION

CARD = Path(__file__).parent / "cards" / "good-ab.yaml"


def test_the_later_keys() -> None:
    assert set(later_keys()) == {
        ("workload", "client", "workers"), ("validity", "loop_lag_p99"), ("validity", "client_starved"),
        ("validity", "coalesced_chunks"), ("validity", "client_error"), ("workload", "test"),
        ("validity", "steady_state"),
    }  # fmt: skip
    for path in later_keys():
        schema = card_schema()
        for part in path:
            schema = schema["properties"][part]
        assert 1 < schema["x-since"] <= CARD_EDITION


def test_a_card_resolved_before_is_compared_without_them() -> None:
    again = load_card(CARD)
    old = copy.deepcopy(again.resolved)
    for path in later_keys():
        above = old
        for part in path[:-1]:
            above = above[part]
        del above[path[-1]]
    assert without_later_keys(old, again) == old
    assert without_later_keys(again.resolved, again) == again.resolved


def test_a_later_key_that_the_card_names_is_compared(tmp_path: Path) -> None:
    path = tmp_path / "card.yaml"
    path.write_text(CARD.read_text() + "\nvalidity: {loop_lag_p99: 3 ms}\n")
    again = load_card(path)
    old = copy.deepcopy(again.resolved)
    del old["validity"]["loop_lag_p99"]
    assert without_later_keys(old, again) != old


def test_a_later_mapping_that_the_card_names_is_compared(tmp_path: Path) -> None:
    """Only its leaves have a source."""
    path = tmp_path / "card.yaml"
    path.write_text(CARD.read_text() + "\nvalidity: {steady_state: {at: every_load}}\n")
    again = load_card(path)
    old = copy.deepcopy(again.resolved)
    del old["validity"]["steady_state"]
    assert without_later_keys(old, again) != old

"""The resolved card for people: every value with its unit and where it came from."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchcard.schema.card import load_card
from benchcard.schema.provenance import render_card

CARDS = Path(__file__).parent / "cards"


def test_the_whole_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("base.yaml").write_text((CARDS / "good-ab.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    prefix = "{documents: 12, tokens: 1500, choice: zipf 1.1}"
    over = f"extends: base.yaml\nworkload: {{operating_point: 20 req/s, requests: {{prefix: {prefix}}}}}\n"
    Path("card.yaml").write_text(over, encoding="utf-8")
    expected = (Path(__file__).parent / "resolved" / "provenance.expected.txt").read_text(encoding="utf-8")
    assert render_card(load_card("card.yaml")) == expected


@pytest.mark.parametrize("name", ["good-ab", "good-baseline", "good-openai", "minimal-baseline"])
def test_every_line_has_a_source(name: str) -> None:
    for line in render_card(load_card(CARDS / f"{name}.yaml")).splitlines():
        assert not line or line.endswith(("  card", "  default")), line


def test_no_part_of_the_resolved_card_is_left_out() -> None:
    card = load_card(CARDS / "good-ab.yaml")
    tops = {
        line.partition(":")[0].partition(".")[0].partition("[")[0] for line in render_card(card).splitlines() if line
    }
    assert tops == set(card.resolved) - {"tuning"}  # tuning stands under arms, as on the card

"""A/A blocks on a card: what is filled in where it is silent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchcard.schema.card import load_card

CARDS = Path(__file__).parent / "cards"


def aa(folder: Path, text: str, claim: str = "{}") -> Any:
    (folder / "base.yaml").write_text((CARDS / "good-ab.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "card.yaml").write_text(f"extends: base.yaml\nclaim: {claim}\nmethod: {{aa: {text}}}\n")
    return load_card(folder / "card.yaml").resolved["method"]["aa"]


@pytest.mark.parametrize(
    ("text", "claim", "wanted"),
    [
        ("{}", "{}", {"blocks": 6, "at": [50.0], "within": {"value": 0.01, "scale": "relative"}}),
        ("{}", "{at: every_load}", {"blocks": 6, "at": [20.0, 50.0], "within": {"value": 0.01, "scale": "relative"}}),
        ("{}", "{metric: attainment, must_rise_by: 5 pt}",
         {"blocks": 6, "at": [50.0], "within": {"value": 0.01, "scale": "points"}}),
        ("{blocks: 5, at: [20 req/s], within: 0.5%}", "{}",
         {"blocks": 5, "at": [20.0], "within": {"value": 0.005, "scale": "relative"}}),
        ("{at: every_load}", "{}",
         {"blocks": 6, "at": [20.0, 50.0], "within": {"value": 0.01, "scale": "relative"}}),
    ],
)  # fmt: skip
def test_defaults(tmp_path: Path, text: str, claim: str, wanted: dict[str, Any]) -> None:
    assert aa(tmp_path, text, claim) == wanted | {"across": None, "command": None}


def test_without_it_there_is_none() -> None:
    assert load_card(CARDS / "good-ab.yaml").resolved["method"]["aa"] is None
    assert load_card(CARDS / "good-baseline.yaml").resolved["method"]["aa"] is None

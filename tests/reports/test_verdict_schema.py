"""verdict.json against its published schema: hand-written, published and constructed ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import bundles
import pytest
from jsonschema import Draft202012Validator

ROOT = Path(__file__).parents[2]
SCHEMA: dict[str, Any] = json.loads((ROOT / "schema" / "verdict.schema.json").read_text(encoding="utf-8"))
PUBLISHED = sorted((ROOT / "reports" / "published").glob("*/*/verdict.json"))


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", ["supported", "falsified", "inconclusive", "mixed", "invalid", "populations"])
def test_the_golden_verdicts_are_valid(name: str) -> None:
    found = getattr(bundles, name)()
    json.dumps(found, allow_nan=False)
    assert [e.message for e in Draft202012Validator(SCHEMA).iter_errors(found)] == []


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.parts[-3])
def test_the_published_verdicts_are_valid(path: Path) -> None:
    found = json.loads(path.read_text(encoding="utf-8"))
    assert [e.message for e in Draft202012Validator(SCHEMA).iter_errors(found)] == []


def test_an_unknown_key_is_refused() -> None:
    assert list(Draft202012Validator(SCHEMA).iter_errors({**bundles.supported(), "average": 1}))

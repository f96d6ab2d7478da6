"""Scorers: what counts as the last number, as the same text, as contained, as conforming."""

from __future__ import annotations

from decimal import Decimal

import pytest
from benchcard.runner.quality.scoring import conforms, is_right, last_number
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("The answer is 42.", "42"),
        ("3 apples and 4 pears make 7", "7"),
        ("1,234.50", "1234.5"),
        ("It costs $1,000,000!", "1000000"),
        ("-5", "-5"),
        ("It is \u22125 degrees", "-5"),
        ("10-5", "5"),
        ("(3) - 2", "2"),
        ("x = -2.75, as was said", "-2.75"),
        (".5", "0.5"),
        ("between 1, 2", "2"),
        ("1,23", "23"),
        ("12,3456", "3456"),
        ("#### 18", "18"),
        ("**18**", "18"),
        ("$-3", "-3"),
        ("-$3", "-3"),
        ("50%", "50"),
        ("it is \u20135", "-5"),
        ("from 10\u201315", "15"),
        ("1.2e3", "1200"),
        ("5E-1 g", "0.5"),
        ("7/12", None),
        ("a chance of 7 / 12.", None),
        ("3/4 of 16 is 12", "12"),
        ("w12 abc9", None),
        ("none", None),
        ("", None),
    ],
)
def test_the_last_number(text: str, number: str | None) -> None:
    assert last_number(text) == (None if number is None else Decimal(number))


@given(st.decimals(-(10**9), 10**9, places=2), st.sampled_from(["It is {}.", "{}", "12 and then {} in all", "= {}\n"]))
def test_a_number_is_found_however_it_is_written(value: Decimal, form: str) -> None:
    assert last_number(form.format(f"{value:,}")) == value
    assert last_number(form.format(value)) == value


@pytest.mark.parametrize(
    ("scorer", "reply", "answer", "right"),
    [
        ("exact_number", "so 1,000 it is", "1000.0", True),
        ("exact_number", "1000 or 1001", "1000", False),
        ("exact_number", "none", "0", False),
        ("exact_number", "She has 6.", "6 - 2 = 4 #### 6", True),
        ("exact_text", "  Lisbon. ", "lisbon", True),
        ("exact_text", "in Lisbon", "Lisbon", False),
        ("exact_text", "New\n York", "new york", True),
        ("contains", "It was packed in LISBON, by Ada", "Lisbon", True),
        ("contains", "Lisbonne", "Lisbon", False),
        ("contains", "it weighs 137 kg", "37", False),
        ("contains", "it weighs 37 kg", "37", True),
        ("contains", "a.b", "a+b", False),
        ("contains", "it weighs 45.5 kg", "45", False),
        ("contains", "it weighs 45,000 kg", "45", False),
        ("contains", "-45", "45", False),
        ("contains", "it weighs 45, I think", "45", True),
        ("contains", "Number: 1234.", "1234", True),
        ("contains", "the code is 7", "007", False),
        ("exact_number", "1.2e3", "1.2", False),
        ("exact_number", "7/12", "12", False),
        ("exact_number", "112", "12", False),
        ("exact_number", "-3", "3", False),
        ("exact_number", "", "12", False),
        ("exact_number", "I cannot answer that.", "12", False),
    ],
)
def test_right_and_wrong(scorer: str, reply: str, answer: str, right: bool) -> None:
    assert is_right(scorer, reply, answer) is right


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("reply", "right"),
    [
        ('{"n": 1}', True),
        (' {"n": 1}\n', True),
        ('{"n": 1', False),
        ('{"n": 1} and', False),
        ('{"n": "1"}', False),
        ('{"n": 1, "m": 2}', False),
        ('{"n": NaN}', False),
        ('{"n": "one", "n": 1}', False),
        ("", False),
        ("[" * 100_000, False),
    ],
    ids=["yes", "space", "cut", "more", "type", "key", "NaN", "twice", "empty", "deep"],
)
def test_conformance(reply: str, right: bool) -> None:
    assert conforms(reply, SCHEMA) is right

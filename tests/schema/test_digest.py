"""Canonical JSON against RFC 8785's own examples and ECMAScript's number format; digests against sha256sum."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from benchcard.schema.digest import canonical_json, digest_bytes, digest_file, digest_json, tree_digest
from hypothesis import given
from hypothesis import strategies as st


def test_the_sample_of_rfc_8785_section_3_2_2() -> None:
    text = r"""{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }"""
    expected = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    assert canonical_json(json.loads(text)) == expected.encode()


def test_the_key_order_of_rfc_8785_section_3_2_3() -> None:
    keys = {
        "\u20ac": "Euro Sign",
        "\r": "Carriage Return",
        "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One",
        "\U0001f600": "Emoji: Grinning Face",
        "\u0080": "Control",
        "\u00f6": "Latin Small Letter O With Diaeresis",
    }
    order = ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    assert list(json.loads(canonical_json(keys))) == order


# RFC 8785, appendix B: the bits of a double and its ECMAScript text.
@pytest.mark.parametrize(
    ("bits", "text"),
    [
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("ffefffffffffffff", "-1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("c340000000000000", "-9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("44b52d02c7e14af7", "1.0000000000000001e+23"),
        ("444b1ae4d6e2ef4e", "999999999999999700000"),
        ("444b1ae4d6e2ef4f", "999999999999999900000"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555553", "333333333.3333332"),
        ("41b3de4355555554", "333333333.33333325"),
        ("41b3de4355555555", "333333333.3333333"),
        ("41b3de4355555556", "333333333.3333334"),
        ("41b3de4355555557", "333333333.33333343"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)
def test_numbers_as_in_appendix_b(bits: str, text: str) -> None:
    [value] = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical_json(value) == text.encode()


def test_numbers_that_json_has_not() -> None:
    for value in (float("nan"), float("inf"), -float("inf")):
        with pytest.raises(ValueError, match="no canonical form"):
            canonical_json({"x": value})


@pytest.mark.parametrize("value", [{1: 2}, {"a": object()}, {"a": {1}}, "\ud800", {"\udc00": 1}, b"bytes"])
def test_what_has_no_canonical_form(value: object) -> None:
    with pytest.raises(ValueError, match="no canonical form"):
        canonical_json(value)


def test_integers_keep_all_their_digits() -> None:
    assert canonical_json([1_800_000_000_123_456_789, 1_800_000_000_123_456_788]) == (
        b"[1800000000123456789,1800000000123456788]"
    )
    assert canonical_json([1, 1.0, True]) == b"[1,1,true]"


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner),
    max_leaves=12,
)


@given(VALUES)
def test_the_canonical_form_reads_back_and_is_a_fixed_point(value: object) -> None:
    text = canonical_json(value)
    assert json.loads(text) == value
    assert canonical_json(json.loads(text)) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_double_has_one_form_that_reads_back(value: float) -> None:
    text = canonical_json(value)
    assert float(text) == value
    assert canonical_json(json.loads(text)) == text


def test_digests(tmp_path: Path) -> None:
    # printf abc | sha256sum; printf '{"a":1}' | sha256sum
    abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert digest_bytes(b"abc") == abc
    (tmp_path / "f").write_bytes(b"abc")
    assert digest_file(tmp_path / "f") == abc
    assert digest_json({"a": 1.0}) == "sha256:015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"


def test_the_digest_of_a_source_tree(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "sub" / "b.py").write_text("y = 2\n")
    first = tree_digest(tmp_path)
    files = {"a.py": digest_bytes(b"x = 1\n"), "sub/b.py": digest_bytes(b"y = 2\n")}
    assert first == digest_json(files)
    (tmp_path / "notes.txt").write_text("not source")
    (tmp_path / "__pycache__").mkdir()
    assert tree_digest(tmp_path) == first
    (tmp_path / "sub" / "b.py").rename(tmp_path / "c.py")
    assert tree_digest(tmp_path) != first
    with pytest.raises(ValueError, match="holds no Python sources"):
        tree_digest(tmp_path / "sub")

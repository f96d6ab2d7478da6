"""Units: what is understood, what is refused with which candidates, and that writing undoes reading."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from benchcard.schema.quantity import QuantityError, format_quantity, is_size, parse
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("duration", "600 ms", 0.6),
        ("duration", "600ms", 0.6),
        ("duration", "  600   ms ", 0.6),
        ("duration", "8 h", 28800.0),
        ("duration", "90 min", 5400.0),
        ("duration", "250 µs", 0.00025),
        ("duration", ".5 s", 0.5),
        ("duration", "1e3 ms", 1.0),
        ("rate", "8 req/s", 8.0),
        ("rate", "2/s", 2.0),
        ("rate", "2 rps", 2.0),
        ("rate", "1e3 req/s", 1000.0),
        ("rate", "90 req/min", 1.5),
        ("fraction", "5%", 0.05),
        ("fraction", "0.1 %", 0.001),
        ("change", "5%", {"value": 0.05, "scale": "relative"}),
        ("change", "1 pt", {"value": 0.01, "scale": "points"}),
        ("change", "0.5pt", {"value": 0.005, "scale": "points"}),
        ("size", "35 GiB", 37580963840),
        ("size", "80 KiB", 81920),
        ("size", "0.5 KiB", 512),
        ("size", "1 GB", 10**9),
        ("span", "64 requests", {"requests": 64}),
        ("span", "1 request", {"requests": 1}),
        ("span", "60 s", {"seconds": 60.0}),
        ("load", "5 req/s", 5.0),
        ("load", 16, 16),
        ("load", 16.0, 16),
        ("limit", "20%", 0.2),
        ("limit", 1.5, 1.5),
    ],
)
def test_understood(kind: str, text: object, value: object) -> None:
    read = parse(kind, text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("duration", 600, "found 600 without a unit; wanted 600 ms or 600 s"),
        ("duration", "600", "found 600 without a unit; wanted 600 ms or 600 s"),
        ("duration", 1e3, "found 1000 without a unit; wanted 1000 ms or 1000 s"),
        ("rate", 8, "found 8 without a unit; wanted 8 req/s"),
        ("fraction", 0.05, "found 0.05 without a unit; wanted 0.05%"),
        ("change", 5, "found 5 without a unit; wanted 5% or 5 pt"),
        ("size", 35, "found 35 without a unit; wanted 35 GiB or 35 B"),
        ("span", 64, "found 64 without a unit; wanted 64 s or 64 requests"),
        ("duration", "5 m", "found 5 m; wanted a duration such as 600 ms, 60 s, 90 min or 8 h"),
        (
            "duration",
            "600 msec",
            "found 600 msec; wanted a duration such as 600 ms, 60 s, 90 min or 8 h (did you mean 600 ms?)",
        ),
        ("size", "35 gib", "found 35 gib; wanted a size such as 35 GiB (did you mean 35 GiB?)"),
        ("rate", "5 ms", "found 5 ms; wanted a rate such as 8 req/s"),
        ("duration", "1,5 s", "found 1,5 s; wanted a duration such as 600 ms, 60 s, 90 min or 8 h"),
        ("duration", "", "found ''; wanted a duration such as 600 ms, 60 s, 90 min or 8 h"),
        ("duration", True, "found true; wanted a duration such as 600 ms, 60 s, 90 min or 8 h"),
        ("duration", [1], "found a list of 1; wanted a duration such as 600 ms, 60 s, 90 min or 8 h"),
        ("duration", "1e999 s", "found 1e999 s; wanted a number that a computer can hold"),
        ("duration", "9e307 h", "found 9e307 h; wanted a number that a computer can hold"),
        ("size", "0.3 B", "found 0.3 B; wanted a whole number of bytes"),
        ("span", "1.5 requests", "found 1.5 requests; wanted a whole number of requests"),
        ("load", 2.5, "found 2.5; wanted a whole number of clients, at least 1"),
        ("load", 0, "found 0; wanted a whole number of clients, at least 1"),
    ],
)
def test_refused_with_what_would_be_right(kind: str, value: object, said: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse(kind, value)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("duration", 0.6, "600 ms"),
        ("duration", 60.0, "60 s"),
        ("duration", 90.0, "90 s"),
        ("duration", 5400.0, "90 min"),
        ("duration", 28800.0, "8 h"),
        ("duration", 0.0, "0 s"),
        ("rate", 8.0, "8 req/s"),
        ("fraction", 0.05, "5%"),
        ("fraction", 0.001, "0.1%"),
        ("change", {"value": 0.005, "scale": "points"}, "0.5 pt"),
        ("size", 37580963840, "35 GiB"),
        ("size", 1000, "1000 B"),
        ("span", {"requests": 64}, "64 requests"),
        ("load", 16, "16"),
    ],
)
def test_written_for_people(kind: str, value: object, text: str) -> None:
    assert format_quantity(kind, value) == text


NUMBERS = st.floats(min_value=0, allow_nan=False, allow_infinity=False, max_value=1e250)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "duration": NUMBERS,
    "rate": NUMBERS,
    "fraction": NUMBERS,
    "limit": NUMBERS,
    "change": st.fixed_dictionaries({"value": NUMBERS, "scale": st.sampled_from(["relative", "points"])}),
    "size": st.integers(0, 2**53),
    "span": st.one_of(
        st.fixed_dictionaries({"seconds": NUMBERS}), st.fixed_dictionaries({"requests": st.integers(0, 2**53)})
    ),
    "load": st.one_of(NUMBERS, st.integers(1, 2**53)),
}


@given(st.data(), st.sampled_from(sorted(VALUES)))
def test_reading_undoes_writing(data: st.DataObject, kind: str) -> None:
    value = data.draw(VALUES[kind])
    assert parse(kind, _quoted(kind, format_quantity(kind, value))) == value


def _quoted(kind: str, text: str) -> object:
    """A card's plain numbers are numbers, not texts."""
    return float(text) if kind == "limit" else int(text) if text.isdigit() else text


@given(st.text(max_size=30), st.sampled_from(sorted(VALUES)))
def test_any_text_is_read_or_refused(text: str, kind: str) -> None:
    with contextlib.suppress(QuantityError):
        parse(kind, text)


@pytest.mark.parametrize(
    ("text", "size"), [("35 GiB", True), ("1GB", True), ("4k", False), ("8B", False), ("GiB", False), ("fp8", False)]
)
def test_sizes_among_flags(text: str, size: bool) -> None:
    assert is_size(text) is size

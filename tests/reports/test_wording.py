"""Numbers and words, against what a person would write."""

from __future__ import annotations

import math
from typing import Any

import pytest
from benchcard.reports import numbers as n
from benchcard.reports import wording as w


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0234, "s", "23.4 ms"),
        (0.6, "s", "600 ms"),
        (0.00042, "s", "420 µs"),
        (1.0, "s", "1 s"),
        (90.0, "s", "90 s"),
        (480.0, "s", "8 min"),
        (0.01998, "s", "20.0 ms"),
        (0.0, "s", "0 s"),
        (0.041, "1", "4.1%"),
        (-0.021, "1", "−2.1%"),
        (6.2, "req/s", "6.2 req/s"),
        (1234.5, "tokens/s", "1,234 tokens/s"),
        (35 * 2.0**30, "bytes", "35 GiB"),
        (12.0, "attempts", "12 attempts"),
        (3.0, "", "3"),
        (None, "s", "undefined"),
    ],
)
def test_quantity(value: float | None, unit: str, text: str) -> None:
    assert n.quantity(value, unit) == text


@pytest.mark.parametrize(
    ("mean", "stdev", "unit", "text"),
    [
        (0.0234, 0.0012, "s", "23.4 ± 1.2 ms"),
        (10.01875, 0.13346, "req/s", "10.02 ± 0.13 req/s"),
        (0.8349, 0.0111, "1", "83.5 ± 1.1%"),
        (1234.5, 56.7, "tokens/s", "1,234 ± 57 tokens/s"),
        (0.0, 0.0, "1", "0 ± 0%"),
        (5.0, None, "req/s", "5 req/s (one value)"),
    ],
)
def test_mean_and_stdev_share_a_unit(mean: float, stdev: float | None, unit: str, text: str) -> None:
    assert n.mean_stdev(mean, stdev, unit) == text


def test_undefined_gives_its_reason() -> None:
    assert n.mean_stdev(None, None, "s", "no token") == "undefined (no token)"
    assert n.quantity_or_reason(None, "s", "no token") == "undefined (no token)"
    assert n.effect(None, "log", "s", "7 of 8 blocks") == "undefined (7 of 8 blocks)"
    assert n.interval(None, "log", "s", reason="one block") == "undefined (one block)"
    assert n.p_value(None) == n.number(None) == n.size(None, "log", "s") == "undefined"


@pytest.mark.parametrize(
    ("d", "scale", "unit", "text"),
    [
        (math.log(1.183), "log", "req/s", "+18.3%"),
        (math.log(0.979), "log", "s", "−2.1%"),
        (math.log1p(0.05), "log", "s", "+5%"),
        (0.0, "log", "s", "0%"),
        (0.005, "difference", "1", "+0.5 pt"),
        (-0.31, "scaled", "req/s", "−0.31 req/s"),
        (0.0012, "difference", "s", "+1.2 ms"),
    ],
)
def test_effect(d: float, scale: str, unit: str, text: str) -> None:
    assert n.effect(d, scale, unit) == text


def test_effect_has_the_digits_of_its_interval() -> None:
    assert n.effect(0.000375, "log", "req/s", None, [-0.005241, 0.005991]) == "0.0%"
    assert n.effect(0.0961959, "log", "req/s", None, [0.0844039, 0.1079878]) == "+10.1%"
    assert n.effect(0.3, "log", "req/s", None, [0.1, 0.5]) == "+35%"


@pytest.mark.parametrize(
    ("bounds", "scale", "unit", "text"),
    [
        ([math.log(1.28), math.log(1.41)], "log", "req/s", "28% to 41%"),
        ([0.0844039, 0.1079878], "log", "req/s", "8.8% to 11.4%"),
        ([math.log(0.97), math.log(1.12)], "log", "req/s", "−3% to +12%"),
        ([math.log(0.8), math.log(0.9)], "log", "s", "−20% to −10%"),
        ([-0.004, 0.006], "difference", "1", "−0.4 pt to +0.6 pt"),
        ([0.1, 0.1], "scaled", "req/s", "0.100 req/s to 0.100 req/s"),
    ],
)
def test_interval(bounds: list[float], scale: str, unit: str, text: str) -> None:
    assert n.interval(bounds, scale, unit) == text


def test_rounding_never_puts_an_end_onto_the_threshold() -> None:
    """5.3% to 17% is above a threshold of 5%; "5% to 17%" would not look so."""
    bounds = [math.log(1.053), math.log(1.17)]
    assert n.interval(bounds, "log", "req/s") == "5% to 17%"
    assert n.interval(bounds, "log", "req/s", math.log(1.05)) == "5.3% to 17.0%"
    # an end that is at the threshold may look so
    assert n.interval([math.log(1.05), math.log(1.17)], "log", "req/s", math.log(1.05)) == "5% to 17%"


@pytest.mark.parametrize(
    ("p", "text"), [(1.492e-5, "below 0.0001"), (1 / 256, "0.0039"), (0.99455, "0.99"), (1.0, "1")]
)
def test_p_value(p: float, text: str) -> None:
    assert n.p_value(p) == text


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("goodput", "req/s"),
        ("ttft.p95", "s"),
        ("attainment", "1"),
        ("server.prefix_cache_hit_rate", "1"),
        ("server.spec_decode_acceptance_length", ""),
        ("strange", ""),
    ],
)
def test_metric_unit(name: str, unit: str) -> None:
    assert n.metric_unit(name) == unit


def test_rules_of_the_card() -> None:
    relative, points = {"value": 0.05, "scale": "relative"}, {"value": 0.005, "scale": "points"}
    assert w.requirement("goodput", "must_rise_by", relative) == "goodput must rise by at least 5%"
    assert w.requirement("tpot.p50", "must_fall_by", relative) == "tpot.p50 must fall by at least 5%"
    assert w.requirement("error_rate", "may_rise_by", points) == "error_rate may rise by at most 0.5 pt"
    rules = {
        "success": True,
        "ttft": {"at_most": 0.6},
        "icl": {"every": 0.2},
        "output": {"min_tokens": 2, "finish": ["stop"]},
    }
    assert w.objectives(rules) == (
        "the request succeeds; TTFT at most 600 ms; every ICL at most 200 ms; "
        "output: at least 2 tokens, finished by stop"
    )


def test_lists_and_loads() -> None:
    assert w.listing([]) == ""
    assert w.listing(["a"]) == "a"
    assert w.listing(["a", "b", "c"], "or") == "a, b or c"
    assert w.loads([20.0, 50.0], "req/s") == "20 and 50 req/s"
    assert w.load(2.5, "req/s") == "2.5 req/s"
    assert w.load(8.0, "concurrent") == "8 concurrent"
    assert w.shortened([f"c{n}" for n in range(9)]) == "c0, c1, c2, c3, c4, c5 and 3 more"
    assert w.count(1, "block") == "1 block"
    assert w.count(1200, "block") == "1,200 blocks"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "none"),
        (True, "yes"),
        (6.0, "6"),
        ([6.0, 12.5], "6, 12.5"),
        ({"law": "zipf", "exponent": 1.1}, "law zipf, exponent 1.1"),
        ({"unknown": "no weights"}, "unknown: no weights"),
        ({}, "none"),
        ("text", "text"),
    ],
)
def test_plain(value: Any, text: str) -> None:
    assert w.plain(value) == text

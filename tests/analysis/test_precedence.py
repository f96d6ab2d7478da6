"""The precedence of the verdict's words, over every mixture of findings: invalid > mixed > falsified > inconclusive >
supported, and a treatment that did not take effect makes whatever is valid inconclusive."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from benchcard.analysis.cells import Reading
from benchcard.analysis.claim import LoadEffect, Pairs
from benchcard.analysis.decide import decide
from benchcard.analysis.effect import paired
from hypothesis import given
from hypothesis import strategies as st

from ..calibration.draws import log_pairs, stream
from ..calibration.verdicts import Values, card_of, reading_of

BLOCKS = 8
# clear of the threshold of +5%, across it, and a fall
WORDS = {"supported": 0.3, "falsified": 0.01, "inconclusive": 0.0488}
GUARDS = ("pass", "indeterminate", "regressed")
GATES = ("pass", "not established", "not run", "fail")
EVIDENCE = ("holds", "unknown", "fails")


def effect(word: str, load: int) -> LoadEffect:
    """An effect at a load with this word; "turned" rose at load 1 and fell at load 2."""
    d = [-0.3, 0.3][load % 2] if word == "turned" else WORDS[word]
    candidate = [10 * (1 + d + (i - 3.5) / 100) for i in range(BLOCKS)]
    found = paired([10.0] * BLOCKS, candidate, value=0.05, relative=True, direction="must_rise_by")
    zero = (0.1, 0.4) if d > 0.1 else (-0.4, -0.1) if d < -0.1 else (-0.01, 0.06)
    # the words are what is mixed here; "turned" has the one that its effect has
    said = found.word if word == "turned" else word
    return LoadEffect(load, 10.0 * load, True, Pairs((1,), (1.0,), (1.0,)), found, said, zero, None, None)


def guard(word: str) -> dict[str, Any]:
    margin = {"value": 0.03, "scale": "relative"}
    row = {"metric": "tpot.p50", "direction": "may_rise_by", "margin": margin, "load_point": 1, "load": 10.0}
    return row | {"word": word, "reason": None}


def gate(word: str) -> dict[str, Any]:
    return {"risk": "numerics", "gate": "greedy_divergence", "word": word, "text": "gate greedy_divergence (numerics)"}


def evidence(word: str) -> dict[str, Any]:
    row = {"metric": "server.prefix_cache_hit_rate", "arm": "candidate", "direction": "at_least", "limit": 0.5}
    return row | {"word": word, "observed": 0.4, "reason": "not read"}


def a_reading() -> Reading:
    values: Values = {("goodput", load): log_pairs(stream("precedence"), 1, BLOCKS, 0.0) for load in (1, 2)}
    return reading_of(card_of(BLOCKS, 2, "every_load", 0), values, 0)


READING = a_reading()


def expected(words: set[str], invalid: bool, turned: bool, rows: dict[str, list[str]]) -> str:
    """The rule, said apart from the code."""
    if invalid:
        return "invalid"
    if "fails" in rows["evidence"]:
        return "inconclusive"
    if turned:
        return "mixed"
    if "falsified" in words or "regressed" in rows["guards"] or "fail" in rows["gates"]:
        return "falsified"
    open_ones = {"inconclusive", "indeterminate", "not established", "not run", "unknown"}
    if open_ones & (words | {word for several in rows.values() for word in several}):
        return "inconclusive"
    return "supported"


lists = {
    "guards": st.lists(st.sampled_from(GUARDS), max_size=3),
    "gates": st.lists(st.sampled_from(GATES), max_size=3),
    "evidence": st.lists(st.sampled_from(EVIDENCE), max_size=2),
}


@given(
    claims=st.tuples(*[st.sampled_from(sorted(WORDS))] * 2), turned=st.booleans(), complete=st.booleans(),
    drifting=st.booleans(), confounded=st.booleans(), **lists,
)  # fmt: skip
def test_every_mixture_of_findings(
    claims: tuple[str, str], turned: bool, complete: bool, drifting: bool, confounded: bool, **rows: list[str]
) -> None:
    words = ("turned", "turned") if turned else claims
    effects = [effect(word, load) for load, word in enumerate(words, start=1)]
    reading = READING if complete else replace(READING, valid_blocks=BLOCKS - 1)
    drift = {"arm": "baseline", "load_point": 1, "load": 10.0, "mean": 0.3, "interval": [0.2, 0.4], "limit": 0.1}
    invalid = {1: [cast(Any, drift)]} if drifting else {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchcard.analysis.decide.drift_text", lambda *_: "drifts")
        found = decide(
            reading, effects, [guard(w) for w in rows["guards"]], [evidence(w) for w in rows["evidence"]],
            ["host.node"] if confounded else [], invalid, [gate(w) for w in rows["gates"]],
        )  # fmt: skip
    wanted = expected({str(e.word) for e in effects}, not complete or drifting, turned, rows)
    assert found.word == ("inconclusive" if wanted == "supported" and confounded else wanted)
    # nothing that was found is left out: a clause for each, or the run is incomplete and says only that
    if complete:
        assert len(found.findings) >= 2 + sum(len(several) for several in rows.values())


@pytest.mark.parametrize(
    ("word", "code"), [("fail", "gate_failed"), ("not run", "gate_not_run"), ("pass", "gate_passed")]
)
def test_a_gate_alone(word: str, code: str) -> None:
    found = decide(READING, [effect("supported", 1)], [], [], [], {}, [gate(word)])
    assert (found.word == "supported") == (word == "pass")
    assert code in [finding.code for finding in found.findings]
    decisive = found.findings[0]
    starts = {"fail": "the outputs are not equivalent: ", "not run": "whether the outputs are equivalent is unknown: "}
    assert decisive.text == (starts[word] + gate(word)["text"] if word in starts else decisive.text)

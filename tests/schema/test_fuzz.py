"""Whatever bytes a card consists of, it validates or is refused with located problems. Nothing else, ever."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from benchcard.schema.card import load_card
from benchcard.schema.errors import CardError, Problem
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CARDS = [*sorted((Path(__file__).parent / "cards").glob("*.yaml")), Path(__file__).parent / "files" / "everything.yaml"]
TEXTS = [path.read_bytes() for path in CARDS]
PIECES = [
    piece.encode() for piece in ["{", "}", "[", "]", ":", "#", "'", '"', "|", ">", "%", "~", "no", "1e3", "-1", "*a"]
]
PIECES += [
    b": ",
    b"\n",
    b"  ",
    b"\t",
    b"- ",
    b"&a ",
    b"!!x ",
    b"<<: ",
    b"---\n",
    b"? ",
    b"5 req/s",
    b"unknown: ",
    b"\xff",
    b"\x00",
]
QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def problems_of(path: Path) -> list[Problem]:
    try:
        load_card(path)
    except CardError as error:
        return error.problems
    return []


FILES = {file.name: file.read_bytes() for file in CARDS[-1].parent.iterdir() if file != CARDS[-1]}


def check(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    for name, content in FILES.items():
        if not (path.parent / name).exists():
            (path.parent / name).write_bytes(content)
    problems = problems_of(path)
    if problems:
        lines = data.count(b"\n") + data.count(b"\r") + data.count(b"\xc2\x85") + data.count(b"\xe2\x80") + 1
        for problem in problems:
            beside = problem.file in [str(path.parent / name) for name in [*FILES, "card.yaml"]] and not problem.path
            assert problem.file == str(path) or problem.path == "extends" or beside
            assert 1 <= problem.line <= lines + 1 or beside
            assert problem.column >= 1
            assert problem.found
            assert problem.wanted
        assert problems == sorted(set(problems))


@QUICK
@given(st.data())
def test_mutated_cards(tmp_path: Path, data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 12))
        piece = data.draw(st.sampled_from(PIECES) | st.binary(max_size=3))
        text = text[:start] + piece + text[start + cut :]
    check(tmp_path / "card.yaml", text)


@QUICK
@given(st.binary(max_size=60))
def test_any_bytes(tmp_path: Path, data: bytes) -> None:
    check(tmp_path / "card.yaml", data)


PLAIN = [None, True, 1, 0, -1, 1.5, 10**400, "", "x", "5 req/s", "5%", "1 pt", "600 ms", "no", "unknown: x", "zipf 1"]
VALUES = st.recursive(
    st.sampled_from(PLAIN),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [above] if above else []
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in entries:
        found += places(below, (*above, key))
    return found


@QUICK
@given(st.data())
def test_any_value_at_any_key(tmp_path: Path, data: st.DataObject) -> None:
    card = yaml.safe_load(data.draw(st.sampled_from(TEXTS)))
    for _ in range(data.draw(st.integers(1, 2))):
        *above, last = data.draw(st.sampled_from(places(card)))
        node = card
        for key in above:
            node = node[key]
        node[last] = data.draw(VALUES)
    check(tmp_path / "card.yaml", yaml.safe_dump(card, sort_keys=False).encode())


@pytest.mark.parametrize("path", CARDS, ids=[path.stem for path in CARDS])
def test_every_beginning_of_a_card(path: Path, tmp_path: Path) -> None:
    data = path.read_bytes()
    for end in range(0, len(data), max(1, len(data) // 40)):
        check(tmp_path / "card.yaml", data[:end])

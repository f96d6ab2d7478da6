"""The sections on identity: the table of what is forbidden, and what differs between the arms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bundles
from benchcard.reports import read
from benchcard.reports.document import Bullets, Paragraph, Section, Table
from benchcard.reports.identity import difference_sections, forbidden_sections
from benchcard.reports.render import render


def row(field: str, class_: str, word: str, **more: Any) -> bundles.Json:
    found = {"expected": None, "baseline": "16", "candidate": "8", "arm": None, "cell": None, "why": "declared: x"}
    return {"field": field, "class": class_, "word": word, **found, **more}


def judged(folder: Path, *rows: bundles.Json, **more: Any) -> read.Bundle:
    found = {"rows": list(rows), "compared": 600, "unknown": 2, "looks": 16, "not_arrived": [], **more}
    return read.read_bundle(bundles.write(folder / "bundle", bundles.supported() | {"identity": found}))


def lines(sections: tuple[Section, ...]) -> list[Any]:
    """Paragraphs and bullets as texts, tables as lists of rows."""
    (section,) = sections
    found: list[Any] = []
    for block in section.blocks:
        if isinstance(block, Table):
            found.append([[cell.text for cell in line] for line in block.rows])
        elif isinstance(block, Paragraph):
            found.append(block.text)
        elif isinstance(block, Bullets):
            found += block.items
    return found


def test_results_of_before_have_neither(tmp_path: Path) -> None:
    found = read.read_bundle(bundles.write(tmp_path / "bundle", bundles.supported()))
    assert forbidden_sections(found) == difference_sections(found) == ()


def test_nothing_differs(tmp_path: Path) -> None:
    found = judged(tmp_path)
    assert forbidden_sections(found) == ()
    assert lines(difference_sections(found)) == [
        "600 values of each arm compared; the servers were looked at again before 16 cells: no difference seen."
    ]


def test_the_forbidden_ones_in_a_table_at_the_top(tmp_path: Path) -> None:
    drift = {"expected": "16", "baseline": None, "arm": "candidate", "why": "an arm is one system"}
    found = judged(
        tmp_path,
        row("engine.config.a", "expect", "forbidden", expected="4", baseline=None, arm="candidate",
            why="the card: the flag a"),
        row("engine.config.b", "must_match", "forbidden"),
        *(row("engine.config.c", "drift", "forbidden", cell=f"b0{n}-candidate-l1", **drift) for n in (2, 3, 4, 5)),
        row("engine.config.d", "drift", "forbidden", expected="16", candidate=None, baseline="9", arm="baseline_aa"),
    )  # fmt: skip
    assert lines(forbidden_sections(found)) == [
        "4 differences that the card neither declares nor accepts. Two systems are compared only if they differ in the "
        "treatment alone: from here on the numbers say nothing about it.",
        [
            ["engine.config.a", "4", "", "8", "not what the card says of the candidate (the flag a)", ""],
            ["engine.config.b", "", "16", "8", "differs between the arms", ""],
            ["engine.config.c", "16", "", "8", "changed between cells of candidate",
             "b02-candidate-l1, b03-candidate-l1, b04-candidate-l1 and 1 more"],
            ["engine.config.d", "16", "9", "", "differs in the baseline's second run", ""],
        ],
    ]  # fmt: skip
    render(tmp_path / "bundle")
    text = (tmp_path / "bundle" / "REPORT.md").read_text()
    assert text.index("## Not the systems that the card declares") < text.index("## Effect against the threshold")


def test_consequences_are_folded_where_there_are_many(tmp_path: Path) -> None:
    follows = [row(f"engine.config.f{n}", "treatment", "allowed", why="follows from x") for n in range(5)]
    found = judged(
        tmp_path,
        row("node", "confounded", "allowed", why="accepted under identity.confounded: node"),
        row("engine.config.x", "treatment", "allowed"),
        *follows,
        row("model.weights_sha256.a", "treatment", "allowed", why="named under identity.treatment: model.*"),
        row("gpu.uuid", "must_match", "not comparable", candidate=None, why="no permission"),
        not_arrived=[{"flag": "y", "baseline": None, "candidate": "2", "field": "engine.config.y", "resolved": "2"}],
    )
    assert lines(difference_sections(found)) == [
        "600 values of each arm compared; the servers were looked at again before 16 cells: what differs is declared "
        "or accepted.",
        [
            ["engine.config.x", "16", "8", "declared: x"],
            ["5 fields: engine.config.f0, engine.config.f1, engine.config.f2 and 2 more", "", "", "follows from x"],
            ["model.weights_sha256.a", "16", "8", "named under identity.treatment: model.*"],
            ["node", "16", "8", "accepted under identity.confounded: node"],
        ],
        "y is declared to differ (baseline the default, candidate 2), and both engines resolved engine.config.y to 2: "
        "that part of the treatment did not arrive.",
        "not comparable: gpu.uuid (no permission)",
    ]

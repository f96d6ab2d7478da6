"""The section on populations: where it stands, its figures, and that other cards have none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import bundles
from benchcard.reports import read
from benchcard.reports.document import Figure
from benchcard.reports.populations import population_sections

Report = Callable[..., tuple[str, str]]


def _read(folder: Path, result: bundles.Json, card: bundles.Json) -> read.Bundle:
    return read.read_bundle(bundles.write(folder, result, card))


def test_a_figure_for_each_population_with_its_own_objective(tmp_path: Path) -> None:
    (section,) = population_sections(_read(tmp_path, bundles.populations(), bundles.populations_card()))
    captions = [block.caption for block in section.blocks if isinstance(block, Figure)]
    start = "at each load: the share of values at or below. Vertical dashed line: its objective,"
    assert captions == [
        f"Distribution of the TTFT of chat {start} 300 ms.",
        f"Distribution of the TTFT of batch {start} 600 ms.",
    ]


def test_a_card_without_populations_has_no_section(report: Report) -> None:
    markdown, html = report(bundles.supported())
    assert "Populations" not in markdown
    assert 'id="populations"' not in html


def test_the_section_is_in_the_page_and_ids_are_unique(report: Report) -> None:
    _, html = report(bundles.populations(), card=bundles.populations_card())
    assert html.count('<section id="populations"') == 1
    assert html.count('id="population-1-title"') == html.count('id="population-2-title"') == 1


def test_requests_that_all_have_objectives_of_their_own_need_none_on_the_card(report: Report) -> None:
    card = bundles.populations_card()
    card["objectives"] = None
    assert "The card states no objectives" in report(bundles.populations(), card=card)[0]
    card["workload"]["populations"]["batch"]["objectives"] = {"success": True, "ttft": {"at_most": 2.0}}
    markdown, _ = report(bundles.populations(), card=card)
    assert "The card states no objectives" not in markdown
    assert "- batch: the request succeeds; TTFT at most 2 s\n" in markdown


def test_a_baseline_tells_populations_apart_without_effects(report: Report) -> None:
    result = bundles.baseline()
    seen = bundles.populations()
    for key in ("populations", "population_shares", "population_summary"):
        result[key] = [row for row in seen[key] if row["arm"] == "baseline"]
    card = bundles.baseline_card()
    card["workload"]["populations"] = bundles.POPULATIONS
    markdown, _ = report(result, card=card)
    assert "## Populations" in markdown
    assert "Effect on each population" not in markdown
    assert "Effects on single populations" not in markdown

"""REPORT.md as a whole: what people read, word for word.

The texts in golden/ were read and judged. To write them anew after a wanted change: BENCHCARD_UPDATE_GOLDEN=1 pytest
tests/reports/test_markdown.py, then read the difference.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import bundles
import pytest
from benchcard.reports.render import markdown_code, markdown_text, render

GOLDEN = Path(__file__).parent / "golden"
LOG = [
    {"seq": 1, "time": "2026-09-23T10:15:00Z", "kind": "run_started"},
    {
        "seq": 2,
        "time": "2026-09-23T10:20:00Z",
        "kind": "server_died",
        "arm": "candidate",
        "block": 3,
        "cell": "b03-candidate-l2",
        "why": "signal 9",
    },
    {"seq": 3, "time": "2026-09-23T10:21:00Z", "kind": "block_replaced", "block": 3, "by": 9, "why": "schedule lag"},
]


def _bundle(name: str, folder: Path) -> Path:
    if name == "baseline":
        return bundles.write(folder, bundles.baseline(), bundles.baseline_card())
    if name == "second-day":
        written = bundles.write(folder, bundles.supported())
        (written / "reproduction.json").write_text(json.dumps(bundles.reproduction()), encoding="utf-8")
        return written
    if name == "aa":
        return bundles.write(folder, bundles.aa(), bundles.aa_card())
    if name == "populations":
        return bundles.write(folder, bundles.populations(), bundles.populations_card())
    make: Callable[[], bundles.Json] = getattr(bundles, name)
    return bundles.write(folder, make(), series=name != "invalid", log=LOG if name == "invalid" else None)


@pytest.mark.parametrize(
    "name",
    ["supported", "falsified", "inconclusive", "mixed", "invalid", "baseline", "second-day", "populations", "aa"],
)
def test_whole_text(name: str, tmp_path: Path) -> None:
    markdown, _ = render(_bundle(name, tmp_path / "bundle"))
    golden = GOLDEN / f"{name}.md"
    text = markdown.read_text(encoding="utf-8")
    if os.environ.get("BENCHCARD_UPDATE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a|b", r"a\|b"),
        ("<script>", "&lt;script&gt;"),
        ("[x](y)", r"\[x\](y)"),
        ("![x](y)", r"!\[x\](y)"),
        ("*a* `b` \\", r"\*a\* \`b\` " + "\\\\"),
        ("output_throughput", "output_throughput"),
        ("_emphasis_", r"\_emphasis\_"),
        ("a & b &lt;", "a &amp; b &amp;lt;"),
        ("two\nlines\r\n  # no heading", "two lines # no heading"),
        ("# heading", r"\# heading"),
        ("- item", r"\- item"),
        ("1. item", r"1\. item"),
        ("−2.1% ± 0.3 · µs", "−2.1% ± 0.3 · µs"),
    ],
)
def test_markdown_shows_plain_text(text: str, wanted: str) -> None:
    assert markdown_text(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("sha256:5e", "`sha256:5e`"), ("a`b", r"a\`b"), ("a|b", r"a\|b"), ("<b>", "&lt;b&gt;"), ("", "")],
)
def test_markdown_code(text: str, wanted: str) -> None:
    assert markdown_code(text) == wanted


def test_tables_keep_their_shape(report: Callable[..., tuple[str, str]]) -> None:
    """A cell with '|' or a line break in it does not add a column or a row."""
    verdict = bundles.supported()
    verdict["conditions"][0].update(name="mo|del", value="a|b\n| c |\n\nd")
    markdown, _ = report(verdict)
    line = next(line for line in markdown.splitlines() if line.startswith(r"| mo\|del"))
    assert line == r"| mo\|del | a\|b \| c \| d | declared |"
    for row in (line for line in markdown.splitlines() if line.startswith("|")):
        assert row.replace(r"\|", "").count("|") >= 3

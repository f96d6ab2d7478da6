"""reports/CALIBRATION.md: every row stands within its bound, and people are told of it."""

from __future__ import annotations

import re
from pathlib import Path

from ..calibration.table import HEADINGS, markdown, parsed

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "reports" / "CALIBRATION.md").read_text()
ROWS = parsed(TEXT)


def test_every_line_of_a_table_is_a_row_that_holds() -> None:
    lines = [line for line in TEXT.splitlines() if re.match(r"\| .*\| (yes|NO) \|$", line)]
    assert len(lines) == len(ROWS) > 80
    for row in ROWS:
        assert row.holds, f"{row.group}: {row.what}"
    # what is written of a row follows from its counts, up to the digits in which its bound is written
    written = [line.strip("| ").split(" | ") for line in lines]
    assert [row.cells() for row in ROWS] == written


def test_the_tables_are_written_as_the_program_writes_them() -> None:
    assert TEXT.endswith(markdown(ROWS).rstrip("\n") + "\n")
    assert f"| {' | '.join(HEADINGS)} |" in TEXT


def test_it_has_every_kind_of_mistake() -> None:
    text = " ".join(f"{row.group} {row.what}" for row in ROWS)
    for blocks in (6, 8, 16):
        for scale in ("ratio", "points", "zero blocks"):
            for direction in ("must_rise_by", "must_fall_by"):
                assert (
                    f'False "supported", the true effect exactly at the threshold {direction}, {scale}, B = {blocks}'
                    in text
                )
                assert (
                    f'False "falsified", the true effect exactly at the threshold {direction}, {scale}, B = {blocks}'
                    in text
                )
        assert f"Coverage of the 95% interval must_rise_by, ratio, B = {blocks}, normal" in text
    assert min(row.experiments for row in ROWS if row.group.startswith(("False", "Coverage", "Power", "A/A"))) >= 5000


def test_it_names_what_it_was_made_for() -> None:
    assert re.search(r"analysis revision\n`sha256:[0-9a-f]{64}`", TEXT)
    assert re.search(r"Seed \d+; ", TEXT)


def test_the_readme_links_to_it() -> None:
    assert "](reports/CALIBRATION.md)" in (ROOT / "README.md").read_text()

"""One good run, made once, for the tests that read, copy and spoil it."""

from __future__ import annotations

from pathlib import Path

import pytest

from .cards import benchcard, only_run, small_card


@pytest.fixture(scope="session")
def good_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the small card on the embedded engine."""
    folder = tmp_path_factory.mktemp("good")
    benchcard("run", small_card(folder), "--out", folder / "runs")
    return only_run(folder / "runs")

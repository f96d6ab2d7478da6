"""One small run of the real server that several files look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from .cards import SMALL, changed, executed


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A baseline of one client at a time (low load), then of more than the server's seats (a queue)."""
    card = changed(
        SMALL,
        ("max-num-seqs: 16", "max-num-seqs: 4"),
        ("concurrency: [1, 4]", "concurrency: [1, 8]"),
        ("measure: 8 requests", "measure: 24 requests"),
        ("spare_blocks: 0}\n", "spare_blocks: 0}\noutputs: {telemetry_every: 0.2 s}\n"),
    )
    return executed(tmp_path_factory.mktemp("vllm"), card)

"""The traces in cards/traces: made by their script, and what their README says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from benchcard.schema.trace import read_trace

ROOT = Path(__file__).parents[2]


def test_the_sample_traces_are_what_their_script_makes(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("traces_made_by", ROOT / "tests" / "traces_made_by.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    for name, make in script.FILES.items():
        assert make().encode() == (ROOT / "cards" / "traces" / name).read_bytes(), name
    assert {path.name for path in (ROOT / "cards" / "traces").iterdir()} == {*script.FILES, "README.md"}


def test_the_sample_traces_are_what_their_readme_says() -> None:
    folder = ROOT / "cards" / "traces"
    table = {line.split(" | ")[0].strip("| "): line for line in (folder / "README.md").read_text().splitlines()}
    for name, format_, block in (
        ("mooncake-like.jsonl", "mooncake", 16),
        ("azure-like.csv", "azure", None),
        ("burstgpt-like.csv", "burstgpt", None),
    ):
        trace = read_trace((folder / name).read_bytes(), format_, hash_block=block)
        failed = f", and {trace.left_out} failed" if trace.left_out else ""
        said = f"| {trace.rows}{failed} | {trace.span_ns / 1e9:.4g} s | {trace.rate:.3g} req/s |"
        assert said in table[name], said
        assert min(trace.input_tokens) >= 20
        assert max(trace.input_tokens) <= 400
        assert min(trace.output_tokens) >= 8
        assert max(trace.output_tokens) <= 80


def test_the_sample_chats_share_their_text() -> None:
    """An id stands for one text: where a prompt shares its n-th id with another, it shares all before it."""
    trace = read_trace((ROOT / "cards" / "traces" / "mooncake-like.jsonl").read_bytes(), "mooncake", hash_block=16)
    assert trace.hash_ids is not None
    before: dict[int, tuple[int, ...]] = {}
    again = 0
    for ids, tokens in zip(trace.hash_ids, trace.input_tokens, strict=True):
        assert len(ids) == -(-tokens // 16)
        for index, block in enumerate(ids):
            again += block in before
            assert before.setdefault(block, ids[:index]) == ids[:index]
    assert round(again / sum(map(len, trace.hash_ids)), 2) == 0.58

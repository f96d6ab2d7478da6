"""Files that a card names: found, hashed and read with it; what is planned later is what was hashed."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from benchcard.schema.card import Card, load_card
from benchcard.schema.digest import digest_bytes
from benchcard.schema.errors import CardError, InputError
from benchcard.schema.inputs import NO_INPUTS
from benchcard.schema.provenance import render_card

CARDS = Path(__file__).parent / "cards"
GOOD = (CARDS / "good-ab.yaml").read_text(encoding="utf-8")
OPENAI = (CARDS / "good-openai.yaml").read_text(encoding="utf-8")
TRACE = "timestamp,input_tokens,output_tokens\n1000,10,5\n2000,20,6\n3500,30,10\n"
PAIRS = "input_tokens,output_tokens\n100,3\n200,4\n"
QUESTIONS = '{"prompt": "Who?", "output_tokens": 3}\n{"prompt": "Why?", "output_tokens": 6}\n'
REPLAY = """\
workload:
  arrivals: {process: trace, file: day.csv, format: csv, unit: ms}
  loads: [50 req/s]
  window: {warmup: 0 s, measure: 40 ms}
  requests: {lengths: , from: trace}
"""


def load(folder: Path, over: str, base: str = GOOD, **options: Any) -> Card:
    (folder / "base.yaml").write_text(base, encoding="utf-8")
    (folder / "card.yaml").write_text("extends: base.yaml\n" + over, encoding="utf-8")
    return load_card(folder / "card.yaml", **options)


def refusal(folder: Path, over: str, base: str = GOOD, **options: Any) -> str:
    with pytest.raises(CardError) as caught:
        load(folder, over, base, **options)
    return str(caught.value).replace(f"{folder}/", "")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "day.csv").write_text(TRACE)
    (tmp_path / "pairs.csv").write_text(PAIRS)
    (tmp_path / "questions.jsonl").write_text(QUESTIONS)
    (tmp_path / "answer.json").write_text('{"type": "object"}')
    return tmp_path


def test_a_card_without_files_needs_none(folder: Path) -> None:
    assert load(folder, "").inputs == NO_INPUTS


def test_a_trace(folder: Path) -> None:
    card = load(folder, REPLAY)
    # three rows in 2.5 s: two gaps, 0.8 req/s
    assert card.resolved["workload"]["arrivals"] == {
        "process": "trace",
        "format": "csv",
        "unit": "ms",
        "file": {
            "name": "day.csv",
            "sha256": digest_bytes(TRACE.encode()),
            "bytes": 68,
            "rows": 3,
            "left_out": 0,
            "mean_output": 7.0,
            "rate": 0.8,
            "busiest_second": 1,
            "span": 2.5,
        },
    }
    trace = card.inputs.trace(card.resolved["workload"]["arrivals"]["file"], "csv", "ms")
    assert list(trace.offsets) == [0, 1_000_000_000, 2_500_000_000]
    assert "workload.arrivals.file: day.csv (3 rows, sha256:" in render_card(card)


def test_a_slowed_down_trace_has_its_loads(folder: Path) -> None:
    over = REPLAY.replace("loads: [50 req/s]", "loads:\n  slowdown: [4, 0.5]").replace("40 ms", "1 s")
    card = load(folder, over + "claim: {at: every_load}\n")
    assert card.resolved["workload"]["slowdown"] == [4.0, 0.5]
    assert card.resolved["workload"]["loads"] == [0.2, 1.6]  # 0.8 req/s by 4 and by 0.5
    assert card.resolved["claim"]["at"] == [0.2, 1.6]
    assert card.sources["workload.loads"] == "default"


def test_a_window_may_reach_the_traces_end(folder: Path) -> None:
    over = REPLAY.replace("loads: [50 req/s]", "loads:\n  slowdown: [3]") + "claim: {at: every_load}\n"
    assert load(folder, over.replace("warmup: 0 s, measure: 40 ms", "warmup: 2500 ms, measure: 5 s"))
    assert load(folder, over.replace("warmup: 0 s, measure: 40 ms", "warmup: 1 requests, measure: 2 requests"))


def test_pairs_have_no_times(folder: Path) -> None:
    card = load(folder, "workload: {requests: {lengths: , pairs: {file: pairs.csv, format: csv}}}\n")
    pairs = card.resolved["workload"]["requests"]["pairs"]
    digest = digest_bytes(PAIRS.encode())
    facts = {"name": "pairs.csv", "sha256": digest, "bytes": 39, "rows": 2, "left_out": 0, "mean_output": 3.5}
    assert pairs == {"file": facts, "format": "csv"}
    read = card.inputs.pairs(pairs["file"], "csv")
    assert (list(read.offsets), list(read.input_tokens), list(read.output_tokens)) == ([], [100, 200], [3, 4])


def test_recorded_requests(folder: Path) -> None:
    card = load(folder, "workload: {requests: {lengths: , file: questions.jsonl}}\n")
    file = card.resolved["workload"]["requests"]["file"]
    assert file["format"] == "jsonl"
    assert file["reuse"] == "never"
    assert (file["path"]["rows"], file["path"]["left_out"], file["path"]["mean_output"]) == (2, 0, 4.5)
    recorded = card.inputs.recorded(file["path"], "jsonl", "completions")
    assert [request.prompt for request in recorded.requests] == ["Who?", "Why?"]


def test_a_json_schema(folder: Path) -> None:
    card = load(folder, "workload: {sampling: {json_schema: answer.json, ignore_eos: false}}\n", OPENAI)
    file = card.resolved["workload"]["sampling"]["json_schema"]
    assert file == {"name": "answer.json", "sha256": digest_bytes(b'{"type": "object"}'), "bytes": 18}
    assert card.inputs.json(file) == {"type": "object"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1]", "answer.json:1:1: found a list of 1; wanted a JSON Schema, which is an object"),
        (
            '{"a": 1, "a": 2}',
            "answer.json:1:1: found the key a twice in one object; wanted JSON that every reader reads alike",
        ),
        ('{\n "a": }', "answer.json:2:7: found text that is not JSON (expecting value); wanted JSON"),
        ("{} {}", "answer.json:1:4: found more after the document; wanted one JSON document"),
        ('{"minimum": "x"}', "answer.json:1:1: found x at $.minimum; wanted a JSON Schema of Draft 2020-12"),
        ('{"a":' * 9000, "answer.json:1:1: found lists or objects nested too deeply; wanted JSON of a sane depth"),
    ],
)
def test_a_json_schema_that_is_none(folder: Path, text: str, said: str) -> None:
    (folder / "answer.json").write_text(text)
    over = "workload: {sampling: {json_schema: answer.json, ignore_eos: false}}\n"
    assert refusal(folder, over, OPENAI) == said


def test_a_deep_json_schema_is_read_or_refused(folder: Path) -> None:
    """What json reads, jsonschema may be too deep for."""
    for depth in (100, 300, 900):
        (folder / "answer.json").write_text('{"not":' * depth + "{}" + "}" * depth)
        over = "workload: {sampling: {json_schema: answer.json, ignore_eos: false}}\n"
        said = "nested too deeply"
        try:
            load(folder, over, OPENAI)
        except CardError as error:
            said = str(error)
        assert "nested too deeply" in said


def test_any_change_of_a_file_changes_the_cards_digest(folder: Path) -> None:
    before = load(folder, REPLAY).digest
    (folder / "day.csv").write_text(TRACE + "\n")
    assert load(folder, REPLAY).digest != before


def test_a_file_that_changed_since_is_refused(folder: Path) -> None:
    card = load(folder, REPLAY)
    file = card.resolved["workload"]["arrivals"]["file"]
    (folder / "day.csv").write_text(TRACE.replace("3500", "4000"))
    with pytest.raises(InputError) as caught:
        card.inputs.trace(file, "csv", "ms")
    assert str(caught.value).replace(f"{folder}/", "") == (
        f"day.csv: not the file that the card was resolved with ({file['sha256']})"
    )
    (folder / "day.csv").unlink()
    with pytest.raises(
        InputError, match=r"day\.csv: found nothing to read \(No such file or directory\); wanted the card's file"
    ):
        card.inputs.trace(file, "csv", "ms")
    with pytest.raises(InputError, match=r"^day\.csv: its bytes \(sha256:[0-9a-f]{64}\) are not at hand$"):
        NO_INPUTS.trace(file, "csv", "ms")


def test_inputs_can_be_sent_to_another_process(folder: Path) -> None:
    card = load(folder, REPLAY)
    again = pickle.loads(pickle.dumps(card.inputs))
    assert again.trace(card.resolved["workload"]["arrivals"]["file"], "csv", "ms").rows == 3


class TestFolders:
    """The card that names a file decides the folder."""

    def test_of_a_card_that_is_extended(self, folder: Path) -> None:
        (folder / "sub").mkdir()
        (folder / "sub" / "over.yaml").write_text("extends: ../card.yaml\nid: over\n")
        card = load(folder, REPLAY)
        over = load_card(folder / "sub" / "over.yaml")
        assert over.resolved["workload"] == card.resolved["workload"]

    def test_one_name_for_two_files(self, folder: Path) -> None:
        (folder / "sub").mkdir()
        (folder / "sub" / "day.csv").write_text(TRACE.replace("3500", "4000"))
        load(folder, REPLAY)
        over = "extends: ../card.yaml\nworkload: {requests: {from: , pairs: {file: day.csv, format: csv}}}\n"
        (folder / "sub" / "over.yaml").write_text(over)
        with pytest.raises(CardError) as caught:
            load_card(folder / "sub" / "over.yaml")
        assert str(caught.value).replace(f"{folder}/", "") == (
            "sub/over.yaml:2:45: workload.requests.pairs.file: found day.csv for two files; wanted a name for each "
            "(a run keeps a card's files under the names that it gives them)"
        )
        (folder / "sub" / "day.csv").write_text(TRACE)
        assert load_card(folder / "sub" / "over.yaml").resolved["workload"]["requests"]["pairs"]["file"]["rows"] == 3

    def test_a_bundle_says_where_they_are(self, folder: Path) -> None:
        card = load(folder, REPLAY)
        bundle = folder / "bundle"
        bundle.mkdir()
        (folder / "day.csv").rename(bundle / "0123")
        (bundle / "card.yaml").write_text(card.standalone)
        again = load_card(bundle / "card.yaml", files={"day.csv": bundle / "0123"})
        assert again.resolved == card.resolved
        assert again.inputs.trace(card.resolved["workload"]["arrivals"]["file"], "csv", "ms").rows == 3


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("none.csv", "found none.csv, which cannot be read (No such file or directory)"),
        ("day.csv/x", "found day.csv/x, which cannot be read (Not a directory)"),
        ("../", "found ../, which is no file"),
        ("pipe", "found pipe, which is no file"),
        ('"a\\0b"', r"found 'a\x00b', which cannot be read (not a path)"),
    ],
)
def test_a_file_that_is_none(folder: Path, name: str, said: str) -> None:
    os.mkfifo(folder / "pipe")
    told = refusal(folder, REPLAY.replace("day.csv", name))
    wanted = "wanted a file, as a path relative to the card that names it"
    assert told == f"card.yaml:3:36: workload.arrivals.file: {said}; {wanted}"


def test_a_file_without_its_format_is_not_read(folder: Path) -> None:
    """What would be right for it depends on the key that is missing or wrong: that alone is said."""
    over = REPLAY.replace("format: csv", "format: parquet")
    assert refusal(folder, over) == (
        "card.yaml:3:53: workload.arrivals.format: found parquet; wanted mooncake, azure, burstgpt or csv"
    )
    assert refusal(folder, REPLAY.replace("unit: ms", "unit: min")) == (
        "card.yaml:3:64: workload.arrivals.unit: found min; wanted s, ms, us or ns"
    )

"""A tokenizer's files on a card: found, hashed, and read from a bundle by the names that the card gives them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from benchcard.schema.card import load_card

TOKENIZER = json.dumps({"model": {"type": "WordLevel", "vocab": {"a": 0}}, "added_tokens": [{"content": "</s>"}]})
CONFIG = json.dumps({"eos_token": "</s>", "chat_template": [{"name": "default", "template": "x"}]})
FILES = {"tokenizer.json": TOKENIZER, "tokenizer_config.json": CONFIG, "chat_template.jinja": "{{ messages }}"}
CARD = """\
card: 1
kind: baseline
id: tokens
decision: {{question: "?", owner: tests, budget: 30 min}}
system: {{engine: {{kind: openai}}, model: {{name: m, tokenizer: {tokenizer}}}}}
arms: {{baseline: {{server: {{url: "http://a"}}}}}}
workload:
  {{arrivals: poisson, loads: [1 req/s], endpoint: {endpoint}, requests: {{lengths: {{input: 64, output: 64}}}}}}
"""


def card_in(folder: Path, tokenizer: str, endpoint: str = "chat", **files: str) -> Path:
    (folder / "model").mkdir(parents=True)
    for name, text in files.items():
        (folder / "model" / name).write_text(text)
    (folder / "card.yaml").write_text(CARD.format(tokenizer=tokenizer, endpoint=endpoint))
    return folder / "card.yaml"


def facts(name: str, **more: object) -> dict[str, object]:
    text = FILES[Path(name).name].encode()
    return {"name": name, "sha256": f"sha256:{hashlib.sha256(text).hexdigest()}", "bytes": len(text), **more}


def test_a_folder_with_all_three(tmp_path: Path) -> None:
    card = load_card(card_in(tmp_path, "./model", **FILES))
    model = card.resolved["system"]["model"]
    assert model["tokenizer"] == facts("./model/tokenizer.json", vocabulary=2)
    assert model["tokenizer_config"] == facts("./model/tokenizer_config.json", has_chat_template=True)
    assert model["chat_template"] == facts("./model/chat_template.jinja")
    assert card.inputs.data(model["chat_template"]) == b"{{ messages }}"
    assert set(card.inputs.paths.values()) == {tmp_path / "model" / name for name in FILES}
    assert card.sources["system.model.tokenizer"] == "card"
    assert card.sources["system.model.chat_template"] == "default"


def test_a_file_and_what_lies_beside_it(tmp_path: Path) -> None:
    only = {name: FILES[name] for name in ("tokenizer.json", "tokenizer_config.json")}
    model = load_card(card_in(tmp_path, "model/tokenizer.json", **only)).resolved["system"]["model"]
    assert model["tokenizer"]["name"] == "model/tokenizer.json"
    assert model["tokenizer_config"]["name"] == "model/tokenizer_config.json"
    assert model["chat_template"] is None


def test_completions_have_no_template(tmp_path: Path) -> None:
    model = load_card(card_in(tmp_path, "model", "completions", **FILES)).resolved["system"]["model"]
    assert model["tokenizer"]["vocabulary"] == 2
    assert model["tokenizer_config"] is model["chat_template"] is None


def test_an_edited_file_is_another_card(tmp_path: Path) -> None:
    one = load_card(card_in(tmp_path / "1", "model", **FILES))
    other = load_card(card_in(tmp_path / "2", "model", **FILES | {"chat_template.jinja": "{{ messages }} "}))
    assert one.digest != other.digest


def test_a_bundle_has_them_under_their_digests(tmp_path: Path) -> None:
    """There they do not lie beside the card: they are found by name."""
    first = load_card(card_in(tmp_path / "before", "../before/model", **FILES))
    model = first.resolved["system"]["model"]
    files = {
        model[key]["name"]: first.inputs.paths[model[key]["sha256"]] for key in model if "name" in (model[key] or "")
    }
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "card.yaml").write_text(first.text)
    again = load_card(tmp_path / "a" / "b" / "card.yaml", files=files)
    assert again.resolved == first.resolved
    assert again.digest == first.digest


def test_words_and_unknowns_are_no_files(tmp_path: Path) -> None:
    for word in ("words", '"unknown: nobody told"'):
        card = load_card(card_in(tmp_path / word[:3].strip('"'), word))
        assert not card.inputs.paths

"""From a model's files to the gate: one byte of the weights, another tokenizer, another template are each named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from benchcard.analysis.identity import forbidden, gate
from benchcard.analysis.identity_words import forbidden_texts
from benchcard.analysis.read import Bundle
from benchcard.runner.files import write_json
from benchcard.runner.identity.digests import Digests
from benchcard.runner.identity.model import Served, model_fields
from benchcard.schema.card import load_card

from .cards import small_card


def model(folder: Path) -> Path:
    """A model's files, as far as a digest cares."""
    folder.mkdir()
    (folder / "model-00001-of-00002.safetensors").write_bytes(bytes(range(256)) * 64)
    (folder / "model-00002-of-00002.safetensors").write_bytes(bytes(256) * 64)
    (folder / "tokenizer.json").write_text('{"model": {"vocab": {"a": 0, "b": 1}}}')
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    (folder / "generation_config.json").write_text('{"temperature": 0.6}')
    (folder / "config.json").write_text('{"num_hidden_layers": 30}')
    return folder


def one_byte(folder: Path) -> None:
    file = folder / "model-00002-of-00002.safetensors"
    content = bytearray(file.read_bytes())
    content[8191] ^= 1
    file.write_bytes(content)


def other_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"model": {"vocab": {"b": 0, "a": 1}}}')


def other_template(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("{{ messages[-1] }}")


def other_defaults(folder: Path) -> None:
    (folder / "generation_config.json").write_text('{"temperature": 1.0}')


def judged(tmp_path: Path, change: Callable[[Path], None] | None) -> Bundle:
    """The identities of two arms that serve one path, whose files were changed in between; with one cache of digests,
    which must not hide the change."""
    card = load_card(small_card(tmp_path)).resolved
    digests = Digests(tmp_path / "digests.json")
    for arm in ("baseline", "candidate"):
        folder = tmp_path / "model" if arm == "candidate" else model(tmp_path / "model")
        if arm == "candidate" and change is not None:
            change(folder)
        fields = model_fields(Served(str(folder)), digests)
        digests.keep()
        path = tmp_path / "run" / "identity" / f"{arm}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"identity_version": 2, "arm": arm, "fields": fields})
    return Bundle(tmp_path / "run", card, {}, (), ())


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (one_byte, {"model.weights_sha256.model-00002-of-00002.safetensors"}),
        (other_tokenizer, {"model.tokenizer_files.tokenizer.json"}),
        (other_template, {"model.chat_template_sha256"}),
        (other_defaults, {"model.generation_config_sha256"}),
        (None, set()),
    ],
)
def test_what_changed_is_named(tmp_path: Path, change: Callable[[Path], None] | None, names: set[str]) -> None:
    rows = forbidden(gate(judged(tmp_path, change)))
    assert {row["field"] for row in rows} == names
    assert {row["class"] for row in rows} <= {"must_match"}
    for text in forbidden_texts(rows):
        assert text.startswith(
            f"the arms differ in more than the card declares or accepts: {min(names)} (baseline sha256:"
        )

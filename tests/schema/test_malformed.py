"""Malformed cards: every problem of each, located, in the words a person reads (the texts were read one by one)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchcard.schema.card import load_card
from benchcard.schema.errors import CardError, InputError

MALFORMED = Path(__file__).parent / "malformed"
NAMES = sorted(path.stem for path in MALFORMED.glob("*.yaml"))


def problems_of(name: str) -> str:
    with pytest.raises(CardError) as caught:
        load_card(f"{name}.yaml")
    assert caught.value.exit_code == 2
    return str(caught.value) + "\n"


@pytest.mark.parametrize("name", NAMES)
def test_every_problem_is_found_and_located(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(MALFORMED)
    said = problems_of(name)
    assert said == (MALFORMED / f"{name}.expected.txt").read_text(encoding="utf-8")
    for line in said.splitlines():
        assert re.match(r"[^:]+:\d+:\d+: .*found .+; wanted .+", line)


def test_there_are_enough_of_them() -> None:
    assert len(NAMES) >= 20


def test_secrets_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(MALFORMED)
    for name in ("secrets", "secrets-at-launch", "secrets-within", "places", "places-not-told-apart"):
        assert "hunter2" in (MALFORMED / f"{name}.yaml").read_text(encoding="utf-8")
        assert "hunter2" not in problems_of(name)


SECRET_LINES = """\
api_key: 0xhunter2 : x
api_key: [hunter2
api_key: *hunter2
api_key: !hunter2 x
api_key: "hunter2
arms: {baseline: {server: {api_key: hunter2}}}
arms: {baseline: {server: {api_key: {hunter2: x}}}}
arms: {baseline: {server: {api_key: {env: hunter2-or-so}}}}
arms: {baseline: {server: {api_key: {file: [hunter2]}, url: [hunter2]}}}
arms: {baseline: {server: {url: "https://me:hunter2@[x"}}}
arms: {baseline: {server: {url: "https://me:hunter2@host:port/v1"}}}
arms: {baseline: {server: {url: "https://host/v1#hunter2"}}}
arms: {baseline: {server: {token: hunter2}}}
arms: {baseline: {env: {PASSWORD: [hunter2]}}}
system: {launch: {env: {OPENAI_API_KEY: [hunter2], HF_TOKEN: hunter2}}}
system: {engine: {kind: vllm}, flags: {api_key: hunter2}}
system: {launch: {command: [serve, --api-key=hunter2, --hf-token, hunter2]}}
"""


@pytest.mark.parametrize("line", SECRET_LINES.splitlines())
def test_no_way_of_writing_a_secret_shows_it(line: str, tmp_path: Path) -> None:
    path = tmp_path / "card.yaml"
    path.write_text(f"card: 1\n{line}\n", encoding="utf-8")
    with pytest.raises(CardError) as caught:
        load_card(path)
    assert "hunter2" not in str(caught.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(InputError, match=r"nowhere\.yaml: found nothing to read \(No such file or directory\)"):
        load_card("nowhere.yaml")


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found nothing to read"):
        load_card(tmp_path)


def test_a_file_of_an_insane_size(tmp_path: Path) -> None:
    path = tmp_path / "card.yaml"
    path.write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(CardError, match="found a file of more than 1,048,576 bytes; wanted a card of a sane size"):
        load_card(path)


def test_many_values_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "card.yaml"
    path.write_text("card: 1\nloads: [" + "1," * 30_000 + "1]\n", encoding="utf-8")
    with pytest.raises(CardError, match="more than 20,000 values"):
        load_card(path)


def test_a_chain_of_cards_is_bounded(tmp_path: Path) -> None:
    for index in range(12):
        (tmp_path / f"{index}.yaml").write_text(f"card: 1\nextends: {index + 1}.yaml\n", encoding="utf-8")
    with pytest.raises(CardError, match="found a chain of 9 cards; wanted at most 8"):
        load_card(tmp_path / "0.yaml")


def test_an_absolute_extends_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "card.yaml"
    path.write_text("card: 1\nextends: /etc/card.yaml\n", encoding="utf-8")
    with pytest.raises(CardError, match="wanted a path relative to this card"):
        load_card(path)

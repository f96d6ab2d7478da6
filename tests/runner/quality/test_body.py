"""The requests of a gate, byte for byte what is asked and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from benchcard.runner.quality.body import GateBody
from benchcard.runner.tokens.words import PLAIN

GREEDY = {"gate": "greedy_divergence", "output_tokens": 24}


def body(row: dict[str, Any], *, engine: str = "vllm", chat: bool = False, eos: bool = False, **more: Any) -> GateBody:
    card = {
        "system": {"engine": {"kind": engine}},
        "workload": {"endpoint": "chat" if chat else "completions", "sampling": {"ignore_eos": eos}},
    }
    return GateBody(card, row, "m", PLAIN, **more)


def test_a_greedy_completion() -> None:
    made = body(GREEDY)
    assert made.path() == "/completions"
    assert json.loads(made.whole([5, 6])) == {
        "model": "m", "prompt": [5, 6], "max_tokens": 24, "temperature": 0.0, "ignore_eos": True, "min_tokens": 24,
        "return_token_ids": True,
    }  # fmt: skip
    assert json.loads(made.before([5, 6])) == {"model": "m", "prompt": [5, 6], "max_tokens": 1, "temperature": 0.0}


@pytest.mark.parametrize(("eos", "fixed"), [(True, True), (False, False)])
def test_a_server_of_somebody_elses_is_sent_what_the_card_sends(eos: bool, fixed: bool) -> None:
    asked = json.loads(body(GREEDY, engine="openai", eos=eos, token_ids=False).whole("text"))
    assert ("ignore_eos" in asked, "min_tokens" in asked) == (fixed, fixed)
    assert "return_token_ids" not in asked
    assert asked["prompt"] == "text"


def test_lengths_are_the_models_own() -> None:
    """Whatever the card's timed requests do."""
    asked = json.loads(body({"gate": "mean_output_tokens", "output_tokens": 256}, eos=True).whole([5]))
    assert not {"ignore_eos", "min_tokens"} & asked.keys()
    assert asked["max_tokens"] == 256


@pytest.mark.parametrize(
    ("prompt", "messages"),
    [
        ([5, 6], [{"role": "user", "content": "w5 w6"}]),
        ("hi", [{"role": "user", "content": "hi"}]),
        ([{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}],
         [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}]),
    ],
)  # fmt: skip
def test_chats(prompt: Any, messages: Any) -> None:
    made = body(GREEDY, chat=True)
    assert made.path() == "/chat/completions"
    assert json.loads(made.whole(prompt))["messages"] == json.loads(made.before(prompt))["messages"] == messages


def test_replies_are_held_to_their_schema() -> None:
    schema = {"type": "object"}
    made = body({"gate": "conformance", "output_tokens": 64}, chat=True, schema=schema)
    wanted = {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}
    assert json.loads(made.whole("x"))["response_format"] == wanted
    assert "response_format" not in json.loads(made.before("x"))

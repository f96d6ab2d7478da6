"""The card's tokenizer against the server's count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from benchcard.runner.engines.probe import Endpoint, Probe
from benchcard.runner.identity.observe import tokenizer_facts
from benchcard.runner.plan.exact import some_prompts
from benchcard.runner.tokens.server import PROMPTS, check_server
from benchcard.runner.tokens.words import PLAIN, Words
from benchcard.schema.errors import SystemUnderTestError

from .made import byte_level, card_in, word_level
from .test_words import plan_of


class Server:
    """Answers every question with one reply, and keeps what was asked."""

    def __init__(self, status: int, body: Any) -> None:
        self.asked: list[dict[str, Any]] = []
        self.paths: set[str] = set()
        self._reply = httpx.Response(status, json=body)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(json.loads(request.content))
        self.paths.add(request.url.path)
        return self._reply

    def probe(self) -> Probe:
        probe = Probe(Endpoint("http://server/v1", None))
        probe.close()
        probe._http = httpx.Client(transport=httpx.MockTransport(self))
        return probe


def asked(path: Path, server: Server) -> str | None:
    plan = plan_of(path)
    words = Words.from_card(plan.card, plan.inputs)
    return check_server(words, some_prompts(plan, PROMPTS), "m", "baseline", server.probe())


def test_a_server_that_counts_alike(tmp_path: Path) -> None:
    server = Server(200, {"count": 40, "max_model_len": 4096, "tokens": []})
    assert asked(card_in(tmp_path, byte_level()), server) is None
    assert server.paths == {"/tokenize"}
    assert len(server.asked) == PROMPTS
    for body in server.asked:
        (message,) = body.pop("messages")
        assert body == {"model": "m", "add_generation_prompt": True}
        assert (message["role"], len(message["content"].split())) == ("user", 32)


def test_a_server_that_counts_otherwise_fails_the_arm(tmp_path: Path) -> None:
    with pytest.raises(SystemUnderTestError) as caught:
        asked(card_in(tmp_path, byte_level()), Server(200, {"count": 47}))
    assert str(caught.value) == (
        "baseline: the server makes 47 tokens of the prompt of request 0 of block 1 at load point 1, "
        "model/tokenizer.json makes 40; the card's tokenizer (or its chat template) is not the one that the server uses"
    )


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (404, {"detail": "Not Found"}, "the server has no /tokenize"),
        (400, {"error": "messages?"}, "/tokenize answered HTTP 400 and no count"),
        (200, {"tokens": [1]}, "/tokenize answered HTTP 200 and no count"),
        (200, [1, 2], "/tokenize gave no answer (AttributeError)"),
    ],
)
def test_a_server_that_does_not_say(tmp_path: Path, status: int, body: Any, why: str) -> None:
    path = card_in(tmp_path, byte_level())
    assert asked(path, Server(status, body)) == why
    fields = tokenizer_facts(plan_of(path).card, why)
    assert fields["model.tokenizer_check"] == {"value": None, "source": "unknown", "why": why}


def test_completions_are_asked_about_the_text_of_their_tokens(tmp_path: Path) -> None:
    """Forty made-up words; the server's own special tokens are in its count, and in ours."""
    path = card_in(tmp_path, word_level(size=30_000), endpoint="completions")
    server = Server(200, {"count": 40})
    assert asked(path, server) is None
    assert [len(body["prompt"].split()) for body in server.asked] == [40] * PROMPTS


def test_a_card_without_a_tokenizer_asks_nothing() -> None:
    server = Server(500, {})
    assert check_server(PLAIN, [], "m", "baseline", server.probe()) is None
    assert tokenizer_facts({"system": {"model": {"tokenizer": "words"}}}, None) == {}
    assert not server.asked


def test_a_plan_of_recorded_text_says_that_nothing_was_compared(tmp_path: Path) -> None:
    plan = plan_of(card_in(tmp_path, byte_level()))
    server = Server(200, {"count": 40})
    why = check_server(Words.from_card(plan.card, plan.inputs), [], "m", "baseline", server.probe())
    assert why == "the plan holds recorded text only, and no prompt of it was sent to /tokenize"
    assert not server.asked

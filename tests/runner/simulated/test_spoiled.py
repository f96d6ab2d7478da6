"""Declared faults of the outputs themselves: replies cut short, replies that hold other tokens."""

from __future__ import annotations

import json

import pytest
from benchcard.runner.engines.simulated.misbehave import parse_misbehaviour
from benchcard.runner.engines.simulated.player import Reply
from benchcard.runner.engines.simulated.render import Head
from benchcard.runner.engines.simulated.tokens import encode
from benchcard.schema.errors import InputError

HEAD = Head(False, "cmpl-1", 1, "m", "f", token_ids=True)


class Nowhere:
    """A connection that nobody reads."""

    def send(self, data: bytes) -> None: ...
    def send_reply(self, body: bytes) -> None: ...
    def reply_ended(self) -> None: ...


def reply(spec: str, prompt: list[int], limit: int = 10) -> dict:
    """The whole reply of an engine with these faults."""
    made = Reply(Nowhere(), HEAD, "1", encode(prompt), limit, stream=False)
    made.spoil(parse_misbehaviour(spec))
    body = json.loads(made.render(made.limit - 1))
    return {**body["choices"][0], "tokens": body["usage"]["completion_tokens"]}


@pytest.mark.parametrize(("limit", "written"), [(10, 5), (11, 5), (1, 1), (2, 1)])
def test_cut_short(limit: int, written: int) -> None:
    whole, cut = reply("", [1, 2], limit), reply("cut=0.5", [1, 2], limit)
    assert cut["token_ids"] == whole["token_ids"][:written]
    assert cut["tokens"] == written
    assert (whole["finish_reason"], cut["finish_reason"]) == ("length", "stop" if written < limit else "length")


def test_other_tokens_for_a_share_of_all_prompts() -> None:
    """Of 2000 prompts 200 are expected, with a standard deviation of 13; the same ones each time."""
    prompts = [[k, 7] for k in range(2000)]
    whole = [reply("", prompt, 4)["token_ids"] for prompt in prompts]
    altered = [reply("alter=0.1", prompt, 4)["token_ids"] for prompt in prompts]
    other = [k for k in range(2000) if whole[k] != altered[k]]
    assert 140 < len(other) < 260
    assert all(altered[k] == reply("alter=0.1", prompts[k], 4)["token_ids"] for k in other[:10])
    assert reply("alter=1", [1], 4)["token_ids"] != reply("", [1], 4)["token_ids"]
    assert reply("alter=0", [1], 4)["token_ids"] == reply("", [1], 4)["token_ids"]


@pytest.mark.parametrize("spec", ["cut=0", "cut=1.5", "cut=-1", "cut=x", "alter=2", "alter=-0.1", "alter=nan", "cut"])
def test_shares_that_are_none(spec: str) -> None:
    with pytest.raises(InputError, match=r"misbehave: found .*; wanted e\.g\. (cut=0\.5|alter=0\.1) \("):
        parse_misbehaviour(spec)

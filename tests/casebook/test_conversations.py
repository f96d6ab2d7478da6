"""Casebook 36: multi-turn. The rate holds after turn 1, no conversation is dropped unsaid, every history is right."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from benchcard.runner.client.turns import pack_turn, unpack_turn
from benchcard.runner.client.wire import Body
from benchcard.runner.plan.requests import PlannedRequest
from hypothesis import given
from hypothesis import strategies as st

from ..runner.client.drive import MS, drive
from ..runner.client.scripted import DONE, FIN, HEAD, ScriptedServer, chunked, content, event, stream, usage

CARD: dict[str, Any] = {
    "workload": {
        "endpoint": "chat",
        "sampling": {"temperature": 0.0, "ignore_eos": False, "seed": None},
        "client": {"token_counts": "chunk"},
        "requests": {"conversations": {"turns": 5}},
    }
}
WINDOW = {"warmup": {"seconds": 0.0}, "measure": {"seconds": 3.0}, "drain": 1.0}


def turns(count: int, conversations: int, clients: int | None, think_ms: float = 0) -> list[PlannedRequest]:
    """`count` turns in each conversation; open loop: a conversation each 20 ms."""
    return [
        PlannedRequest(
            c * count + t, "measure", None if t or clients else c * 20 * MS, None if clients is None else c % clients,
            None, 0, 5, 8, conversation=c, turn=t, turns=count, think_ns=round(think_ms * MS),
        )
        for c in range(conversations)
        for t in range(count)
    ]  # fmt: skip


def records(planned: list[PlannedRequest], card: dict[str, Any] = CARD) -> list[bytes]:
    """What each turn says: `c3 t1`, or the ids [300, 1]."""
    chat = card["workload"]["endpoint"] == "chat"
    body = Body(card, "m")
    said: list[Any] = [
        f"c{r.conversation} t{r.turn}" if chat else [100 * (r.conversation or 0), r.turn] for r in planned
    ]
    return [pack_turn(f"t-{r.index}", *body.parts(own, 8)) for r, own in zip(planned, said, strict=True)]


def answers(n: int) -> list[Any]:
    """Reply n is `a<n>`, in two chunks."""
    return stream((0, content("a")), (2, content(str(n)) + FIN + usage(2) + DONE))


@pytest.mark.parametrize("clients", [None, 3, 10])
@pytest.mark.parametrize("workers", [1, 2])
def test_36_every_turn_is_sent_and_holds_what_was_said(tmp_path: Path, clients: int | None, workers: int) -> None:
    """10 conversations x 5 turns: 50 posts, the history right in each: what the server itself answered, word by word.
    In a closed loop the load goes on, uncounted, with further conversations."""
    planned = turns(5, 10 if clients is None else 30, clients, think_ms=10)
    window = WINDOW if clients is None else {"warmup": {"requests": 0}, "measure": {"requests": 50}, "drain": 1.0}
    with ScriptedServer(answers) as server:
        rows, _ = drive(
            server.port, tmp_path, concurrency=clients, window=window, planned=planned, records=records(planned),
            conversations=True, workers=workers,
        )  # fmt: skip
        posts = [json.loads(body)["messages"] for body in server.requests]
    counted = [row for row in rows if row["phase"] == "measure"]
    assert len(counted) == 50
    assert {row["outcome"] for row in counted} == {"ok"}
    assert len(posts) == len(rows)
    assert clients is not None or len(rows) == 50
    # The server numbers its answers in the order of the posts; each conversation must have heard its own.
    heard: dict[str, list[str]] = defaultdict(list)
    for number, messages in enumerate(posts):
        conversation = messages[0]["content"].split()[0]
        t = len(heard[conversation])
        expected = []
        for before, answer in enumerate(heard[conversation]):
            expected.append({"role": "user", "content": f"{conversation} t{before}"})
            expected.append({"role": "assistant", "content": answer})
        assert messages == [*expected, {"role": "user", "content": f"{conversation} t{t}"}]
        heard[conversation].append(f"a{number}")
    assert clients is not None or {len(said) for said in heard.values()} == {5}


def test_36_a_later_turn_is_due_when_its_user_has_thought(tmp_path: Path) -> None:
    planned = turns(3, 4, None, think_ms=40)
    with ScriptedServer(answers) as server:
        rows, load = drive(
            server.port, tmp_path, window=WINDOW, planned=planned, records=records(planned), conversations=True
        )
    for row in rows:
        before = rows[row["index"] - 1]
        due = before["end"] + 40 * MS if row["turn"] else load.load_start + row["conversation"] * 20 * MS
        assert row["scheduled"] == due
        assert row["sent"] >= row["scheduled"]
        assert row["phase"] == "measure"
    assert [row["turns"] for row in rows] == [3] * 12


def test_36_token_ids_come_back_as_they_were_sent(tmp_path: Path) -> None:
    """Completions: the history holds the server's own ids of its answers."""
    card = {"workload": {**CARD["workload"], "endpoint": "completions"}}
    planned = turns(3, 2, None)

    def ids(n: int) -> list[Any]:
        def chunk(token: int, reason: str | None) -> bytes:
            return event({"choices": [{"index": 0, "text": "x", "token_ids": [token], "finish_reason": reason}]})

        return stream((0, chunk(7000 + n, None)), (1, chunk(8000 + n, "length") + usage(2) + DONE))

    with ScriptedServer(ids) as server:
        drive(
            server.port, tmp_path, window=WINDOW, planned=planned, records=records(planned, card), conversations=True,
            endpoint="completions",
        )  # fmt: skip
        bodies = [json.loads(body) for body in server.requests]
    assert len(bodies) == 6
    assert all(body["return_token_ids"] is True for body in bodies)
    heard: dict[int, list[int]] = {}
    for number, body in enumerate(bodies):
        conversation = body["prompt"][0]
        history = heard.setdefault(conversation, [])
        own = body["prompt"][len(history) :]
        assert body["prompt"][: len(history)] == history
        assert (own[0], len(own)) == (conversation, 2)
        heard[conversation] = [*body["prompt"], 7000 + number, 8000 + number]


@pytest.mark.parametrize("clients", [None, 2])
def test_36_a_conversation_whose_answer_failed_ends_there(tmp_path: Path, clients: int | None) -> None:
    """The failed turn is a row; the turns after it were never due, and no history was made up for them."""
    planned = turns(3, 4 if clients is None else 30, clients)
    window = WINDOW if clients is None else {"warmup": {"requests": 0}, "measure": {"requests": 30}, "drain": 1.0}
    number_of_failure = 5

    def script(n: int) -> list[Any]:
        return [(0, HEAD + chunked(content("a"))), (1, None)] if n == number_of_failure else answers(n)

    with ScriptedServer(script) as server:
        rows, _ = drive(
            server.port, tmp_path, concurrency=clients, window=window, planned=planned, records=records(planned),
            conversations=True,
        )  # fmt: skip
        posts = [json.loads(body)["messages"] for body in server.requests]
    (failed,) = [row for row in rows if row["outcome"] == "truncated"]
    after = [row for row in rows if row["conversation"] == failed["conversation"] and row["turn"] > failed["turn"]]
    assert not after
    missing = failed["turns"] - failed["turn"] - 1
    assert len(posts) == len(rows)
    assert clients is not None or len(rows) == 12 - missing
    assert sum(row["phase"] == "measure" for row in rows) == (12 - missing if clients is None else 30)


NOT_STREAMED = json.dumps({"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}).encode()


@pytest.mark.parametrize(
    ("endpoint", "reply", "wanted"),
    [
        # no token: a failure of its own, and no answer to go on from
        ("chat", stream((0, content("") + FIN + usage(0) + DONE)), "no_token"),
        ("chat", [(0, b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
                   % (len(NOT_STREAMED), NOT_STREAMED))], "stream_error"),
        # a text, but not the ids that were asked for
        (
            "completions",
            stream((0, event({"choices": [{"text": "a", "finish_reason": "stop"}]}) + DONE)),
            "stream_error",
        ),
    ],
)  # fmt: skip
def test_36_an_answer_that_cannot_be_said_again_ends_its_conversation_by_name(
    tmp_path: Path, endpoint: str, reply: Any, wanted: str
) -> None:
    card = {"workload": {**CARD["workload"], "endpoint": endpoint}}
    planned = turns(3, 2, None)
    with ScriptedServer(lambda _: reply) as server:
        rows, _ = drive(
            server.port, tmp_path, window=WINDOW, planned=planned, records=records(planned, card), conversations=True,
            endpoint=endpoint,
        )  # fmt: skip
    assert [(row["conversation"], row["turn"], row["outcome"]) for row in rows] == [(0, 0, wanted), (1, 0, wanted)]
    assert all(("cannot go on" in (row["error"] or "")) == (wanted == "stream_error") for row in rows)


@given(st.text(), st.binary(), st.binary(), st.binary())
def test_a_turn_is_read_as_it_was_written(name: str, before: bytes, own: bytes, after: bytes) -> None:
    name = name.encode("utf-8", "replace").decode()
    assert unpack_turn(pack_turn(name, before, own, after)) == (name, before, own, after)

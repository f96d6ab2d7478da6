"""Conversations: a later turn's request is made when the answer before is there, for it holds everything said so far.

What a turn says itself is planned; its history is kept here as it will be sent: token ids for completions (the server's
own ids of its answers, so that no text is tokenized twice), messages for chat. A conversation whose answer failed ends
there: what it would have said next, nobody knows.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Sequence

from ..plan.requests import PlannedRequest
from .attempt import Attempt
from .reply import events_of
from .requests import OpenRequests
from .wire import Target, request_rest

#: why a conversation ends whose answer came
NO_IDS = "the reply tells no token ids (return_token_ids), so its conversation cannot go on"
_HEADER = struct.Struct("<III")


def pack_turn(request_id: str, before: bytes, own: bytes, after: bytes) -> bytes:
    """A turn as the request file holds it: its id, and its body in three parts, with the history's place after the
    first."""
    name = request_id.encode()
    return _HEADER.pack(len(name), len(before), len(own)) + name + before + own + after


def unpack_turn(record: bytes) -> tuple[str, bytes, bytes, bytes]:
    """The inverse of pack_turn."""
    sizes = _HEADER.unpack_from(record)
    parts, at = [], _HEADER.size
    for size in sizes:
        parts.append(record[at : at + size])
        at += size
    return parts[0].decode(), parts[1], parts[2], record[at:]


class Conversations:
    """A worker's conversations: makes the requests of their turns and takes in the answers."""

    def __init__(self, target: Target, requests: OpenRequests, planned: Sequence[PlannedRequest], chat: bool) -> None:
        self._target = target
        self._requests = requests
        self._planned = planned
        self._answer: Callable[[Sequence[dict[str, object]]], bytes | None] = message_of if chat else token_ids_of
        # What was said so far, piece by piece, by conversation.
        self._said: dict[int | None, list[bytes]] = {}

    def request(self, index: int) -> bytes:
        """The request of a turn, less what every request begins with."""
        request_id, before, own, after = unpack_turn(self._requests[index])
        conversation = self._planned[index].conversation
        history = self._said.get(conversation, [])
        return request_rest(self._target, request_id, before + b",".join([*history, own]) + after)

    def take_in(self, attempt: Attempt) -> None:
        """Keep what an attempt that has ended said and was answered, for the turns to come. A whole answer that cannot
        be said again is a fault of the reply, and the attempt says so."""
        planned = self._planned[attempt.index]
        conversation = planned.conversation
        if conversation is None or planned.turn is None or planned.turns is None or planned.turn + 1 == planned.turns:
            self._said.pop(conversation, None)
            return
        choices = list(_choices(attempt))
        finished = any(isinstance(choice.get("finish_reason"), str) for choice in choices)
        answer = self._answer(choices) if finished else None
        if answer is None:
            self._said.pop(conversation, None)
            if finished:
                attempt.fault, attempt.error = "stream_error", NO_IDS
            return
        _, _, own, _ = unpack_turn(self._requests[attempt.index])
        self._said.setdefault(conversation, []).extend((own, answer))

    def goes_on(self, attempt: Attempt) -> bool:
        """Whether the conversation of an attempt that was taken in can go on, if it has another turn."""
        return self._planned[attempt.index].conversation in self._said


def token_ids_of(choices: Sequence[dict[str, object]]) -> bytes | None:
    """The token ids of a whole answer, as a server tells them that was asked with return_token_ids: `12,5,7`. None if
    it told none."""
    parts = [part for choice in choices if isinstance(part := choice.get("token_ids"), list)]
    ids = [id_ for part in parts for id_ in part if isinstance(id_, int) and not isinstance(id_, bool)]
    return ",".join(map(str, ids)).encode() if ids else None


def message_of(choices: Sequence[dict[str, object]]) -> bytes:
    """A whole answer as a message, its reasoning left out as chat templates want it."""
    deltas = [delta for choice in choices if isinstance(delta := choice.get("delta"), dict)]
    content = "".join(text for delta in deltas if isinstance(text := delta.get("content"), str))
    return json.dumps({"role": "assistant", "content": content}, separators=(",", ":")).encode()


def _choices(attempt: Attempt) -> Iterator[dict[str, object]]:
    if attempt.fault is not None or attempt.status != 200:
        return
    for document in events_of(attempt.times, attempt.reads):
        for choice in document.get("choices") or []:
            if isinstance(choice, dict):
                yield choice

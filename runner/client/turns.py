"""Conversations: a later turn's request is made when the answer before is there, for it holds everything said so far.

What a turn says itself is planned; its history is kept here as it will be sent: token ids for completions (the server's
own ids of its answers, so that no text is tokenized twice), messages for chat. A conversation whose answer failed ends
there: what it would have said next, nobody knows.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence

from ..plan.requests import PlannedRequest
from .attempt import Attempt
from .outcome import outcome
from .reply import Reply, parse_reply
from .requests import OpenRequests
from .wire import Target, request_rest

#: why a conversation ends whose answer came
UNSAYABLE = (
    "the reply does not tell its answer so that it can be said again (in a stream; completions: with token ids, "
    "return_token_ids), so its conversation cannot go on"
)
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
        self._answer: Callable[[Reply], bytes | None] = message_of if chat else token_ids_of
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
        reply = parse_reply(attempt.times, attempt.reads)
        ok = outcome(attempt, reply)[0] == "ok"
        answer = self._answer(reply) if ok else None
        if answer is None:
            self._said.pop(conversation, None)
            if ok:
                attempt.fault, attempt.error = "stream_error", UNSAYABLE
            return
        _, _, own, _ = unpack_turn(self._requests[attempt.index])
        self._said.setdefault(conversation, []).extend((own, answer))

    def goes_on(self, attempt: Attempt) -> bool:
        """Whether the conversation of an attempt that was taken in can go on, if it has another turn."""
        return self._planned[attempt.index].conversation in self._said


def token_ids_of(reply: Reply) -> bytes | None:
    """The token ids of an answer, as a server tells them that was asked with return_token_ids: `12,5,7`. None if it
    told none."""
    return ",".join(map(str, reply.token_ids)).encode() if reply.token_ids else None


def message_of(reply: Reply) -> bytes | None:
    """An answer as a message, its reasoning left out as chat templates want it. None if it was not streamed."""
    if not reply.streamed:
        return None
    message = {"role": "assistant", "content": "".join(reply.answer)}
    return json.dumps(message, separators=(",", ":")).encode()

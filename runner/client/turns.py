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
        self._answer: Callable[[Attempt], bytes | None] = message_of if chat else token_ids_of
        # What was said so far, piece by piece, by conversation.
        self._said: dict[int, list[bytes]] = {}

    def request(self, index: int) -> bytes:
        """The request of a turn, less what every request begins with."""
        request_id, before, own, after = unpack_turn(self._requests[index])
        conversation = self._planned[index].conversation
        history = self._said.get(conversation, []) if conversation is not None else []
        return request_rest(self._target, request_id, before + b",".join([*history, own]) + after)

    def goes_on(self, attempt: Attempt) -> bool:
        """Take in an attempt that has ended; whether the conversation's next turn, if it has one, can be said."""
        planned = self._planned[attempt.index]
        conversation = planned.conversation
        if conversation is None or planned.turn is None or planned.turns is None:
            return True
        answer = self._answer(attempt) if planned.turn + 1 < planned.turns else None
        if answer is None:
            self._said.pop(conversation, None)
            return planned.turn + 1 == planned.turns
        _, _, own, _ = unpack_turn(self._requests[attempt.index])
        self._said.setdefault(conversation, []).extend((own, answer))
        return True


def token_ids_of(attempt: Attempt) -> bytes | None:
    """The token ids of a whole answer, as a server tells them that was asked with return_token_ids: `12,5,7`. None if
    the attempt failed, or the server told none."""
    ids: list[int] = []
    finished = False
    for choice in _choices(attempt):
        part = choice.get("token_ids")
        if isinstance(part, list):
            ids += [id_ for id_ in part if isinstance(id_, int) and not isinstance(id_, bool)]
        finished = finished or isinstance(choice.get("finish_reason"), str)
    return ",".join(map(str, ids)).encode() if finished and ids else None


def message_of(attempt: Attempt) -> bytes | None:
    """A whole answer as a message, its reasoning left out as chat templates want it. None if the attempt failed."""
    texts: list[str] = []
    finished = False
    for choice in _choices(attempt):
        delta = choice.get("delta")
        content = delta.get("content") if isinstance(delta, dict) else None
        if isinstance(content, str):
            texts.append(content)
        finished = finished or isinstance(choice.get("finish_reason"), str)
    if not finished:
        return None
    return json.dumps({"role": "assistant", "content": "".join(texts)}, separators=(",", ":")).encode()


def _choices(attempt: Attempt) -> Iterator[dict[str, object]]:
    if attempt.fault is not None or attempt.status != 200:
        return
    for document in events_of(attempt.times, attempt.reads):
        for choice in document.get("choices") or []:
            if isinstance(choice, dict):
                yield choice

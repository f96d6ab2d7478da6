"""What became of an attempt: each outcome's exact rule, in one table, the first that fits."""

from __future__ import annotations

from collections.abc import Callable

from .attempt import Attempt
from .reply import Reply

Rule = Callable[[Attempt, Reply], bool]


def _lost_before_reply(attempt: Attempt, reply: Reply) -> bool:
    return not attempt.reads


def _unreadable(attempt: Attempt, reply: Reply) -> bool:
    return reply.status is None or (reply.unreadable is not None and reply.finish_reason is None)


def _without_token(attempt: Attempt, reply: Reply) -> bool:
    if not reply.streamed:
        return not reply.answered
    return not reply.chunks and (reply.done or reply.complete or reply.finish_reason is not None)


RULES: tuple[tuple[str, Rule], ...] = (
    ("connect_error", _lost_before_reply),
    ("http_error", lambda attempt, reply: reply.status is not None and reply.status != 200),
    ("stream_error", lambda attempt, reply: reply.error is not None),
    ("truncated", lambda attempt, reply: attempt.closed and reply.finish_reason is None and not reply.done),
    ("stream_error", _unreadable),
    ("no_token", _without_token),
    ("truncated", lambda attempt, reply: reply.finish_reason is None),
    ("ok", lambda attempt, reply: True),
)


def outcome(attempt: Attempt, reply: Reply) -> tuple[str, str | None, str | None]:
    """The outcome of an attempt, the kind of failure where it has several (FAILURES in schema/event.py), and its error
    text (on an ok attempt: a note, or None).

    A fault that the client itself knows (a timeout, a failed connection, a cancellation) comes first; then RULES.
    """
    if attempt.fault is not None:
        return attempt.fault, attempt.failure, attempt.error or reply.error
    name = next(name for name, rule in RULES if rule(attempt, reply))
    if name != "ok":
        failure = attempt.failure or ("lost" if name == "connect_error" else None)
        return name, failure, reply.error or reply.unreadable or attempt.error or _explain(name, attempt)
    return name, attempt.failure, _note(attempt, reply)


def _note(attempt: Attempt, reply: Reply) -> str | None:
    """What is to be said of an attempt that is ok all the same."""
    if not reply.streamed:
        return "note: the reply was not streamed"
    if not reply.done:
        return "note: no [DONE] after the finish reason"
    if attempt.failure == "kept_alive_lost":
        return "note: sent again, since the server had closed the kept-alive connection"
    if attempt.tries > 1:
        return f"note: try {attempt.tries}, after {attempt.failure}"
    return None


def _explain(name: str, attempt: Attempt) -> str | None:
    if name == "connect_error":
        kind = "kept-alive connection" if attempt.reused else "connection"
        return f"{kind} lost before the first byte of the reply"
    if name == "truncated":
        return "the stream ended without a finish reason"
    return None

"""Does something on the way hold a stream back? Then token times are those of the buffer, not of the server. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from .line import Streamed

#: tokens that are asked for: enough to see gaps, and few enough for any server
TOKENS = 24
#: fewer chunks say nothing of their times
_CHUNKS = 6
#: chunks that came within this time of the one before came with it: two reads of one buffer take less
TOGETHER_NS = 200_000
#: a server that took less time for each further chunk than this may well send several at once
_GENERATES_NS = 400_000
#: so large a share of chunks that came together with the one before is a buffer's
BUFFERED = 0.8

#: so often a short stream is asked for until one comes as it was made: a client without a core reads late, and together
TRIES = 6
#: a stream during which the client waited for a core for this share of its time says nothing
_STARVED = 0.25

#: reply headers that tell of the way to a server, and those that tell which of several servers answered
OF_THE_WAY = ("via", "server", "x-accel-buffering", "content-encoding", "x-cache", "x-envoy-decorator-operation")
OF_A_REPLICA = (
    "x-pod", "x-pod-name", "x-pod-id", "x-served-by", "x-instance", "x-instance-id", "x-replica", "x-replica-id",
    "x-backend", "x-backend-server", "x-upstream", "x-upstream-addr", "x-server-id", "x-hostname", "x-worker-id",
)  # fmt: skip


@dataclass(frozen=True)
class Arrivals:
    """How the chunks of a short stream came. `together`: the share that came with the one before, None where it cannot
    be told, and then `why`. `generated`: seconds that the server took for the further tokens."""

    together: float | None
    chunks: int
    generated: float
    why: str = ""

    @property
    def buffered(self) -> bool | None:
        """Whether a buffer held the stream back; None where it cannot be told."""
        return None if self.together is None else self.together > BUFFERED


def arrivals(one: Streamed, many: Streamed) -> Arrivals:
    """Judge two short replies: of one token, and of TOKENS. Their difference in time is what the server generates in;
    where the further tokens come together all the same, they were held back."""
    times = [at for at, event in many.events if _bears_tokens(event)]
    generated = many.seconds - one.seconds
    if many.status != 200 or one.status != 200:
        worst = many.status if many.status != 200 else one.status
        return Arrivals(None, len(times), generated, f"a short streamed request was answered with HTTP {worst}")
    if len(times) < _CHUNKS:
        return Arrivals(None, len(times), generated, f"a short stream had {len(times)} chunks with tokens")
    together = _together(times)
    if together > BUFFERED and many.waited > _STARVED * max(generated, 0.0):
        return Arrivals(None, len(times), generated, "the client had no core of its own while a short stream came")
    if together > BUFFERED and generated * 1e9 < _GENERATES_NS * (len(times) - 1):
        why = f"the server took {max(generated, 0) * 1e3:.1f} ms for {len(times) - 1} further chunks"
        return Arrivals(None, len(times), generated, f"{why}: too little to tell a buffer by")
    return Arrivals(together, len(times), generated)


def _together(times: Sequence[int]) -> float:
    return sum(later - earlier < TOGETHER_NS for earlier, later in pairwise(times)) / (len(times) - 1)


def _bears_tokens(event: dict[str, Any]) -> bool:
    choices = event.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    delta = choice.get("delta")
    if isinstance(delta, dict):
        return any(value for name, value in delta.items() if name != "role")
    return bool(choice.get("text"))

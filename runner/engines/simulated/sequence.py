"""A request as it comes in, as the scheduler runs it, and as it went."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from .tokens import WIDTH, encode, output_seed, output_token


@dataclass(frozen=True)
class Request:
    """What is asked of the engine: a prompt (encoded token ids) and how many tokens to write.

    `cancel_ns`: when the client goes away, if it does; for replays (a live server calls `Scheduler.cancel`).
    """

    id: str
    prompt: bytes
    output_tokens: int
    arrival_ns: int = 0
    cancel_ns: int | None = None

    @classmethod
    def of(
        cls,
        request_id: str,
        ids: Iterable[int] | Any,
        output_tokens: int,
        arrival_ns: int = 0,
        cancel_ns: int | None = None,
    ) -> Request:
        """A request whose prompt is a list or numpy array of token ids."""
        return cls(request_id, encode(ids), output_tokens, arrival_ns, cancel_ns)

    @property
    def prompt_tokens(self) -> int:
        """Length of the prompt, in tokens."""
        return len(self.prompt) // WIDTH


@dataclass
class Timing:
    """What became of a request, in ns on the clock of the arrivals.

    `cached_tokens`: prompt tokens found in the prefix cache when it was first admitted, at `admitted_ns`. `token_ns`:
    when each output token was there. `finish_ns`: when the last one was there, or None. `preempted`: how often it had
    to start again. `outcome`: ok or cancelled from the scheduler; error, stalled or refused where the server in front
    of it says so.
    """

    request_id: str
    arrival_ns: int
    prompt_tokens: int
    cached_tokens: int = 0
    token_ns: list[int] = field(default_factory=list)
    finish_ns: int | None = None
    preempted: int = 0
    outcome: str = "ok"
    admitted_ns: int | None = None


@dataclass(frozen=True)
class Step:
    """One engine step. Its tokens exist at `end_ns`; the counters are those during the step.

    `tokens`: (request id, index of the token in its output). `finished`: ids that got their last token. `running` and
    `waiting`: requests in each state. `blocks_used`: KV blocks held. `preemptions`, `queries`, `hits`: totals since the
    engine's start, the latter two in prompt tokens.
    """

    number: int
    start_ns: int
    end_ns: int
    decodes: int
    prefill_tokens: int
    tokens: list[tuple[str, int]]
    finished: list[str]
    running: int
    waiting: int
    blocks_used: int
    preemptions: int
    queries: int
    hits: int


class Sequence:
    """A request inside the scheduler: how far it is, and the KV blocks it holds.

    `computed` counts tokens whose KV exists, `target` those that must be computed before the next token comes out: the
    prompt, or after a preemption the prompt and all output so far. It decodes once computed has reached target.
    """

    __slots__ = (
        "_chain",
        "_seed",
        "blocks",
        "computed",
        "held",
        "id",
        "limit",
        "private",
        "prompt",
        "prompt_tokens",
        "published",
        "target",
        "timing",
    )

    def __init__(self, request: Request, timing: Timing) -> None:
        self.id = request.id
        self.prompt = request.prompt
        self.prompt_tokens = request.prompt_tokens
        self.limit = request.output_tokens
        self.timing = timing
        self.computed = 0
        self.target = self.prompt_tokens
        self.blocks = 0
        self.published = 0
        self.private = 0
        self.held: list[bytes] = []
        self._chain: list[bytes] = []
        self._seed: int | None = None

    def keys(self, count: int, block_size: int) -> list[bytes]:
        """The keys of (at least) the first `count` full blocks: a hash chain, so a key stands for a whole prefix."""
        chain = self._chain
        width = block_size * WIDTH
        while len(chain) < count:
            start = len(chain) * width
            content = self.prompt[start : start + width]
            if len(content) < width:
                content += self._output(start + len(content), start + width)
            parent = chain[-1] if chain else b""
            chain.append(blake2b(parent + content, digest_size=16).digest())
        return chain

    def _output(self, start: int, end: int) -> bytes:
        """Encoded output tokens that lie at bytes [start, end) of prompt and output together."""
        if self._seed is None:
            self._seed = output_seed(self.prompt)
        first = start // WIDTH - self.prompt_tokens
        last = end // WIDTH - self.prompt_tokens
        return encode([output_token(self._seed, index) for index in range(first, last)])

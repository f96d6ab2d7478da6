"""The KV cache as sequences use it: blocks for what they compute, and reuse of what is cached."""

from __future__ import annotations

from .cache import BlockPool
from .sequence import Sequence


class KvCache:
    """Gives KV blocks to sequences, and counts prompt tokens looked up (`queries`) and found (`hits`)."""

    def __init__(self, blocks: int, block_size: int, caching: bool) -> None:
        self.pool = BlockPool(blocks)
        self.queries = 0
        self.hits = 0
        self._block_size = block_size
        self._caching = caching

    def enter(self, sequence: Sequence) -> bool:
        """Give a sequence the cached blocks it can use, if there is room for all the others that it has to compute.

        As in vLLM, the cache is not asked for the last token, and a prompt is counted once, whatever is preempted.
        """
        needed = -(-sequence.target // self._block_size)
        found: list[bytes] = []
        if self._caching:
            limit = (sequence.target - 1) // self._block_size
            keys = sequence.keys(limit, self._block_size)
            found = keys[: self.pool.hits(keys, limit)]
        if needed - len(found) > self.pool.free - self.pool.idle_among(found):
            return False
        self.pool.hold(found)
        sequence.held = found
        sequence.blocks = sequence.published = len(found)
        sequence.computed = len(found) * self._block_size
        if self._caching and sequence.timing.preempted == 0:
            sequence.timing.cached_tokens = sequence.computed
            self.queries += sequence.prompt_tokens
            self.hits += sequence.computed
        return True

    def grow(self, sequence: Sequence, tokens: int) -> bool:
        """Give a sequence blocks for that many tokens in all; False, and nothing given, if there are too few."""
        needed = -(-tokens // self._block_size) - sequence.blocks
        if needed > 0:
            if needed > self.pool.free:
                return False
            self.pool.take(needed)
            sequence.blocks += needed
            sequence.private += needed
        return True

    def publish(self, sequence: Sequence) -> None:
        """Let others find the blocks that have become full."""
        if not self._caching:
            return
        full = sequence.computed // self._block_size
        keys = sequence.keys(full, self._block_size)
        for index in range(sequence.published, full):
            if self.pool.publish(keys[index]):
                sequence.held.append(keys[index])
                sequence.private -= 1
        sequence.published = full

    def drop(self, sequence: Sequence) -> None:
        """Take all of a sequence's blocks back."""
        self.pool.release(sequence.held, sequence.private)
        sequence.held = []
        sequence.private = sequence.blocks = sequence.computed = sequence.published = 0

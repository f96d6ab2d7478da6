"""KV blocks: a pool with a limit, and the prefix cache in it.

A block is either *private* (it has no key: a part-filled block, or any block without prefix caching) or *cached* under
the key of its content, and then shared by reference count. A cached block that nobody holds stays, in LRU order, until
its room is needed. Only counts and keys exist: blocks have no identity beyond their content, because none is ever
read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence


class BlockPool:
    """Room for `total` KV blocks. Empty blocks are taken first, then the cached one that was idle for longest."""

    __slots__ = ("_held", "_idle", "_plain", "total")

    def __init__(self, total: int) -> None:
        self.total = total
        self._plain = total
        self._held: dict[bytes, int] = {}
        self._idle: OrderedDict[bytes, None] = OrderedDict()

    @property
    def free(self) -> int:
        """Blocks that can be had: empty ones and cached ones that nobody holds."""
        return self._plain + len(self._idle)

    @property
    def used(self) -> int:
        """Blocks that some sequence holds."""
        return self.total - self.free

    @property
    def cached(self) -> int:
        """Blocks that can be found by their key, held or idle."""
        return len(self._held) + len(self._idle)

    def hits(self, keys: Sequence[bytes], at_most: int) -> int:
        """How many of the first `at_most` keys are cached, counted to the first that is not."""
        held, idle = self._held, self._idle
        for index in range(at_most):
            key = keys[index]
            if key not in held and key not in idle:
                return index
        return at_most

    def idle_among(self, keys: Iterable[bytes]) -> int:
        """How many of these cached blocks nobody holds: taking them lessens what is free."""
        idle = self._idle
        return sum(key in idle for key in keys)

    def hold(self, keys: Iterable[bytes]) -> None:
        """Take one more reference to each of these cached blocks."""
        held, idle = self._held, self._idle
        for key in keys:
            if key in held:
                held[key] += 1
            else:
                del idle[key]
                held[key] = 1

    def take(self, count: int) -> None:
        """Take `count` private blocks, evicting idle cached ones if need be; the caller has looked at `free`."""
        self._plain -= count
        while self._plain < 0:
            self._idle.popitem(last=False)
            self._plain += 1

    def publish(self, key: bytes) -> bool:
        """Make a private block a cached one, held once. False if that content is cached already: it stays private."""
        if key in self._held or key in self._idle:
            return False
        self._held[key] = 1
        return True

    def release(self, keys: Sequence[bytes], private: int) -> None:
        """Give blocks back: private ones are empty at once, cached ones idle, a sequence's last block evicted first."""
        self._plain += private
        held, idle = self._held, self._idle
        for key in reversed(keys):
            count = held[key] - 1
            if count:
                held[key] = count
            else:
                del held[key]
                idle[key] = None

    def reset(self) -> bool:
        """Forget every cached block; False, and nothing done, while any block is held."""
        if self.used:
            return False
        self._plain = self.total
        self._idle.clear()
        return True

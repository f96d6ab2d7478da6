"""Named cost tables: how long one engine step takes.

A step that decodes `d` sequences and prefills `p` tokens takes

    T(d, p) = [d > 0] · (decode_base + decode_each · d) + [p > 0] · (prefill_base + prefill_each · p)

divided by the declared `speedup`, and rounded to whole nanoseconds (half to even), so that the model in virtual time
and the server on the clock count the same integers. Times are ns before the division.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchcard.schema.errors import InputError


@dataclass(frozen=True)
class Costs:
    """The constants of T(d, p), in ns, and the bytes of KV cache that one token holds."""

    name: str
    decode_base_ns: int
    decode_each_ns: int
    prefill_base_ns: int
    prefill_each_ns: int
    kv_bytes_per_token: int

    def base_ns(self, decodes: int, prefill_tokens: int) -> int:
        """T(decodes, prefill_tokens) in ns, before the speedup. A step of nothing takes no time."""
        decode = self.decode_base_ns + self.decode_each_ns * decodes if decodes else 0
        prefill = self.prefill_base_ns + self.prefill_each_ns * prefill_tokens if prefill_tokens else 0
        return decode + prefill


#: Atlas: 30 ms + 15 ms · decodes/32 (45 ms at a batch of 32), 20 ms + 0.035 ms a prefill token, 80 KiB a token.
ATLAS = Costs(
    name="atlas",
    decode_base_ns=30_000_000,
    decode_each_ns=15_000_000 // 32,
    prefill_base_ns=20_000_000,
    prefill_each_ns=35_000,
    kv_bytes_per_token=80 * 1024,
)

COSTS: dict[str, Costs] = {ATLAS.name: ATLAS}


def costs_named(name: str) -> Costs:
    """The cost table of that name; `InputError` names the ones there are."""
    try:
        return COSTS[name]
    except KeyError:
        raise InputError(f"costs: found {name!r}; wanted one of {', '.join(sorted(COSTS))}") from None

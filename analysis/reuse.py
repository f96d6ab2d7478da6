"""The cached share of prompt tokens beside the share that the plan lets a cache reuse.

Planned: each prompt's longest beginning that an earlier prompt (or answer) of the cell has, too, rounded down to whole
cache blocks, and less than the prompt. It is a bound: a cache may be too small, or the earlier prompt not yet computed.
Measured: the server's own count, of each reply (counted attempts), or else of its metrics (the whole cell). Servers
that leave the count out where it is 0 (vLLM did, before it told zeros too) are known by it: no reply of the cell tells
a 0, and then what was left out is one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from .records import Record
from .server_cell import read_server
from .view import CellView, Observation


@dataclass(frozen=True)
class CachedShare:
    """Shares of prompt tokens, None where unknown; `source` of the measured one: replies or metrics. `block` is the
    cache's block in tokens, or None if the server does not say (then nothing is rounded)."""

    planned: float | None
    measured: float | None
    source: str
    block: int | None


def cached_share(events: pl.DataFrame, counted: pl.DataFrame, server: pl.DataFrame | None) -> CachedShare:
    """Planned and measured share of a cell."""
    block = _block_size(server)
    told = _told(counted)
    total, cached = (_sum(told, name) for name in ("input_tokens", "cached_tokens"))
    if total:
        return CachedShare(_planned(told, block), cached / total, "replies", block)
    sent = events.filter(pl.col("input_tokens").is_not_null())
    rate = _hit_rate(server)
    return CachedShare(_planned(sent, block) if sent.height else None, rate, "metrics", block)


def _told(counted: pl.DataFrame) -> pl.DataFrame:
    """The attempts whose reply tells how much of its prompt was cached, a 0 that was left out among them."""
    rows = counted.filter(pl.col("input_tokens").is_not_null())
    known = rows.filter(pl.col("cached_tokens").is_not_null())
    if known.is_empty() or (known["cached_tokens"] == 0).any():
        return known
    # a reply that was not whole may have ended before its details came
    return rows.filter((pl.col("outcome") == "ok") | pl.col("cached_tokens").is_not_null()).with_columns(
        pl.col("cached_tokens").fill_null(0)
    )


def _planned(rows: pl.DataFrame, block: int | None) -> float | None:
    if rows["reusable_tokens"].null_count():
        return None
    whole = pl.min_horizontal(pl.col("reusable_tokens"), pl.col("input_tokens") - 1)
    reusable = rows.select(reusable=whole // (block or 1) * (block or 1))
    return _sum(reusable, "reusable") / _sum(rows, "input_tokens")


def _sum(rows: pl.DataFrame, name: str) -> int:
    return int(rows.select(pl.col(name).cast(pl.Int64).sum()).item())


def _hit_rate(server: pl.DataFrame | None) -> float | None:
    told = read_server(server)
    if told is None:
        return None
    hits, queries = told.change("prefix_hits")[0], told.change("prefix_queries")[0]
    return hits / queries if hits is not None and queries else None


def _block_size(server: pl.DataFrame | None) -> int | None:
    if server is None:
        return None
    for labels in server.filter(pl.col("name") == "vllm:cache_config_info")["labels"]:
        size = str(json.loads(labels).get("block_size"))
        if size.isdigit() and int(size):
            return int(size)
    return None


def beyond_plan(view: CellView) -> Observation:
    """By how much the measured share exceeds what the plan lets be reused."""
    share = cached_share(view.events, view.counted, view.server)
    if share.measured is None or share.planned is None:
        return None, "the cached share is not known"
    return max(0.0, share.measured - share.planned), None


def share_known(view: CellView) -> bool:
    """Whether the card limits it (old cards do not), and both shares are known."""
    share = cached_share(view.events, view.counted, view.server)
    limited = "cached_beyond_plan" in view.card["validity"]
    return limited and share.measured is not None and share.planned is not None


def in_words(card: Record, cells: Iterable[tuple[str, CachedShare]]) -> list[tuple[str, str]]:
    """(arm, what was planned and measured over its cells) of each arm."""
    by_arm: dict[str, list[CachedShare]] = {}
    for arm, share in cells:
        by_arm.setdefault(arm, []).append(share)
    return [(arm, _arm_in_words(shares, _why_not_planned(card))) for arm, shares in by_arm.items()]


def _why_not_planned(card: Record) -> str:
    if card["workload"]["requests"].get("file") is not None:
        return "recorded prompts are not compared"
    return "the card names no tokenizer, so that nobody knows where a chat's template and words begin to differ"


def _arm_in_words(shares: list[CachedShare], why: str) -> str:
    measured = [share.measured for share in shares if share.measured is not None]
    planned = [share.planned for share in shares if share.planned is not None]
    if not measured:
        return "unknown (the server does not say which prompt tokens it found in its cache)"
    text = f"{_range(measured)} of prompt tokens came from the cache, by the server's {shares[0].source}"
    if len(planned) < len(shares):
        return f"{text}; what could be reused is unknown, since {why}"
    return f"{text}; the plan lets {_range(planned)} be reused"


def _range(values: list[float]) -> str:
    low, high = f"{min(values):.1%}", f"{max(values):.1%}"
    return low if low == high else f"{low} to {high}"

"""Whether a gate could have seen what it watches: one that could not has established nothing by passing."""

from __future__ import annotations

from typing import Any

import polars as pl

from .records import Record

#: more replies than this share end at the asked length: longer ones hardly show
_CUT = 0.5


def not_exercised(items: pl.DataFrame, row: Record, bound: float | None = None) -> str | None:
    """Why the gate's risk was not met, in words; None where nothing speaks against it. `reuse`: the prompts were sent
    before, so some of their tokens come from a prefix cache, if the server reports any. A share of right answers that
    is no larger than the limit cannot fall beyond it, nor can outputs diverge more where nearly all do so in A/A, or
    where there is nothing to compare (`bound`: of the greedy gate, which such outputs might add to)."""
    if row.get("reuse"):
        cached = items["cached_tokens"].drop_nulls()
        if len(cached) and not cached.sum():
            return "not exercised: no prompt token came from a prefix cache in any arm"
    if row["gate"] == "task_metric":
        right = items.filter(pl.col("arm") == "baseline").select(
            (pl.col("correct").fill_null(False) & pl.col("answered")).mean()
        )
        share = float(right.item() or 0.0)
        if share <= row["may_fall_by"]:
            what = f"the baseline answers {100 * share:.3g}% of the items correctly"
            return f"not exercised: {what}, which is all that can be lost"
    return _divergence_hidden(items, row, bound or 0.0) if row["gate"] == "greedy_divergence" else None


def _divergence_hidden(items: pl.DataFrame, row: Record, bound: float) -> str | None:
    """Why an early divergence of the candidate could not have shown, or None."""
    n, limit = items["item"].n_unique(), float(row["excess_over_aa_at_most"])
    early = (pl.col("arm") == "baseline_aa") & pl.col("answered") & (pl.col("diverged_at") < int(row["before_token"]))
    same = items.filter(early)["item"].n_unique()
    if n - same <= limit * n:
        left = "which leaves too few that could show more"
        return f"not exercised: {same} of {n} items diverge early in A/A already, {left}"
    empty = items.filter((pl.col("arm") == "candidate") & (pl.col("compared_by") == "nothing"))["item"].n_unique()
    if empty and bound + empty / n >= limit:
        return f"of {n} items {empty} have no output to compare: neither a text nor token ids"
    return None


def cache_unknown(items: pl.DataFrame, row: Record) -> str | None:
    """An alarm where prompts were sent before and no reply says whether any of their tokens came from a cache."""
    if not row.get("reuse") or items["cached_tokens"].count():
        return None
    return "no reply says how many prompt tokens came from a prefix cache: whether one was met is not known"


def cut_at_the_limit(items: pl.DataFrame) -> str | None:
    """An alarm where most replies ended at the length that was asked for, in words."""
    ended = items.filter(pl.col("answered"))
    cut = int((ended["finish_reason"] == "length").sum() or 0)
    if not ended.height or cut <= _CUT * ended.height:
        return None
    return f"{cut} of {ended.height} replies ended at the length that was asked for: longer ones could not show"


def divergence(items: pl.DataFrame, arms: tuple[str, ...]) -> Record:
    """For each arm how many items have diverged at all, and the quartiles (the nearest rank above) of the first token
    at which they do; null where none has."""
    found: dict[str, Any] = {}
    for arm in arms:
        rows = items.filter(pl.col("arm") == arm)
        at = rows.group_by("item").agg(pl.col("diverged_at").min())["diverged_at"].drop_nulls().sort().to_list()
        quartiles = [at[-(-len(at) * k // 4) - 1] for k in (1, 2, 3)] if at else None
        found[arm] = {"items": rows["item"].n_unique(), "diverged": len(at), "quartiles": quartiles}
    return found

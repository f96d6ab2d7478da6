"""Each kind of quality gate, from its table of items.

    greedy_divergence   share of items that diverge before a token, A/B minus A/A     excess_over_aa_at_most
    task_metric         share of items answered correctly, paired per item            may_fall_by
    mean_output_tokens  ratio of mean output tokens: two one-sided tests              equivalent_within
    conformance         outputs of the candidate that do not conform: a count         nonconforming_at_most

An item without an answer stays in its denominator, at its worst: it has diverged, is wrong, is of no tokens, does not
conform (a missing A/A answer has *not* diverged: it excuses nothing).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from . import wording
from .effect import Floats
from .equivalence import Bounds, discordant, distributions_apart, mean_of_items, ratio_of_means
from .gate_exercised import cut_at_the_limit, divergence
from .records import Record

#: the columns of an item table; `diverged_at` is the first token (from 0) at which an output differs from the
#: baseline's first one, null where none does, and `compared_by` what shows it (token_ids, retokenized, characters, or
#: nothing); `answered` is false where the request failed
ITEM_COLUMNS: dict[str, Any] = {
    "risk": pl.String,
    "item": pl.String,
    "arm": pl.String,
    "repeat": pl.Int32,
    "answered": pl.Boolean,
    "diverged_at": pl.Int32,
    "correct": pl.Boolean,
    "tokens": pl.Int32,
    "conforms": pl.Boolean,
    "finish_reason": pl.String,
    "cached_tokens": pl.Int32,
    "compared_by": pl.String,
}
#: fewer items than this carry no bound that rests on the normal distribution of a mean
MIN_ITEMS = 30
#: the Kolmogorov–Smirnov test raises its alarm below this p
ALARM = 0.01
#: what else than token ids outputs were compared by, in words
_COMPARED = {"retokenized": "their texts' tokens", "characters": "characters, in proportion"}


@dataclass(frozen=True)
class Judged:
    """A gate's result: what was seen, its bound on the side of the limit, the limit, items, word, and
    what was counted, in words."""

    observed: float | None
    bound: float | None
    limit: float
    n: int
    word: str
    reason: str | None = None
    detail: str = ""
    alarm: str | None = None
    divergence: Record | None = None


def _word(passes: Bounds, fails: Bounds, low: float | None, high: float | None) -> str:
    """Within both limits, beyond either, or not established. A limit that is None does not exist."""
    if (low is None or passes.lower > low) and (high is None or passes.upper < high):
        return "pass"
    beyond = (low is not None and fails.upper < low) or (high is not None and fails.lower > high)
    return "fail" if beyond else "not established"


def greedy_divergence(items: pl.DataFrame, row: Record, passing: float, failing: float) -> Judged:
    """Items that diverge before the token in the candidate and not in A/A, less those that do so in A/A only."""
    limit, token = float(row["excess_over_aa_at_most"]), int(row["before_token"])
    early = pl.col("diverged_at").is_not_null() & (pl.col("diverged_at") < token)
    candidate = _per_item(items, "candidate", early | ~pl.col("answered"), any_repeat=True)
    same = _per_item(items, "baseline_aa", early & pl.col("answered"), any_repeat=True)
    ab, aa = _paired(candidate, same)
    n, b, c = len(ab), int((ab > aa).sum()), int((ab < aa).sum())
    detail = f"{int(ab.sum())} of {n} items diverge before token {token} (A/A: {int(aa.sum())})"
    less = sorted({*items["compared_by"].drop_nulls().to_list()} & _COMPARED.keys())
    detail += f", compared by {' and '.join(_COMPARED[name] for name in less)}" if less else ""
    where = divergence(items, ("candidate", "baseline_aa"))
    found, strict = discordant(b, c, n, passing), discordant(b, c, n, failing)
    word = _word(found, strict, None, limit)
    return Judged(found.observed, found.upper, limit, n, word, None, detail, divergence=where)


def task_metric(items: pl.DataFrame, row: Record, passing: float, failing: float) -> Judged:
    """The candidate's share of correct answers less the baseline's, paired per item (its mean over repeats)."""
    limit = float(row["may_fall_by"])
    right = pl.col("correct").fill_null(False) & pl.col("answered")
    before, after = _paired(_per_item(items, "baseline", right), _per_item(items, "candidate", right))
    d = after - before
    found, strict = mean_of_items(d, passing), mean_of_items(d, failing)
    lost, won = int((d < 0).sum()), int((d > 0).sum())
    detail = f"{lost} of {len(d)} items lost, {won} won"
    return Judged(found.observed, found.lower, limit, len(d), _word(found, strict, -limit, None), None, detail)


def mean_output_tokens(items: pl.DataFrame, row: Record, passing: float, failing: float) -> Judged:
    """Mean output tokens of the candidate over the baseline's: equivalent by two one-sided tests."""
    limit = float(row["equivalent_within"])
    untold = items.filter(pl.col("answered") & pl.col("tokens").is_null()).height
    if untold:
        reason = f"{untold} of {wording.count(items.height, 'output')} do not say how many tokens they have"
        return Judged(None, None, limit, items["item"].n_unique(), "not established", reason)
    tokens = pl.when(pl.col("answered")).then(pl.col("tokens")).otherwise(0)
    x, y = _paired(_per_item(items, "baseline", tokens), _per_item(items, "candidate", tokens))
    found, strict = ratio_of_means(x, y, passing), ratio_of_means(x, y, failing)
    detail = f"mean output tokens {wording.number(float(y.mean()))} (baseline: {wording.number(float(x.mean()))})"
    if found is None or strict is None:
        reason = "the baseline's mean output tokens are not told from 0"
        return Judged(None, None, limit, len(x), "not established", reason, detail)
    bound = found.upper if abs(found.upper) >= abs(found.lower) else found.lower
    word = _word(found, strict, -limit, limit)
    distance, p = distributions_apart(x, y)
    alarm = f"the distributions of output tokens differ (Kolmogorov–Smirnov distance {distance:.3f}, p = {p:.2g})"
    alarms = [text for text in (alarm if p < ALARM else None, cut_at_the_limit(items)) if text]
    return Judged(found.observed, bound, limit, len(x), word, None, detail, "; ".join(alarms) or None)


def conformance(items: pl.DataFrame, row: Record, _: float, __: float) -> Judged:
    """How many of the candidate's outputs do not conform: a count, which no other output makes good."""
    limit = int(row["nonconforming_at_most"])
    broken = {
        arm: items.filter((pl.col("arm") == arm) & ~(pl.col("conforms").fill_null(False) & pl.col("answered"))).height
        for arm in ("baseline", "candidate")
    }
    n, count = items.filter(pl.col("arm") == "candidate").height, broken["candidate"]
    detail = f"{count} of {wording.count(n, 'output')} do not conform (baseline: {broken['baseline']})"
    return Judged(count, None, limit, n, "pass" if count <= limit else "fail", None, detail)


def _per_item(items: pl.DataFrame, arm: str, value: pl.Expr, *, any_repeat: bool = False) -> pl.DataFrame:
    """An arm's value for each item, in the order of items: its mean over the repeats, or whether any has it."""
    cast = value.cast(pl.Float64)
    over = cast.max() if any_repeat else cast.mean()
    return items.filter(pl.col("arm") == arm).group_by("item").agg(over.alias("value")).sort("item")


def _paired(first: pl.DataFrame, second: pl.DataFrame) -> tuple[Floats, Floats]:
    return (np.asarray(first["value"].to_numpy(), np.float64), np.asarray(second["value"].to_numpy(), np.float64))

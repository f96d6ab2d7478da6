"""Quality gates: did both arms do equivalent work? One gate for each risk, fixed on the card, judged from item tables.

The outputs are made outside the timed window, on declared prompts, and stand in `quality/<gate>.parquet`: one row an
item, arm and repeat. A gate passes if its one-sided bound lies within the limit. That *some* gate failed is one of
several chances to be wrong, so a gate fails only if the bound on the other side, at 1 − α/gates (Bonferroni), lies
beyond the limit. Else it is not established. A table that is missing or short is "not run", with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from . import wording
from .gate_exercised import cache_unknown, not_exercised
from .gate_kinds import (
    ITEM_COLUMNS,
    MIN_ITEMS,
    Judged,
    conformance,
    greedy_divergence,
    mean_output_tokens,
    task_metric,
)
from .read import Bundle
from .records import BundleError, Record, need

#: (the items of the gate, the card's row, confidence of passing, of failing) -> result
Judge = Callable[[pl.DataFrame, Record, float, float], Judged]


@dataclass(frozen=True)
class Gate:
    """A kind of gate: its judge, the key of its limit, the arms and the least items it needs, whether its outcome may
    be chance, its unit and what it says in words."""

    judge: Judge
    limit: str
    arms: tuple[str, ...]
    least: int
    by_chance: bool
    unit: str
    rule: str


GATES: dict[str, Gate] = {
    "greedy_divergence": Gate(
        greedy_divergence, "excess_over_aa_at_most", ("candidate", "baseline_aa"), 1, True, "points",
        "greedy outputs diverge early in at most {limit} more items than in A/A",
    ),
    "task_metric": Gate(
        task_metric, "may_fall_by", ("baseline", "candidate"), MIN_ITEMS, True, "points",
        "the share of correct answers may fall by {limit}",
    ),
    "mean_output_tokens": Gate(
        mean_output_tokens, "equivalent_within", ("baseline", "candidate"), MIN_ITEMS, True, "relative",
        "mean output tokens are equivalent within {limit}",
    ),
    "conformance": Gate(
        conformance, "nonconforming_at_most", ("baseline", "candidate"), 1, False, "count",
        "at most {limit} outputs do not conform",
    ),
}  # fmt: skip


def check_gates(rows: Sequence[Any], where: str) -> None:
    """Refuse a row of `quality` that this analysis has no rule for."""
    for i, row in enumerate(rows):
        place = f"{where}: quality[{i}]"
        kind = need({"quality": row}, "quality.gate", str, place)
        if kind not in GATES:
            raise BundleError(f"{place}: gate is {kind!r}; wanted {', '.join(GATES)}")
        need(row, "risk", str, place)
        if not need(row, GATES[kind].limit, (int, float), place) >= 0:
            raise BundleError(f"{place}: {GATES[kind].limit} is {row[GATES[kind].limit]!r}; wanted at least 0")
        if kind == "greedy_divergence":
            need(row, "before_token", int, place)


def gate_rows(bundle: Bundle) -> list[Record]:
    """verdict.json's gates: one row for each of the card's `quality` rows."""
    rows = bundle.card.get("quality") or []
    check_gates(rows, "card.resolved.json")
    chances = max(1, sum(GATES[row["gate"]].by_chance for row in rows))
    confidence = float(bundle.card["analysis"]["confidence"])
    return [_row(row, _judge(bundle, row, confidence, 1 - (1 - confidence) / chances)) for row in rows]


def _judge(bundle: Bundle, row: Record, passing: float, failing: float) -> Judged:
    gate, where = GATES[row["gate"]], f"quality/{row['gate']}.parquet"
    none = Judged(None, None, float(row[gate.limit]), 0, "not run")
    items = bundle.quality(row["gate"], ITEM_COLUMNS)
    if items is None:
        return replace(none, reason=f"{where} is missing")
    items = items.filter(pl.col("risk") == row["risk"]).with_columns(pl.col("answered").fill_null(False))
    if items.select("arm", "item", "repeat").is_duplicated().any():
        raise BundleError(f"{bundle.root / where}: an item stands twice for one arm and repeat (risk {row['risk']!r})")
    outputs = {arm: set(items.filter(pl.col("arm") == arm).select("item", "repeat").iter_rows()) for arm in gate.arms}
    wanted = set().union(*outputs.values())
    n = len({item for item, _ in wanted})
    for arm in gate.arms:
        if not wanted or outputs[arm] != wanted:
            return replace(none, n=n, reason=f"{arm} has {len(outputs[arm])} of {wording.count(len(wanted), 'output')}")
    if row.get("prompts") is not None and n < row["prompts"]:
        return replace(none, n=n, reason=f"{n} of {row['prompts']} prompts were run")
    asked = (row.get("prompts") or n) * (row.get("repeats") or 1)
    if len(wanted) < asked:
        return replace(none, n=n, reason=f"{len(wanted)} of {asked} outputs were made")
    if n < gate.least:
        reason = f"{wording.count(n, 'item')}; this gate needs {gate.least}"
        return replace(none, n=n, word="not established", reason=reason)
    found = gate.judge(items, row, passing, failing)
    alarms = [text for text in (found.alarm, cache_unknown(items, row)) if text]
    found = replace(found, alarm="; ".join(alarms) or None)
    why = not_exercised(items, row, found.bound) if found.word == "pass" else None
    return found if why is None else replace(found, word="not established", reason=why)


def _shown(value: float | None, unit: str) -> str:
    if value is None:
        return "unknown"
    if unit == "count":
        return f"{value:g}"
    return f"{100 * value:.3f}".rstrip("0").rstrip(".").replace("-", wording.MINUS) + (
        " pt" if unit == "points" else "%"
    )


def _row(row: Record, found: Judged) -> Record:
    gate = GATES[row["gate"]]
    rule = gate.rule.format(limit=_shown(found.limit, gate.unit))
    parts = [f"gate {row['gate']} ({row['risk']}): {rule}"]
    if found.detail:
        parts.append(found.detail)
    if found.bound is not None:
        parts.append(
            f"the difference is {_shown(found.observed, gate.unit)}, its bound {_shown(found.bound, gate.unit)}"
        )
    if found.reason:
        parts.append(found.reason)
    return {
        "risk": row["risk"],
        "gate": row["gate"],
        "word": found.word,
        "unit": gate.unit,
        "observed": found.observed,
        "bound": found.bound,
        "limit": found.limit,
        "n": found.n,
        "reason": found.reason,
        "alarm": found.alarm,
        **({} if found.divergence is None else {"divergence": found.divergence}),
        "text": "; ".join(parts),
    }


#: a gate's word -> what it makes of the verdict, and how that is said
_FINDINGS: Mapping[str, tuple[str, str, str]] = {
    "fail": ("falsified", "gate_failed", "the outputs are not equivalent: "),
    "not established": ("inconclusive", "gate_not_established", "equivalent outputs are not established: "),
    "not run": ("inconclusive", "gate_not_run", "whether the outputs are equivalent is unknown: "),
    "pass": ("supported", "gate_passed", ""),
}


def gate_finding(row: Record) -> tuple[str, str, str]:
    """(the word that a gate's row asks for, code, clause)."""
    word, code, start = _FINDINGS[row["word"]]
    return word, code, start + row["text"]

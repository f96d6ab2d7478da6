"""Rules about quality gates: the keys of each kind, one gate for each risk, and none that could never pass."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from .defaults import Filled
from .errors import Problem
from .phrase import words
from .quality import KEYS, LIMITS, MOST_BUILT_IN, keys_of
from .quantity import format_quantity

#: fewer items than this carry no bound that rests on the normal distribution of a mean
_MIN_ITEMS = 30
_CONFIDENCE = 0.95


def _gates(filled: Filled) -> Iterator[tuple[int, dict[str, Any], str]]:
    """Each row with a kind that there is."""
    for index, row in enumerate(filled.get("quality") or []):
        if isinstance(row, dict) and row.get("gate") in KEYS:
            yield index, row, row["gate"]


def _keys_of_the_kind(filled: Filled) -> Iterator[Problem]:
    for index, _, gate in _gates(filled):
        for key in KEYS[gate][0]:
            if not filled.on_card("quality", index, key):
                yield filled.problem(("quality", index, key), "nothing", f"the key {key}", f"{gate} needs it")
        node = filled.root.at(("quality", index))
        for key in node.mapping if node is not None else ():
            if key not in keys_of(gate) and key in {key for needed, own in KEYS.values() for key in (*needed, *own)}:
                found = f"{key}, which has no meaning for {gate}"
                yield filled.problem(("quality", index, key), found, "no such key", at_key=True)


def _scale_of_the_limit(filled: Filled) -> Iterator[Problem]:
    for index, row, _ in _gates(filled):
        for key, scale in LIMITS.items():
            limit = row.get(key)
            if isinstance(limit, dict) and limit["scale"] != scale:
                wanted = "points such as 1 pt" if scale == "points" else "a relative change such as 2%"
                why = "it is a share of the items" if scale == "points" else "it is a ratio of two means"
                yield filled.problem(("quality", index, key), format_quantity("change", limit), wanted, why)


def _one_for_each_risk(filled: Filled) -> Iterator[Problem]:
    seen: set[tuple[str, str]] = set()
    for index, row, gate in _gates(filled):
        if (gate, row.get("risk")) in seen:
            found = f"a second {gate} for the risk {row['risk']}"
            yield filled.problem(("quality", index, "risk"), found, "another risk, or one gate")
        seen.add((gate, str(row.get("risk"))))


def prompts_needed(gate: str, limit: float) -> int | None:
    """The fewest prompts with which a gate can pass where nothing at all differs; None: no number of them will do.

    Of N pairs without a difference the exact one-sided bound is 1 − .05^(1/N) (Clopper & Pearson, 1934)."""
    if gate in ("greedy_divergence", "task_metric"):
        if limit <= 0:
            return None
        few = max(1, math.floor(math.log(1 - _CONFIDENCE) / math.log1p(-limit)))
        return max(few + 1, _MIN_ITEMS if gate == "task_metric" else 1)
    return _MIN_ITEMS if gate == "mean_output_tokens" else 1


def _can_pass(filled: Filled) -> Iterator[Problem]:
    """A gate whose bound lies beyond its limit whatever the outcome says nothing, and costs an hour to say it."""
    for index, row, gate in _gates(filled):
        key = next((key for key in LIMITS if key in KEYS[gate][0]), None)
        limit, n = row.get(key or ""), row.get("prompts")
        if not isinstance(limit, dict) or n is None:
            continue
        needed = prompts_needed(gate, limit["value"])
        named = next((name for name in ("prompts", "items") if filled.on_card("quality", index, name)), key)
        shown = format_quantity("change", limit)
        if needed is None:
            why = "the bound of a share is above 0, whatever the outcome: this gate could never pass"
            yield filled.problem(("quality", index, str(key)), shown, "more than 0 pt", why)
        elif n < needed:
            bound = -math.expm1(math.log(1 - _CONFIDENCE) / n)
            why = f"even where no output differs, the 95% bound of {n} is {100 * bound:.5g} pt: it could never pass"
            if gate == "mean_output_tokens" or bound < limit["value"]:
                why = "fewer carry no bound of a mean"
            found = f"{n} prompt{'s' * (n != 1)} for a limit of {shown}"
            yield filled.problem(("quality", index, str(named)), found, f"at least {needed} prompts", why)


def _items_suffice(filled: Filled) -> Iterator[Problem]:
    for index, row, gate in _gates(filled):
        items, n = row.get("items"), row.get("prompts")
        if isinstance(items, str) and n is not None and n > MOST_BUILT_IN:
            found = f"{n} prompts of {items}"
            yield filled.problem(("quality", index, "prompts"), found, f"at most {MOST_BUILT_IN}, as many as there are")
        if not isinstance(items, dict):
            continue
        path = ("quality", index, "items")
        if n is not None and n > items["rows"]:
            yield filled.problem(
                ("quality", index, "prompts"), f"{n} prompts of {items['name']}", f"at most {items['rows']}, its items"
            )
        if gate == "task_metric" and items["answered"] < items["rows"]:
            found = f"{items['rows'] - items['answered']} items of {items['name']} without an answer"
            yield filled.problem(path, found, 'an answer for each, as in {"prompt": …, "answer": 42}')


def _answers_are_scored(filled: Filled) -> Iterator[Problem]:
    for index, row, gate in _gates(filled):
        if (
            gate == "task_metric"
            and isinstance(row.get("items"), dict)
            and not filled.on_card("quality", index, "scorer")
        ):
            wanted = words(["exact_number", "exact_text", "contains"])
            yield filled.problem(("quality", index, "scorer"), "nothing", wanted, "it says when an answer is right")


def _replies_have_a_schema(filled: Filled) -> Iterator[Problem]:
    for index, row, gate in _gates(filled):
        if gate != "conformance":
            continue
        if filled.engine == "simulated":
            found = "conformance with the embedded engine"
            yield filled.problem(("quality", index, "gate"), found, "another gate", "its replies are no JSON")
        elif row.get("json_schema") is None and not filled.on_card("quality", index, "json_schema"):
            wanted = "the key json_schema, here or in workload.sampling"
            yield filled.problem(("quality", index, "json_schema"), "nothing", wanted, "it says what conforms")


def _outputs_reach_the_token(filled: Filled) -> Iterator[Problem]:
    for index, row, _ in _gates(filled):
        before, tokens = row.get("before_token"), row.get("output_tokens")
        if before is not None and tokens is not None and tokens < before:
            found = f"{tokens} output tokens"
            wanted = f"at least {before}, since outputs are compared before token {before}"
            yield filled.problem(("quality", index, "output_tokens"), found, wanted)


QUALITY_RULES = (
    _keys_of_the_kind, _scale_of_the_limit, _one_for_each_risk, _can_pass, _items_suffice, _answers_are_scored,
    _replies_have_a_schema, _outputs_reach_the_token,
)  # fmt: skip

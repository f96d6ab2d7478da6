"""Words for people: names of metrics, lists, loads, requirements and JSON values as text without markup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .numbers import number, quantity


def metric_title(name: str) -> str:
    """A metric's name as a heading: "TTFT p50", "Output throughput"."""
    quantity_name, dot, statistic = name.partition(".")
    return f"{quantity_name.upper()} {statistic}" if dot else name.replace("_", " ").capitalize()


def load(value: float, load_unit: str) -> str:
    """An offered load: "50 req/s" or "8 concurrent"."""
    return f"{number(value, 6)} {load_unit}"


def loads(values: Sequence[float], load_unit: str) -> str:
    """Several loads, the unit once: "20 and 50 req/s"."""
    return f"{listing([number(value, 6) for value in values])} {load_unit}"


def listing(items: Sequence[str], word: str = "and") -> str:
    """ "a", "a and b", "a, b and c"."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {word} {items[-1]}"


def count(n: int, one: str, many: str | None = None) -> str:
    """ "1 block", "2 blocks"."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def counted_reasons(reasons: Mapping[str, int]) -> str:
    """ "3 (no token), 1 (one token only)", in the order of their names."""
    return ", ".join(f"{n:,} ({reason})" for reason, n in sorted(reasons.items()))


def amount(size: Mapping[str, Any]) -> str:
    """A card's relative or absolute amount: {"value": .05, "scale": "relative"} is "5%", scale points is "0.5 pt"."""
    value = float(size["value"])
    if size.get("scale") == "relative":
        return quantity(value, "1")
    return f"{number(value * 100)} pt"


def of(metric_name: str, population: str | None) -> str:
    """ "goodput", or "goodput of chat" where it is one population's."""
    return metric_name if population is None else f"{metric_name} of {population}"


def requirement(metric_name: str, direction: str, size: Mapping[str, Any], population: str | None = None) -> str:
    """ "goodput must rise by 5%", "tpot.p50 may rise by at most 3%", "ttft.p50 of chat may rise by at most 5%"."""
    metric_name = of(metric_name, population)
    verb = direction.replace("_", " ")
    if direction.startswith("may_"):
        return f"{metric_name} {verb} at most {amount(size)}"
    return f"{metric_name} {verb} at least {amount(size)}"


def objective(key: str, rule: Any) -> str:
    """One objective of the card as a clause: "TTFT at most 600 ms"."""
    if key == "success":
        return "the request succeeds"
    if key == "output" and isinstance(rule, Mapping):
        parts = []
        if rule.get("min_tokens") is not None:
            parts.append(f"at least {count(int(rule['min_tokens']), 'token')}")
        if rule.get("finish"):
            parts.append(f"finished by {listing([str(f) for f in rule['finish']], 'or')}")
        return "output: " + ", ".join(parts)
    if isinstance(rule, Mapping) and "at_most" in rule:
        return f"{key.upper()} at most {quantity(rule['at_most'], 's')}"
    if isinstance(rule, Mapping) and "every" in rule:
        return f"every {key.upper()} at most {quantity(rule['every'], 's')}"
    return f"{key}: {plain(rule)}"


def objectives(rules: Mapping[str, Any]) -> str:
    """All objectives as one list: a request is good only if every one holds."""
    return "; ".join(objective(key, rule) for key, rule in rules.items() if rule is not None and rule is not False)


def plain(value: Any) -> str:
    """Any JSON value as words for a table: null is "none", an unknown fact keeps its reason."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value, 6)
    if isinstance(value, Mapping):
        if set(value) == {"unknown"}:
            return f"unknown: {value['unknown']}"
        return ", ".join(f"{key} {plain(item)}" for key, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(plain(item) for item in value) or "none"
    return str(value)


def shortened(items: Iterable[str], most: int = 6) -> str:
    """The first few of a list and how many more there are."""
    everything = list(items)
    rest = len(everything) - most
    return ", ".join(everything[:most]) + (f" and {rest} more" if rest > 0 else "")

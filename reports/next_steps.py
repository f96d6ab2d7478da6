"""What the reader does next, what the change cost and what stays unknown: the lines under an ab report's verdict.

What to do is the analysis's text; cost and unknowns are its rows in words.
"""

from __future__ import annotations

from . import numbers, wording
from .guard_words import as_change
from .read import Bundle, Json

#: so many unknown conditions are named
_NAMED = 6


def is_unknown(condition: Json) -> bool:
    """Whether nobody could say what this condition was."""
    value = condition.get("value")
    return condition.get("source") == "unknown" or (isinstance(value, dict) and set(value) == {"unknown"})


def what_next(bundle: Bundle) -> tuple[str, ...]:
    """The step, what makes its ground unsure, the cost by the guards and the unknown conditions; a line that has
    nothing to say is left out."""
    lines = (str(bundle.result["next"]["text"]), _fragile(bundle), *_open_bias(bundle), _cost(bundle), _unknown(bundle))
    return tuple(line for line in lines if line)


def _fragile(bundle: Bundle) -> str:
    """The claimed loads where the two tests disagree, which nobody should have to find under a table."""
    effects: list[Json] = bundle.result.get("effects") or []
    loads = [e["load"] for e in effects if e.get("claimed") and "fragile" in (e.get("flags") or [])]
    if not loads or bundle.result["verdict"] == "invalid":
        return ""
    return (
        f"Fragile at {wording.loads(loads, bundle.load_unit)}: the t interval decides, and the exact sign-flip test "
        "disagrees with it about the threshold."
    )


def _open_bias(bundle: Bundle) -> list[str]:
    """The A/A blocks that leave room for a bias beyond what the card allows."""
    rows = [row for row in bundle.result.get("aa") or [] if row["decides"] and row["interval"] is not None]
    if bundle.result["verdict"] == "invalid":
        return []
    return [
        f"A bias of the procedure beyond ±{wording.amount(bundle.card['method']['aa']['within'])} is not ruled out at "
        f"{wording.load(row['load'], bundle.load_unit)}: {wording.of(row['metric'], row.get('population'))} of the "
        f"baseline against itself, {bundle.confidence} interval "
        f"{numbers.interval(row['interval'], row['scale'], numbers.metric_unit(row['metric']), row['margin'])}."
        for row in rows
        if not row["equivalent"]
    ]


def _cost(bundle: Bundle) -> str:
    guards: list[Json] = bundle.result.get("guards") or []
    if not guards or bundle.result["verdict"] == "invalid":
        return ""
    return f"What it cost, by the guards: {wording.shortened([_guard(bundle, guard) for guard in guards])}."


def _guard(bundle: Bundle, guard: Json) -> str:
    """ "tpot.p50 at 12 req/s +0.40%, one-sided 95% bound +0.70% (pass)"."""
    where = f"{wording.of(guard['metric'], guard.get('population'))} at {wording.load(guard['load'], bundle.load_unit)}"
    unit = numbers.metric_unit(guard["metric"])
    scale = guard.get("scale") or ("log" if guard["margin"].get("scale") == "relative" else "difference")
    change, bound = as_change(guard, "change", "mean", scale), as_change(guard, "change_bound", "bound", scale)
    if change is None or bound is None:
        return f"{where} {numbers.undefined(guard.get('reason'))}"
    beside = [d for d in (change, bound, guard.get("limit")) if d is not None]
    shown = [numbers.effect(d, scale, unit, None, beside) for d in (change, bound)]
    return f"{where} {shown[0]}, one-sided {bundle.confidence} bound {shown[1]} ({guard['word']})"


def _unknown(bundle: Bundle) -> str:
    conditions: list[Json] = bundle.result.get("conditions") or []
    names = [str(condition["name"]) for condition in conditions if is_unknown(condition)]
    if not names:
        return ""
    # one name may stand for several ("gpu.clocks, gpu.count and 7 more")
    apart = "; " if any(", " in name for name in names[:_NAMED]) else ", "
    more = len(names) - _NAMED
    rest = f"{apart}and {more} more" if apart == "; " else f" and {more} more"
    return f"Unknown conditions: {apart.join(names[:_NAMED])}{rest if more > 0 else ''}."

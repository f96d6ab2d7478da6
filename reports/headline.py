"""The top of an ab report: the verdict word, its sentence, its reasons, and what it means for the decision.

The word, the sentence and the reasons are the analysis's; nothing here decides anything.
"""

from __future__ import annotations

from . import numbers, wording
from .next_steps import what_next
from .read import Bundle, Json

#: word -> (symbol, tone): colour never stands alone
WORDS: dict[str, tuple[str, str]] = {
    "supported": ("✓", "good"),
    "falsified": ("✗", "bad"),
    "inconclusive": ("?", "warn"),
    "mixed": ("⇅", "warn"),
    "invalid": ("⊘", "muted"),
}

FLAGS: dict[str, str] = {
    "fragile": "fragile: the t interval and the exact sign-flip test disagree about the threshold; the interval "
    "decides",
    "degenerate": "degenerate: every block gave the same effect, so there is no spread to test; the sign of the "
    "effect against the threshold decides",
    "one_block": "one block: one block drives the effect; without it the mean would move by more than two standard "
    "errors of the others. Look at it under Blocks; no word changes",
    "few_blocks": "few blocks: fewer blocks than the sign-flip test needs to reach a decision of its own",
    "scaled": "scaled: an arm had no good request in some block, so ratios do not exist; the effect is candidate − "
    "the threshold's multiple of the baseline, compared with zero, in all blocks",
}


def claim_text(bundle: Bundle) -> str:
    """The claim as one clause: "goodput must rise by at least 5% at 50 req/s"."""
    claim = bundle.result.get("claim") or {}
    if not claim:
        return "no claim"
    at = wording.loads(claim.get("at") or [], bundle.load_unit)
    scopes = {"every_load": f"at every load ({at})", "some_load": f"at some load (of {at})"}
    where = scopes.get(claim.get("scope", ""), f"at {at}")
    rule = wording.requirement(claim["metric"], claim["direction"], claim["threshold"], claim.get("population"))
    return f"{rule} {where}"


def claimed_effects(bundle: Bundle) -> list[Json]:
    """The effects that the claim is about."""
    return [effect for effect in bundle.result.get("effects") or [] if effect.get("claimed")]


def _effect_clause(bundle: Bundle, effect: Json) -> str:
    unit, scale = numbers.metric_unit(effect["metric"]), effect["scale"]
    value = numbers.effect(effect.get("mean"), scale, unit, effect.get("reason"), effect.get("interval"))
    named = wording.of(effect["metric"], (bundle.result.get("claim") or {}).get("population"))
    text = f"At {wording.load(effect['load'], bundle.load_unit)}: {named} {value}"
    if effect.get("interval") is None:
        return text
    bounds = numbers.interval(effect["interval"], scale, unit, effect.get("threshold"))
    return f"{text}, {bundle.confidence} interval {bounds}"


def _detectable(bundle: Bundle, effect: Json) -> str | None:
    """What an inconclusive effect would have taken: the smallest detectable effect, and the blocks for the one seen."""
    smallest = effect.get("smallest_detectable")
    if effect.get("word") != "inconclusive" or smallest is None:
        return None
    size = numbers.size(smallest, effect["scale"], numbers.metric_unit(effect["metric"]))
    text = (
        f"At {wording.load(effect['load'], bundle.load_unit)} the smallest detectable effect lies {size} from the "
        f"threshold: {wording.count(effect['blocks'], 'block')} with this spread find that 8 times in 10."
    )
    needed = effect.get("blocks_needed")
    return f"{text} An effect as far from it as the one seen would take {needed} blocks." if needed else text


def _short_of_threshold(bundle: Bundle, effect: Json) -> str | None:
    """Falsified though the effect goes the right way: said separately."""
    claim = bundle.result.get("claim") or {}
    sign = 1.0 if str(claim.get("direction", "")).endswith("rise_by") else -1.0
    bounds = effect.get("interval")
    if effect.get("word") != "falsified" or not bounds or effect["scale"] == "scaled":
        return None
    if min(sign * bound for bound in bounds) <= 0:
        return None
    unit = numbers.metric_unit(effect["metric"])
    size = numbers.interval(bounds, effect["scale"], unit, effect.get("threshold"))
    return (
        f"There is an effect in the claimed direction at {wording.load(effect['load'], bundle.load_unit)} "
        f"({size}); it is smaller than the {wording.amount(claim['threshold'])} that the card asks for."
    )


def effect_notes(bundle: Bundle) -> tuple[str, ...]:
    """What must be said of the claimed effects beside their words, and one line for each flag any effect carries."""
    effects: list[Json] = bundle.result.get("effects") or []
    notes = [note(bundle, e) for e in claimed_effects(bundle) for note in (_detectable, _short_of_threshold)]
    flags = dict.fromkeys(flag for effect in effects for flag in effect.get("flags") or [])
    if any(effect["scale"] == "scaled" for effect in effects):
        flags.setdefault("scaled")
    return tuple(note for note in notes if note) + tuple(FLAGS.get(f, f"{f}: see the analysis revision") for f in flags)


def _falsified(bundle: Bundle) -> list[str]:
    parts = []
    if any(effect.get("word") == "falsified" for effect in claimed_effects(bundle)):
        parts.append("The evidence rules out an effect as large as the card requires.")
    regressed = [guard for guard in bundle.result.get("guards") or [] if guard.get("word") == "regressed"]
    for guard in regressed:
        rule = wording.requirement(guard["metric"], guard["direction"], guard["margin"], guard.get("population"))
        parts.append(f"A guard regressed at {wording.load(guard['load'], bundle.load_unit)}: {rule}.")
    parts.append(
        "Under these conditions the hypothesis on the card does not hold. A firm no is as good an answer as a yes."
    )
    return parts


def _inconclusive(bundle: Bundle) -> list[str]:
    parts = []
    failed = [item for item in bundle.result.get("evidence") or [] if item.get("word") != "holds"]
    if failed:
        names = wording.listing([f"{item['metric']} ({item['arm']})" for item in failed])
        parts.append(
            f"It is not shown that the treatment took effect: {names}. "
            "The effect below says nothing about the hypothesis."
        )
    if any(effect.get("word") == "inconclusive" for effect in claimed_effects(bundle)):
        parts.append(
            "The interval reaches across the threshold: these blocks leave open whether the effect is large enough."
        )
    undecided = [guard for guard in bundle.result.get("guards") or [] if guard.get("word") == "indeterminate"]
    for guard in undecided:
        parts.append(
            f"The guard on {wording.of(guard['metric'], guard.get('population'))} at "
            f"{wording.load(guard['load'], bundle.load_unit)} is undecided: "
            "the blocks leave open whether its margin was kept."
        )
    needed = [e["blocks_needed"] for e in claimed_effects(bundle) if e.get("blocks_needed")]
    blocks = f"more blocks ({max(needed)}, if the effect is as it was seen)" if needed else "more blocks"
    parts.append(
        f"The question stays open. To close it, declare {blocks} in a new card, "
        "or a threshold that this spread can resolve."
    )
    return parts


def _mixed(bundle: Bundle) -> list[str]:
    return [
        "The effect turns around between the loads that were run: no one answer covers them, and no average is given.",
        *[f"{clause}." for clause in (_effect_clause(bundle, e) for e in bundle.result.get("effects") or [])],
        "Decide load by load, from the table below; between and beyond these loads nothing is known.",
    ]


def _invalid(bundle: Bundle) -> list[str]:
    parts = ["The run failed a check that was fixed before it began. Its numbers answer nothing, in either direction."]
    for check in bundle.result.get("validity") or []:
        if check.get("passed"):
            continue
        where = f" in {wording.shortened(check['where'])}" if check.get("where") else ""
        unit = check.get("unit") or ""
        worst = "worst observed" if len(check.get("where") or []) > 1 else "observed"
        found = f"{worst} {observed(check)}, limit {check_value(check.get('limit'), unit)}"
        advice = f" What to do: {check['advice']}" if check.get("advice") else ""
        parts.append(f"{check['name']} failed{where}: {found}.{advice}")
    return parts + _drifts(bundle) + _biases(bundle)


def _biases(bundle: Bundle) -> list[str]:
    """What to do about a procedure that finds a difference where there is none."""
    rows = [row for row in bundle.result.get("aa") or [] if row.get("word") == "biased"]
    if not rows or not any(item.get("code") == "biased" for item in bundle.result.get("because") or []):
        return []
    at = wording.loads(list(dict.fromkeys(row["load"] for row in rows)), bundle.load_unit)
    return [
        f"The baseline differs from itself at {at}: what runs first, or what it leaves behind, counts. What to do, in "
        "a new card: servers started for each cell, a longer warm-up or pause, a cache that is reset. A wider margin "
        "only looks away."
    ]


def _drifts(bundle: Bundle) -> list[str]:
    """What to do about a load that was declared steady and drifts, where the verdict is invalid by it."""
    if not any(item.get("code") == "not_steady" for item in bundle.result.get("because") or []):
        return []
    rows = [row for row in bundle.result.get("steady_state") or [] if row.get("word") == "drifts"]
    at = wording.loads(list(dict.fromkeys(row["load"] for row in rows)), bundle.load_unit)
    return [
        f"The card declares {at} steady, and TTFT drifts there. What to do, in a new card: a longer warm-up, or a "
        "lower load. A load past saturation has no steady state: it is a finite window, and not named under "
        "steady_state."
    ]


def check_value(value: object, unit: str) -> str:
    """A validity check's observed value or limit: a quantity where it is a number, else as it is written."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if unit in ("s", "1", "bytes"):
            return numbers.quantity(float(value), unit)
        # units that are counted ("blocks") stand in the plural
        return numbers.join_unit(numbers.number(float(value), 4), unit.removesuffix("s") if value == 1 else unit)
    return wording.plain(value)


def observed(check: Json) -> str:
    """What a validity check observed, or why it observed nothing."""
    if check.get("observed") is None:
        return numbers.undefined(check.get("reason"))
    return check_value(check["observed"], check.get("unit") or "")


def decision(bundle: Bundle) -> tuple[str, ...]:
    """What the verdict means for the card's question, as short sentences."""
    word = bundle.result["verdict"]
    if bundle.result.get("next"):
        return what_next(bundle) + tuple(_invalid(bundle)[1:] if word == "invalid" else ())
    # results of earlier analysis revisions do not say what comes next
    if word == "supported":
        guards = "every guard holds" if bundle.result.get("guards") else "the card declares no guard"
        return (
            f"The effect clears the threshold that the card fixed beforehand, and {guards}.",
            "That answers the question for the conditions below, and for no others.",
        )
    by_word = {"falsified": _falsified, "inconclusive": _inconclusive, "mixed": _mixed, "invalid": _invalid}
    return tuple(by_word[word](bundle))


def short_digest(digest: object) -> str:
    """The first 12 hex digits of a digest, enough to tell two cards apart; the whole stands under the identity."""
    text = str(digest)
    return text[:19] if text.startswith("sha256:") else text

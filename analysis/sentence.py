"""The conditional sentence: where, what was changed, what happened, against which threshold, and the word.

A negative or inconclusive result reads as plainly as a positive one. Nothing is "trending"; an interval that spans a
threshold is inconclusive and never "no difference".
"""

from __future__ import annotations

from collections.abc import Sequence

from . import wording
from .card_words import engine, model_name, treatment
from .cells import Reading
from .claim import LoadEffect, absolute, needed, picking_level
from .decide import Verdict
from .effect import Effect
from .identity import confounded
from .identity_places import of_a_place
from .metrics import ALL_METRICS
from .power import smallest_detectable
from .records import Record
from .start import cold_start
from .traffic import workload

#: costs and risks that the sentence itself must carry, and other findings that it must
_COSTS = ("guard_regressed", "guard_indeterminate", "gate_failed", "gate_not_established", "gate_not_run")
_NO_TREATMENT = ("evidence_fails", "treatment_not_arrived")
_SAID = ("reversal", "ceiling", "confounded", "places", "evidence_unknown", "failures_differ", "unequal_work")


def sentence(
    reading: Reading,
    verdict: Verdict,
    effects: Sequence[LoadEffect],
    guards: Sequence[Record],
    evidence: Sequence[Record],
    reversed_between: Sequence[str] = (),
) -> str:
    """The verdict as text that carries its conditions; `reversed_between`: what the treatment made better for one
    population and worse for another."""
    card = reading.bundle.card
    where = "At a cold start of" if cold_start(card) else "On"
    place = f"{where} {model_name(card)} with {engine(card)}, for {workload(card)}"
    claim, kind = card["claim"], str(card["workload"]["load_kind"])
    limit = wording.threshold(claim["threshold"]["value"], claim["threshold"]["scale"], claim["direction"])
    if verdict.word == "invalid":
        return f"{place}, this run says nothing about {treatment(card)}: {verdict.findings[0].text}: invalid."
    parts = [_capital(f"{f.text}. ") for f in verdict.findings if f.code in _NO_TREATMENT]
    shown = [e for e in effects if e.claimed or (verdict.word == "mixed" and e.zero_interval is not None)]
    blocks = f"over {wording.count(reading.valid_blocks, 'block')}"
    together = verdict.word == "mixed" or claim["scope"] == "some_load"
    if len(shown) == 1:
        what = _effect(shown[0], claim, reading, together)
        blocks = f", {blocks}" if ", that is " in what else f" {blocks}"
        parts.append(f"{place} at {wording.load(shown[0].load, kind)}, {treatment(card)} {what}{blocks}")
    else:
        whats = [f"at {wording.load(e.load, kind)} {_effect(e, claim, reading, together)}" for e in shown]
        parts.append(f"{place}, {treatment(card)} {'; '.join(whats)}, {blocks}")
    parts.append(f"; the threshold was {limit}: {verdict.word}.")
    confidence = float(card["analysis"]["confidence"])
    picking = picking_level(claim, effects, confidence)
    parts += [_more(e, claim, reading, picking) for e in shown if e.word in ("inconclusive", "falsified")]
    parts += [_capital(f" {f.text}.") for f in verdict.findings if f.code in _COSTS]
    parts += [_capital(f" {f.text}.") for f in verdict.findings if f.code in _SAID]
    codes = {f.code for f in verdict.findings}
    names = [name for name in confounded(reading.bundle) if "places" not in codes or not of_a_place(name)]
    if names and "confounded" not in codes:
        parts.append(f" Confounded with the treatment: {wording.listed(names)}.")
    if reversed_between:
        parts.append(f" Reversed between populations: {'; '.join(reversed_between)}.")
    return "".join(parts)


def _capital(text: str) -> str:
    """The text with its first letter large."""
    start = len(text) - len(text.lstrip())
    return text[:start] + text[start : start + 1].upper() + text[start + 1 :]


def _effect(at: LoadEffect, claim: Record, reading: Reading, together: bool = False) -> str:
    """`raised goodput by 34% (95% interval 28% to 41%), that is +2.1 req/s (+1.4 to +2.8)`. `together`: the intervals
    of all loads hold jointly (Bonferroni), as they must where a load is picked or a reversal is told."""
    level = f"{100 * float(reading.bundle.card['analysis']['confidence']):g}%"
    effect, metric = at.effect, str(claim["metric"])
    named = wording.of(metric, claim.get("population"))
    if effect is None:
        return f"has no effect on {named} that can be computed ({at.reason})"
    if effect.lower is None or effect.upper is None:
        shown = wording.signed(wording.on_scale(effect.mean, effect.scale, metric))
        return f"changed {named} by {shown} (no interval: {at.reason})"
    if effect.scale == "scaled":
        return _scaled(at, claim, level)
    lower, upper = effect.lower, effect.upper
    if together and at.zero_interval is not None:
        (lower, upper), level = at.zero_interval, f"joint {level}"
    verb, size = wording.change(effect.mean, lower, upper, effect.threshold, effect.scale, metric)
    return f"{verb} {named} by {size.format(level=level)}" + _absolute(at, effect, reading, together)


def _absolute(at: LoadEffect, effect: Effect, reading: Reading, together: bool) -> str:
    """The same change in the metric's own unit, which describes: `, that is +2.1 req/s (+1.4 to +2.8)`."""
    card = reading.bundle.card
    metric, confidence = str(card["claim"]["metric"]), float(card["analysis"]["confidence"])
    if together:
        confidence = 1 - (1 - confidence) / len(card["workload"]["loads"])
    row = absolute(at.pairs, ALL_METRICS[metric].unit, confidence)
    if effect.scale != "log" or row["difference"] is None or not any((row["difference"], *(row["interval"] or ()))):
        return ""
    return f", that is {wording.absolute(row['difference'], row['interval'], row['unit'])}"


def _scaled(at: LoadEffect, claim: Record, level: str) -> str:
    """With a zero in some block there is no ratio: how far the candidate lies from the threshold's multiple of the
    baseline."""
    effect, metric = at.effect, str(claim["metric"])
    if effect is None or effect.lower is None or effect.upper is None:
        return ""
    sign = 1 if claim["direction"] == "must_rise_by" else -1
    multiple = f"{1 + sign * claim['threshold']['value']:.6g} × the baseline's"
    side = "above" if effect.lower > 0 else "below" if effect.upper < 0 else "from"

    def show(value: float) -> str:
        """A distance from the multiple, in the metric's unit."""
        text = wording.on_scale(value, "scaled", metric)
        return wording.signed(text) if side == "from" else text.removeprefix("-")

    # a distance below is shown without its sign, so the nearer end comes first
    ends = (effect.upper, effect.lower) if side == "below" else (effect.lower, effect.upper)
    bounds = f"{level} interval {show(ends[0])} to {show(ends[1])}; it was zero in some block"
    return f"put {wording.of(metric, claim.get('population'))} {show(effect.mean)} {side} {multiple} ({bounds})"


def _more(at: LoadEffect, claim: Record, reading: Reading, picking: float) -> str:
    """What an inconclusive or falsified effect still needs said; `picking`: the level at which a load must show it."""
    effect = at.effect
    if effect is None or effect.lower is None or effect.upper is None:
        return ""
    where = f" At {wording.load(at.load, str(reading.bundle.card['workload']['load_kind']))}"
    if at.word == "falsified":
        up = claim["direction"] == "must_rise_by"
        if effect.scale != "scaled" and (effect.lower > 0 if up else effect.upper < 0):
            return f"{where} there is {'a rise' if up else 'a fall'}, smaller than the claim."
        return ""
    if "few_blocks" in effect.flags:
        return f"{where} there are {at.reason}."
    if not effect.stdev:
        return f"{where} every block gave the threshold itself."
    return where + _detectable(effect, claim, float(reading.bundle.card["analysis"]["confidence"]), picking)


def _detectable(effect: Effect, claim: Record, confidence: float, picking: float) -> str:
    """What these blocks can see, and how many it would take."""
    if effect.word != "inconclusive" or not effect.stdev:
        return " the interval passes the threshold, but not after correction for several loads."
    blocks = len(effect.d)
    smallest = smallest_detectable(effect.stdev, blocks, picking) or 0.0
    size = wording.on_scale(smallest, effect.scale, str(claim["metric"]))
    text = f" the interval spans the threshold: {blocks} blocks with this spread detect (power 80%) an effect {size}"
    wanted = needed(effect, claim, confidence, picking)
    return f"{text} beyond it" + (f"; one as far from it as the one seen takes {wanted} blocks." if wanted else ".")

"""The resolved card: the keys that the analysis cannot do without, checked before anything is computed."""

from __future__ import annotations

from typing import Any

from .records import BundleError, Record, need, one_of, require_version

#: format version of the card that this analysis reads (1: first)
CARD_VERSION = 1

ARMS = ("baseline", "candidate")
#: the baseline and its second run, in an A/A block
AA_ARMS = ("baseline", "baseline_aa")

#: key paths of the resolved card that the analysis cannot do without, and what they must be
_CARD_KEYS: dict[str, type | tuple[type, ...]] = {
    "kind": str,
    "id": str,
    "system": dict,
    "arms": dict,
    "workload.arrivals": dict,
    "workload.load_kind": str,
    "workload.loads": list,
    "workload.window": dict,
    "method.blocks": int,
    "validity.schedule_lag_p99": (int, float),
    "validity.delivered_load_within": (int, float),
    "validity.client_cpu": (int, float),
    "validity.clock_ratio": (int, float),
    "validity.loop_lag_p99": (int, float),
    "validity.client_starved": (int, float),
    "validity.coalesced_chunks": (int, float),
    "validity.client_error": (int, float),
    "analysis.confidence": (int, float),
    "analysis.revision": str,
}
_AB_KEYS: dict[str, type | tuple[type, ...]] = {
    # null where neither the claim nor a guard needs them
    "objectives": (dict, type(None)),
    "claim.metric": str,
    "claim.direction": str,
    "claim.threshold.value": (int, float),
    "claim.threshold.scale": str,
    "claim.scope": str,
    "claim.at": list,
    "second_day.agreement": (int, float),
}


def check_card(card: Record, where: str) -> None:
    """Refuse a card that lacks a key, or holds something the analysis has no rule for; `where` names the file."""
    require_version(card, "card", CARD_VERSION, where)
    for path, wanted in _CARD_KEYS.items():
        need(card, path, wanted, where)
    if not 0 < card["analysis"]["confidence"] < 1:
        raise BundleError(f"{where}: analysis.confidence is {card['analysis']['confidence']!r}; wanted between 0 and 1")
    if "attainment" in card["analysis"]:  # a card from before it has no target
        target = need(card, "analysis.attainment", (int, float), where)
        if not 0 < target < 1:
            raise BundleError(f"{where}: analysis.attainment is {target!r}; wanted between 0 and 1")
    if card["workload"].get("test", "serving") not in ("serving", "cold_start"):
        raise BundleError(f"{where}: workload.test is {card['workload']['test']!r}; wanted serving or cold_start")
    if card["kind"] not in ("ab", "baseline"):
        raise BundleError(f"{where}: kind is {card['kind']!r}; wanted ab or baseline")
    if "baseline" not in card["arms"] or (card["kind"] == "ab" and "candidate" not in card["arms"]):
        raise BundleError(
            f"{where}: arms are {', '.join(card['arms'])}; wanted baseline (and candidate, for an ab card)"
        )
    _check_steady_state(card, where)
    _check_populations(card, where)
    if card["kind"] == "ab":
        for path, wanted in _AB_KEYS.items():
            need(card, path, wanted, where)
        _check_rows(card, where)
        _check_aa(card, where)
        if card["method"].get("swap") is not None:  # null, or absent in a card from before it
            need(card, "method.swap.after_block", int, where)


def _check_aa(card: Record, where: str) -> None:
    """method.aa: null, absent (a card from before it), or a number of blocks, loads that the workload has, a margin."""
    declared = card["method"].get("aa")
    if declared is None:
        return
    place = f"{where}: method.aa"
    need(declared, "blocks", int, place)
    _check_loads(need(declared, "at", list, place), card, place)
    _check_threshold(declared, "within", place)
    if declared["within"]["scale"] != card["claim"]["threshold"]["scale"]:
        raise BundleError(f"{place}: within is {declared['within']['scale']}, and the claim's threshold is not")


def _check_steady_state(card: Record, where: str) -> None:
    """validity.steady_state: null, absent (a card from before it) or loads that the workload has, with a limit."""
    declared = card["validity"].get("steady_state")
    if declared is None:
        return
    place = f"{where}: validity.steady_state"
    _check_loads(need(declared, "at", list, place), card, place)
    if not need(declared, "drift_within", (int, float), place) > 0:
        raise BundleError(f"{place}: drift_within is {declared['drift_within']!r}; wanted above 0")


def _check_populations(card: Record, where: str) -> None:
    """Populations, where there are any: a share each, and the ones that the claim and the guards name."""
    populations = card["workload"].get("populations") or {}
    for name in populations:
        place = f"{where}: workload.populations"
        need(populations, name, dict, place)
        key = "share" if populations[name].get("share_by_level") is None else "share_by_level"
        need(populations, f"{name}.{key}", (int, float) if key == "share" else list, place)
    guards = [(f"guards[{i}]", row) for i, row in enumerate(card.get("guards") or [])]
    for place, row in [("claim", card.get("claim") or {}), *guards]:
        if row.get("population") is not None and row["population"] not in populations:
            known = ", ".join(populations) or "none"
            raise BundleError(f"{where}: {place}.population is {row['population']!r}; the workload has {known}")


def _check_rows(card: Record, where: str) -> None:
    """The claim, the guards and the evidence: known words, and loads that the workload has."""
    one_of(card["claim"], "direction", ("must_rise_by", "must_fall_by"), f"{where}: claim")
    one_of(card["claim"], "scope", ("loads", "every_load", "some_load"), f"{where}: claim")
    _check_threshold(card["claim"], "threshold", f"{where}: claim")
    _check_loads(card["claim"]["at"], card, f"{where}: claim")
    if not card["claim"]["at"]:
        raise BundleError(f"{where}: claim.at is empty; wanted at least one load")
    for i, row in enumerate(card.get("guards") or []):
        place = f"{where}: guards[{i}]"
        need(row, "metric", str, place)
        one_of(row, "direction", ("may_rise_by", "may_fall_by"), place)
        _check_threshold(row, "margin", place)
        _check_loads(row.get("at") or [], card, place)
    for i, row in enumerate(card.get("evidence") or []):
        place = f"{where}: evidence[{i}]"
        need(row, "metric", str, place)
        need(row, "limit", (int, float), place)
        one_of(row, "direction", ("at_least", "at_most"), place)
        one_of(row, "arm", ARMS, place)


def _check_threshold(row: Record, key: str, where: str) -> None:
    value = need(row, f"{key}.value", (int, float), where)
    if value < 0 or (value >= 1 and row[key].get("scale") == "relative" and "fall" in str(row.get("direction"))):
        raise BundleError(f"{where}: {key}.value is {value!r}; wanted at least 0, and below 100% for a fall")
    one_of(row[key], "scale", ("relative", "points"), f"{where}: {key}")


def _check_loads(at: list[Any], card: Record, where: str) -> None:
    strangers = [load for load in at if load not in card["workload"]["loads"]]
    if strangers:
        known = ", ".join(str(load) for load in card["workload"]["loads"])
        raise BundleError(f"{where}: at names load {strangers[0]!r}; the workload has {known}")

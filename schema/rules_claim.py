"""Rules about what is claimed: metrics, directions, scales, loads, guards, evidence, power."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .defaults import Filled
from .errors import Problem
from .metrics import PERCENTILE_NEEDS, SERVER_METRIC_UNITS, Metric, metric
from .phrase import KeyPath, did_you_mean, show, words
from .quantity import format_quantity

_RISE = ("must_rise_by", "may_rise_by")
_BOUNDS = ("must_rise_by", "must_fall_by", "may_rise_by", "may_fall_by")


def statements(filled: Filled) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
    """The claim and the guards: what names a metric, a bound and loads."""
    claim = filled.get("claim")
    if isinstance(claim, dict):
        yield ("claim",), claim
    for index, guard in enumerate(filled.get("guards") or []):
        if isinstance(guard, dict):
            yield ("guards", index), guard


def _at_loads(filled: Filled) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
    """What names loads of the workload under `at`."""
    yield from statements(filled)
    steady = filled.get("validity", "steady_state")
    if isinstance(steady, dict):
        yield ("validity", "steady_state"), steady
    aa = filled.get("method", "aa")
    if isinstance(aa, dict):
        yield ("method", "aa"), aa


def _bounded(filled: Filled) -> Iterator[tuple[KeyPath, Metric, str, dict[str, Any]]]:
    """Each statement with a known metric and a bound: the bound's path, the metric, the bound's key and value."""
    for path, statement in statements(filled):
        known = metric(statement.get("metric") or "")
        for key in _BOUNDS:
            if known is not None and isinstance(statement.get(key), dict):
                yield (*path, key), known, key, statement[key]


def _direction_fits_metric(filled: Filled) -> Iterator[Problem]:
    """A claim is that something gets better, a guard that nothing gets worse by more than its margin."""
    for path, known, key, _ in _bounded(filled):
        wants_higher = key == "must_rise_by" or key == "may_fall_by"
        if wants_higher != (known.better == "higher"):
            right = key.replace("rise", "fall") if key in _RISE else key.replace("fall", "rise")
            found = f"{key} for {known.name}, where {known.better} is better"
            yield filled.problem(path, found, right, "a claim names an improvement, a guard a regression", at_key=True)


def _points_for_proportions(filled: Filled) -> Iterator[Problem]:
    for path, known, _, bound in _bounded(filled):
        if bound["scale"] == "points" and known.scale != "proportion":
            found = f"{format_quantity('change', bound)} for {known.name}"
            yield filled.problem(
                path, found, "a relative change such as 5%", "points are for proportions, such as error_rate"
            )


def loads_of(filled: Filled) -> tuple[list[float], str]:
    """The card's loads as floats and how they are written ('rate' or 'load'); no loads if they are absent or wrong."""
    rates, clients = filled.get("workload", "loads"), filled.get("workload", "concurrency")
    loads = [load for load in (rates or clients or []) if load is not None]
    return [float(load) for load in loads], "rate" if rates else "load"


def _errors_in_points(filled: Filled) -> Iterator[Problem]:
    """A system without errors has no 5% of them to lose: its margin would be nothing."""
    for path, known, _, bound in _bounded(filled):
        if known.name == "error_rate" and bound["scale"] == "relative":
            found = f"{format_quantity('change', bound)} of an error rate"
            yield filled.problem(path, found, "points such as 0.5 pt", "a share of an error rate of zero is no margin")


def attempts_a_cell(filled: Filled, statement: dict[str, Any]) -> int | None:
    """About how many attempts count in the smallest cell that a statement names; None where the load decides."""
    window = filled.get("workload", "window", "measure")
    loads, kind = loads_of(filled)
    if not isinstance(window, dict):
        return None
    if "requests" in window:
        return int(window["requests"])
    at = statement.get("at")
    named = [float(load) for load in at if load is not None] if isinstance(at, list) else loads
    return round(window["seconds"] * min(named)) if kind == "rate" and named else None


def _percentiles_have_values(filled: Filled) -> Iterator[Problem]:
    """A percentile of few values is their largest one under another name."""
    for path, statement in statements(filled):
        quantity, _, statistic = str(statement.get("metric")).partition(".")
        needs = PERCENTILE_NEEDS.get(statistic)
        if needs is None or quantity in ("itl", "itl_retokenized", "icl"):
            continue
        values = attempts_a_cell(filled, statement)
        values = None if values is None else round(values * _share(filled, statement.get("population")))
        if values is not None and values < needs:
            found = f"{statement['metric']} of about {values} attempts a cell"
            wanted = f"a window that holds {needs} attempts, or a lower percentile"
            yield filled.problem((*path, "metric"), found, wanted, f"{statistic} needs {needs} values")


def _share(filled: Filled, population: str | None) -> float:
    """The share of all requests that a statement is about: a population's (its mean over the levels), else 1."""
    own = filled.get("workload", "populations", population) if population else None
    if not isinstance(own, dict):
        return 1.0
    levels = [share for share in own.get("share_by_level") or [] if share is not None]
    return sum(levels) / len(levels) if levels else float(own.get("share") or 1.0)


def _populations_exist(filled: Filled) -> Iterator[Problem]:
    """A population that is misspelt has no requests, and nothing could be said of it."""
    names = list(filled.get("workload", "populations") or {})
    for path, statement in statements(filled):
        name = statement.get("population")
        if name is None or name in names:
            continue
        where = (*path, "population")
        if names:
            yield filled.problem(where, show(name), f"a population: {words(names)}", did_you_mean(name, names))
        else:
            yield filled.problem(
                where, f"{show(name)} on a card without populations", "workload.populations, or no such key"
            )


def _at_declared_loads(filled: Filled) -> Iterator[Problem]:
    """Nothing can be said about a load that is not run."""
    loads, kind = loads_of(filled)
    if not loads:
        return
    wanted = ", ".join(format_quantity(kind, load if kind == "rate" else int(load)) for load in loads)
    named: list[tuple[KeyPath, Any]] = [(("workload", "operating_point"), filled.get("workload", "operating_point"))]
    for path, statement in _at_loads(filled):
        if filled.on_card(*path, "at") and isinstance(statement.get("at"), list):
            named += [((*path, "at", index), load) for index, load in enumerate(statement["at"])]
    for path, load in named:
        if load is None:
            continue
        is_rate = isinstance(load, float)
        if float(load) not in loads or is_rate != (kind == "rate"):
            yield filled.problem(path, format_quantity("load", load), f"a load of the workload: {wanted}")


def _loads_once(filled: Filled) -> Iterator[Problem]:
    """2 req/s and 120 req/min are one load."""
    for key in ("loads", "concurrency"):
        seen: list[float] = []
        for index, load in enumerate(filled.get("workload", key) or []):
            if load is not None and load in seen:
                kind = "rate" if key == "loads" else "load"
                yield filled.problem(
                    ("workload", key, index), f"{format_quantity(kind, load)} a second time", "each load once"
                )
            seen.append(load)
    for path, statement in _at_loads(filled):
        at = statement.get("at")
        if filled.on_card(*path, "at") and isinstance(at, list):
            for index, load in enumerate(at):
                if load is not None and load in at[:index]:
                    found = f"{format_quantity('load', load)} a second time"
                    yield filled.problem((*path, "at", index), found, "each load once")


def _limits_latency(filled: Filled, *path: str) -> bool:
    """Whether objectives on the card (or what stands there in their place) hold more than success and output."""
    objectives = filled.root.at(path)
    return objectives is not None and (
        not isinstance(objectives.value, dict) or bool(set(objectives.mapping) - {"success", "output"})
    )


def _objectives_for_goodput(filled: Filled) -> Iterator[Problem]:
    """Without a latency objective every reply is good, and goodput is throughput under another name."""
    if _limits_latency(filled, "objectives"):
        return
    populations = list(filled.get("workload", "populations") or {})
    for path, statement in statements(filled):
        named = [statement["population"]] if statement.get("population") else populations
        if named and all(_limits_latency(filled, "workload", "populations", name, "objectives") for name in named):
            continue
        if statement.get("metric") in ("goodput", "attainment"):
            wanted = "objectives such as ttft: {at_most: 600 ms}"
            hint = "good means that every objective is met"
            yield filled.problem(
                (*path, "metric"), f"{statement['metric']} on a card without latency objectives", wanted, hint
            )


def _costs_have_guards(filled: Filled) -> Iterator[Problem]:
    if filled.get("hypothesis", "may_cost") and not filled.root.mapping.get("guards", filled.root).items:
        wanted = "a guard for each cost, under guards"
        yield filled.problem(("hypothesis", "may_cost"), "costs that no guard watches", wanted, at_key=True)


def _guards_once(filled: Filled) -> Iterator[Problem]:
    """Two margins for one metric at one load: the wider one would be no guard."""
    seen: set[tuple[str, str | None, float]] = set()
    loads, _ = loads_of(filled)
    for index, guard in enumerate(filled.get("guards") or []):
        if not isinstance(guard, dict) or guard.get("metric") is None or guard.get("at") is None:
            continue
        at = loads if isinstance(guard["at"], str) else [float(load) for load in guard["at"] if load is not None]
        population = guard.get("population")
        again = [load for load in at if (guard["metric"], population, load) in seen]
        if again:
            of = f" of {population}" if population else ""
            found = f"a second guard on {guard['metric']}{of} at the same load"
            yield filled.problem(("guards", index), found, "one margin a metric and load")
        seen.update((guard["metric"], population, load) for load in at)


def _evidence_limits(filled: Filled) -> Iterator[Problem]:
    """A hit rate is a percentage; a length is a number."""
    for index, item in enumerate(filled.get("evidence") or []):
        unit = SERVER_METRIC_UNITS.get((item or {}).get("metric") or "")
        for key in ("at_least", "at_most"):
            path: KeyPath = ("evidence", index, key)
            if unit is None or not filled.on_card(*path) or item.get(key) is None:
                continue
            written = filled.root.mapping["evidence"].items[index].mapping[key].value
            percent = isinstance(written, str) and "%" in written
            if unit == "1" and not percent:
                candidates = f"{show(written)}% or {format_quantity('fraction', item[key])}"
                yield filled.problem(
                    path, f"{show(written)} without a unit", candidates, f"{item['metric']} is a proportion"
                )
            elif unit == "1" and item[key] > 1:
                yield filled.problem(path, show(written), "at most 100%", f"{item['metric']} is a proportion")
            elif unit != "1" and percent:
                yield filled.problem(path, show(written), "a number such as 1.5", f"{item['metric']} is in {unit}")


def _evidence_can_be_read(filled: Filled) -> Iterator[Problem]:
    """The counters of a server that somebody else runs are read at the address the card names."""
    for index, item in enumerate(filled.get("evidence") or []):
        arm = (item or {}).get("arm")
        server = filled.get("arms", arm, "server") if arm else None
        if filled.engine == "openai" and isinstance(server, dict) and server.get("metrics") is None:
            found = f"evidence from {arm}, whose server.metrics is not on the card"
            yield filled.problem(
                ("evidence", index, "arm"), found, f"arms.{arm}.server.metrics, the address of its counters"
            )


def _power_beyond_threshold(filled: Filled) -> Iterator[Problem]:
    """An effect that lies on the threshold or short of it is not found, however many blocks are run."""
    expect = filled.get("power", "expect")
    bound = filled.get("claim", "must_rise_by") or filled.get("claim", "must_fall_by")
    if not isinstance(expect, dict) or not isinstance(bound, dict):
        return
    found = format_quantity("change", expect)
    if expect["scale"] != bound["scale"]:
        yield filled.problem(("power", "expect"), found, f"the claim's scale, as in {format_quantity('change', bound)}")
    elif expect["value"] <= bound["value"]:
        wanted = f"more than the claim's threshold, {format_quantity('change', bound)}"
        yield filled.problem(
            ("power", "expect"), found, wanted, "such a claim would not be supported even if it were true"
        )


CLAIM_RULES = (
    _direction_fits_metric,
    _points_for_proportions,
    _errors_in_points,
    _percentiles_have_values,
    _populations_exist,
    _at_declared_loads,
    _loads_once,
    _objectives_for_goodput,
    _costs_have_guards,
    _guards_once,
    _evidence_limits,
    _evidence_can_be_read,
    _power_beyond_threshold,
)

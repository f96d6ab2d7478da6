"""The resolved card: a filled one in the form that every other part reads (card.resolved.json)."""

from __future__ import annotations

from typing import Any

from .defaults import Filled
from .quality import resolved_gate
from .quantity import is_size, parse

_DIRECTIONS = ("must_rise_by", "must_fall_by", "may_rise_by", "may_fall_by", "at_least", "at_most")


def resolve(filled: Filled) -> dict[str, Any]:
    """The resolved card of a filled one without problems. Absent parts are null; no key is missing."""
    values = filled.values
    workload = _workload(values["workload"], filled)
    loads = workload["loads"]
    ab = values["kind"] == "ab"
    return {
        "card": values["card"],
        "kind": values["kind"],
        "id": values["id"],
        "title": values["title"],
        "decision": values["decision"],
        "hypothesis": values.get("hypothesis"),
        "claim": _claim(values["claim"], loads) if ab else None,
        "guards": [_guard(guard, loads) for guard in values.get("guards") or []],
        "evidence": [_evidence(item) for item in values.get("evidence") or []],
        "level": values["level"],
        "system": _system(values["system"]),
        "arms": {
            arm: _arm(values["arms"].get(arm) or {}) for arm in (("baseline", "candidate") if ab else ("baseline",))
        },
        "tuning": values["arms"].get("tuning"),
        "identity": values["identity"],
        "workload": workload,
        "objectives": _objectives(values.get("objectives")),
        "quality": [resolved_gate(row) for row in values.get("quality") or []],
        "method": _method(values["method"], loads),
        "power": _power(values.get("power")),
        "validity": _validity(values["validity"], loads),
        "analysis": values["analysis"],
        "second_day": values.get("second_day"),
        "outputs": values["outputs"],
    }


def _direction(values: dict[str, Any]) -> tuple[str, Any]:
    return next((key, values[key]) for key in _DIRECTIONS if values.get(key) is not None)


def _loads(at: list[float] | str, loads: list[float]) -> list[float]:
    return list(loads) if isinstance(at, str) else [float(load) for load in at]


def _claim(values: dict[str, Any], loads: list[float]) -> dict[str, Any]:
    direction, threshold = _direction(values)
    at = values["at"]
    return {
        "metric": values["metric"],
        "direction": direction,
        "threshold": threshold,
        "scope": at if isinstance(at, str) else "loads",
        "at": _loads(at, loads),
        "population": values["population"],
    }


def _guard(values: dict[str, Any], loads: list[float]) -> dict[str, Any]:
    direction, margin = _direction(values)
    return {
        "metric": values["metric"],
        "direction": direction,
        "margin": margin,
        "at": _loads(values["at"], loads),
        "population": values["population"],
    }


def _evidence(values: dict[str, Any]) -> dict[str, Any]:
    direction, limit = _direction(values)
    return {"metric": values["metric"], "arm": values["arm"], "direction": direction, "limit": limit}


def _validity(values: dict[str, Any], loads: list[float]) -> dict[str, Any]:
    steady = values["steady_state"]
    return values | {"steady_state": None if steady is None else steady | {"at": _loads(steady["at"], loads)}}


def _system(values: dict[str, Any]) -> dict[str, Any]:
    launch = values.get("launch") or {"restart": "never", "ready_within": 300.0}
    return {
        "engine": values["engine"],
        "model": {"path": None, "tokenizer_config": None, "chat_template": None} | values["model"],
        "flags": flags(values.get("flags")),
        "hardware": values["hardware"],
        "launch": {"python": None, "command": None, "env": {}, "restart": None, "idle": None, "ready_within": None}
        | launch,
        "neighbours": values["neighbours"],
    }


def _arm(values: dict[str, Any]) -> dict[str, Any]:
    server = values.get("server")
    if server is not None and server["api_key"] is not None:
        server = server | {"api_key": {key: name for key, name in server["api_key"].items() if name is not None}}
    return {
        "flags": flags(values.get("flags")),
        "env": values.get("env") or {},
        "server": server,
        "expect": values.get("expect") or {},
    }


def flags(values: dict[str, Any] | None) -> dict[str, Any]:
    """Flags with sizes (`35 GiB`) in bytes; all else as written."""
    return {
        name: parse("size", value) if isinstance(value, str) and is_size(value) else value
        for name, value in (values or {}).items()
    }


def _workload(values: dict[str, Any], filled: Filled) -> dict[str, Any]:
    rate = values.get("loads") is not None
    point = values.get("operating_point")
    cap = values["client"]["in_flight"]
    client = values["client"] | {"in_flight": None if cap == "unlimited" else cap}
    return {
        "test": values["test"],
        "arrivals": values["arrivals"],
        "load_kind": "rate" if rate else "concurrency",
        "slowdown": values["slowdown"],
        "loads": [float(load) for load in values["loads" if rate else "concurrency"]],
        "operating_point": None if point is None else float(point),
        "window": values["window"],
        "endpoint": values["endpoint"],
        "populations": _populations(values, filled),
        "requests": values["requests"] | {"prefix": _prefix(values["requests"].get("prefix"))},
        "modality": values["modality"],
        "priority": values["priority"],
        "sampling": values["sampling"],
        "cache_state": values["cache_state"],
        "client": client,
    }


def _prefix(values: dict[str, Any] | None) -> dict[str, Any] | None:
    unlimited = values is not None and values["documents"] == "unlimited"
    return {**(values or {}), "documents": None} if unlimited else values


def _populations(workload: dict[str, Any], filled: Filled) -> dict[str, Any] | None:
    """Each population whole: what it does not name is the workload's (objectives: null where it has no own ones)."""
    populations = workload["populations"]
    if populations is None:
        return None
    return {
        name: {
            "share": own["share"],
            "share_by_level": own["share_by_level"],
            "lengths": own["lengths"] or workload["requests"]["lengths"],
            "prefix": _prefix(own["prefix"] or workload["requests"]["prefix"]),
            "priority": workload["priority"] if own["priority"] is None else own["priority"],
            "sampling": workload["sampling"] | (own["sampling"] or {}),
            "objectives": _own_objectives(own["objectives"], filled.values.get("objectives")),
        }
        for name, own in populations.items()
    }


def _own_objectives(own: dict[str, Any] | None, card: dict[str, Any] | None) -> dict[str, Any] | None:
    if not own:
        return None
    output = {**((card or {}).get("output") or {}), **(own.get("output") or {})}
    return _objectives({**(card or {}), **own, "output": output})


def _objectives(values: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if values is None else {key: value for key, value in values.items() if value is not None}


def _method(values: dict[str, Any], loads: list[float]) -> dict[str, Any]:
    blocks, aa = values.get("blocks") or values["repeats"], values.get("aa")
    return {
        "blocks": blocks,
        "aa": None if aa is None else {"across": None, "command": None} | aa | {"at": _loads(aa["at"], loads)},
        "swap": values.get("swap"),
        **{key: values[key] for key in ("seed", "spare_blocks", "pause_between_cells")},
    }


def _power(values: dict[str, Any] | None) -> dict[str, Any] | None:
    if values is None:
        return None
    return {"expect": values["expect"]["value"]} | {key: values[key] for key in ("chance", "spread", "override")}

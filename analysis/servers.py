"""Servers that somebody else runs: how many answered, how far they were, and whether the way held streams back."""

from __future__ import annotations

import polars as pl

from .card import ARMS
from .read import Bundle
from .records import Record
from .view import CellView, Observation

#: fields of an identity that have conditions of their own here, and one that changes from reply to reply
SAID = ("server.round_trip", "server.replicas_seen", "server.buffering", "server.answered_by")
_STARTED = "process_start_time_seconds"
#: clocks of two hosts may differ by this much, s
_CLOCKS = 60.0
#: a round trip of this share of the objective on TTFT is said to be one
_LARGE = 0.1


def replicas(card: Record, arm: str) -> int:
    """How many replicas answer at an arm's address by the card; with arms that exchange places, the larger number."""
    arms = ARMS if card["method"].get("swap") or (card["method"].get("aa") or {}).get("across") else (arm,)
    servers = [(card["arms"].get(name) or {}).get("server") or {} for name in arms]
    return max(int(server.get("replicas") or 1) for server in servers)


def is_external(view: CellView) -> bool:
    """Whether somebody else runs the cell's server, and its metrics name their process."""
    server = (view.card["arms"].get("baseline") or {}).get("server")
    return bool(server) and view.server is not None and not view.server.filter(pl.col("name") == _STARTED).is_empty()


def unknown_processes(view: CellView) -> Observation:
    """How many processes more answered at the metrics address than the card has replicas. Only those count that were up
    before the load began: a server that was started anew meanwhile is another matter."""
    if view.server is None or view.client is None:
        return None, "no telemetry"
    begun = view.client["wall_start"] / 1e9 - _CLOCKS
    values = view.server.filter(pl.col("name") == _STARTED)
    first = values.filter(pl.col("when") == "before")["value"].to_list()
    old = {value for value in values["value"].to_list() if value < begun} | set(first)
    return float(max(0, len(old) - replicas(view.card, view.cell.arm.removesuffix("_aa")))), None


def behind_a_balancer(bundle: Bundle, arm: str) -> str | None:
    """Why the server's metrics say nothing of an arm: several replicas answer, and each read is of one of them."""
    if not (bundle.card["arms"].get(arm) or {}).get("server"):
        return None
    arms = ARMS if bundle.card["method"].get("swap") else (arm,)
    seen = [((bundle.identity(name) or {}).get("server.replicas_seen") or {}).get("value") for name in arms]
    count = max(replicas(bundle.card, arm), *(int(value) for value in seen if isinstance(value, int)), 1)
    if count < 2:
        return None
    return f"{count} replicas answer at one address, and each reading of the metrics is of one of them"


def condition_rows(bundle: Bundle) -> list[tuple[str, str, str]]:
    """(name, value, source) of the conditions on the way to each server."""
    rows = []
    for arm in (arm for arm in ARMS if arm in bundle.card["arms"]):
        fields = bundle.identity(arm) or {}
        for name, field in (
            ("round trip", fields.get("server.round_trip")),
            ("replicas", fields.get("server.replicas_seen")),
            ("buffering on the way", fields.get("server.buffering")),
        ):
            if field is not None and (bundle.card["arms"][arm].get("server") or name == "round trip"):
                rows.append((f"{name} ({arm})", *_said(bundle, arm, name, field)))
    return rows


def _said(bundle: Bundle, arm: str, name: str, field: Record) -> tuple[str, str]:
    value = field.get("value")
    if field.get("source") == "unknown" or value is None:
        return str(field.get("why") or "not observed"), "unknown"
    if name == "round trip":
        return _round_trip(bundle.card, value), "observed"
    if name == "replicas":
        declared = bundle.card["arms"][arm]["server"].get("replicas") or 1
        return f"{value} seen" + (f", {declared} declared" if declared != value else ""), "observed"
    held = "streams are held back: times of tokens are the buffer's" if value else "none seen in a short stream"
    return held, "observed"


def _round_trip(card: Record, found: Record) -> str:
    """`0.41 ms (0.36 to 0.92 ms, 9 small requests before the first cell)`, and its share of an objective if large."""
    median, low, high = (f"{1e3 * float(found[key]):.3g}" for key in ("median", "min", "max"))
    text = f"{median} ms ({low} to {high} ms, {found['requests']} small requests before the first cell)"
    limit = ((card.get("objectives") or {}).get("ttft") or {}).get("at_most")
    share = float(found["median"]) / limit if isinstance(limit, int | float) and limit else 0.0
    return f"{text}: {share:.0%} of the objective on TTFT" if share >= _LARGE else text

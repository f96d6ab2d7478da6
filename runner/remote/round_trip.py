"""How long a small question takes to a server and back: every latency that the client sees contains one."""

from __future__ import annotations

from statistics import median
from typing import Any

from ..engines.probe import Endpoint
from .line import FAULTS, Line, page_path

#: how many are timed, after one that opens the connection
REQUESTS = 9
#: a round trip that is this share of an objective on TTFT is worth a warning
LARGE_SHARE = 0.1


def round_trip(endpoint: Endpoint) -> dict[str, Any] | str:
    """Seconds of small requests on one connection, one after the other: their median, the fastest and the slowest; or,
    in words, why there are none. /health where the server has it, else its list of models: the server's own work on
    them is part of the time."""
    paths = [page_path(endpoint.root).rstrip("/") + "/health", page_path(endpoint.url) + "/models"]
    try:
        with Line(endpoint.url, endpoint.headers) as line:
            path = next((path for path in paths if line.get(path).status == 200), None)
            if path is None:
                return "no small request was answered"
            seconds = sorted(line.get(path).seconds for _ in range(REQUESTS))
    except FAULTS as error:
        return f"a small request had no answer ({type(error).__name__})"
    return {"median": median(seconds), "min": seconds[0], "max": seconds[-1], "requests": REQUESTS, "path": path}


def large_share(found: Any, objectives: dict[str, Any] | None) -> float | None:
    """The share of the card's objective on TTFT that a round trip is, where it is a large one."""
    limit = ((objectives or {}).get("ttft") or {}).get("at_most")
    if not isinstance(found, dict) or not isinstance(limit, int | float) or not limit:
        return None
    share: float = found["median"] / limit
    return share if share >= LARGE_SHARE else None

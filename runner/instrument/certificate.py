"""The certificate: what the client did on this machine at known loads, and up to which of them it can be trusted.

Its points are facts. Whether one held depends on the error that a card allows (`validity.client_error`): the TTFT (at
the median and the 99th percentile) and the ITL (at the 99th) are then off by no more, and no request was lost.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ...schema.versions import CERTIFICATE_VERSION
from ..client.sizing import Demand
from .point import Client

Point = dict[str, Any]

#: the error up to which the limits in a certificate hold, s; a card has its own (validity.client_error)
LIMIT_ERROR_S = 1e-3


def certificate(points: list[Point], client: Client, loop: str, timer: str) -> dict[str, Any]:
    """The certificate as it is written: where, with what, when, every point, and the largest load of each kind at which
    the errors stay under 1 ms."""
    return {
        "certificate_version": CERTIFICATE_VERSION,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "client": {"workers": client.workers, "loop": loop, "timer": timer, "costs": costs(loop, timer)},
        "limits": {"error": LIMIT_ERROR_S, **limits(points, LIMIT_ERROR_S)},
        "points": points,
    }


def machine() -> dict[str, Any]:
    """The machine and what the client runs on. No host name: a certificate may be published."""
    packages: dict[str, str | None] = {}
    for name in ("benchcard", "uvloop", "httptools"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = None
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": packages,
    }


def costs(loop: str, timer: str) -> list[str]:
    """What the client does without here, and what that costs."""
    found = []
    if loop != "uvloop":
        found.append("no uvloop: about twice the CPU time a token, so about half the load at which the errors hold")
    if timer != "timerfd":
        found.append("no timerfd: requests start on a timer that ticks in milliseconds, about 1 ms late each")
    return found


def held(point: Point, error_s: float) -> bool:
    """Whether the client could be trusted at this point, to within `error_s`."""
    errors = [point["ttft_p50_error"], point["ttft_p99_error"]]
    errors += [point["itl_p99_error"]] if point["tokens"] > 1 else []
    return not point["lost"] and all(error is not None and abs(error) <= error_s for error in errors)


def limits(points: Iterable[Point], error_s: float) -> dict[str, float | None]:
    """The largest load of each kind at which the client held, or None: streams at once, tokens/s, requests/s."""
    good = [point for point in points if held(point, error_s)]

    def most(key: str) -> float | None:
        """The largest value of the key among the points that held."""
        return max((point[key] for point in good), default=None)

    return {
        "streams": most("peak_in_flight"),
        "tokens_per_s": most("tokens_per_s"),
        "requests_per_s": most("requests_per_s"),
    }


def short_of(points: list[Point], error_s: float, demand: Demand) -> str | None:
    """What a card asks for beyond what held, in words; None where it lies within. The cells' own loads decide later."""
    most = limits(points, error_s)
    asked = (
        ("tokens/s", demand.tokens_per_s, most["tokens_per_s"]),
        ("req/s", demand.requests_per_s, most["requests_per_s"]),
        ("streams at once", demand.streams if demand.requests_per_s is None else None, most["streams"]),
    )
    found = [
        f"{want:,.0f} {what}, and the client was right to {error_s * 1e3:g} ms "
        + (f"up to {have:,.0f}" if have else "at none that was tried")
        for what, want, have in asked
        if want is not None and want > (have or 0)
    ]
    return "; ".join(found) or None


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()

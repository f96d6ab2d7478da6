"""Whether the measuring client could be trusted in a cell: what it saw of itself, against limits that the card fixed,
and the cell's load against the loads at which it was seen to be right."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from .read import Bundle
from .records import Record
from .view import NO_TELEMETRY, CellView, Observation
from .window import NS_PER_S, chunk_times

Times = npt.NDArray[np.int64]

#: of the ordered times every so-manieth is looked at first
_STRIDE = 64


def starvation_known(view: CellView) -> bool:
    """Whether the system says how long a process waits for a core (Linux does)."""
    return view.client is None or view.client["run_delay"] is not None


def starved(view: CellView) -> Observation:
    """Run delay / elapsed time of the load."""
    if view.client is None:
        return NO_TELEMETRY
    elapsed = view.client["load_end"] - view.client["load_start"]
    return (view.client["run_delay"] / elapsed, None) if elapsed > 0 else (None, "the load has no length")


def loop_lag(view: CellView) -> Observation:
    """The 99th percentile of the event loop's lateness in the window, s."""
    if view.client is None:
        return NO_TELEMETRY
    lag = view.client["loop_lag_p99"]
    return (None, "the event loop was not watched in the window") if lag is None else (lag / NS_PER_S, None)


def coalesced(view: CellView) -> Observation:
    """Chunks with the time of the one before / all chunks, of the counted attempts (where they have any)."""
    times, rows = chunk_times(view.counted)
    together = (times[1:] == times[:-1]) & (rows[1:] == rows[:-1])
    return float(np.count_nonzero(together)) / len(times), None


def has_chunks(view: CellView) -> bool:
    """Whether any counted attempt got a token: else there is nothing that could have come together."""
    return bool(view.counted["chunk_times"].list.len().sum())


def certified(view: CellView) -> Observation:
    """The smallest factor by which the cell's load exceeds points of the certificate that held (1: it lies within).

    A point vouches for streams and tokens/s together, as they were tried together, and for requests/s; rates are of the
    busiest second, on both sides.
    """
    if view.client is None:
        return NO_TELEMETRY
    if view.certificate is None:
        return None, "there is no certificate of the instrument"
    error = float(view.card["validity"]["client_error"])
    good = [point for point in view.certificate["points"] if held(point, error)]
    if not good:
        return None, f"the client was off by more than {error * 1e3:g} ms at every load that was tried"
    streams, tokens, requests = busiest(view)
    streaming = min(max(streams / point["peak_in_flight"], tokens / point["tokens_per_s"]) for point in good)
    return max(streaming, min(requests / point["requests_per_s"] for point in good)), None


def held(point: Record, error_s: float) -> bool:
    """Whether no request was lost at a point of the certificate, and TTFT (p50 and p99) and ITL (p99) were off by no
    more than `error_s`."""
    errors = [point["ttft_p50_error"], point["ttft_p99_error"]]
    errors += [point["itl_p99_error"]] if point["tokens"] > 1 else []
    return not point["lost"] and all(error is not None and abs(error) <= error_s for error in errors)


def busiest(view: CellView) -> tuple[float, float, float]:
    """Attempts at once, and tokens and requests in the busiest second, over the whole load."""
    assert view.client is not None
    chunks, _ = chunk_times(view.events)
    sent = view.events["queued"].drop_nulls().to_numpy()
    return view.client["peak_in_flight"], busiest_rate(chunks), busiest_rate(sent)


def busiest_rate(times: Times) -> float:
    """The most of these times (ns) that lie within any second, per second; where all lie within less than a second (but
    no less than a tenth), their number over that."""
    ordered = pl.Series(times).sort(multithreaded=False).to_numpy()  # runs in order: a merge is quickest
    if not len(ordered):
        return 0.0
    second = int(min(max(ordered[-1] - ordered[0], NS_PER_S // 10), NS_PER_S))
    side: Literal["left", "right"] = "right" if second < NS_PER_S else "left"

    def within(first: Times) -> Times:
        """How many lie within a second from each of these places on."""
        return np.searchsorted(ordered, ordered[first] + second, side=side) - first

    # From a place on there are at most so many more than from the next one that is looked at as lie between the two.
    looked_at = np.arange(0, len(ordered), _STRIDE)
    found = within(looked_at)
    most = found.max()
    bounds = np.append(found[1:], 0) + np.diff(np.append(looked_at, len(ordered)))
    between = looked_at[bounds > most, None] + np.arange(1, _STRIDE)
    between = between[between < len(ordered)]
    most = max(most, within(between).max(initial=0))
    return float(most * NS_PER_S / second)


def measuring_client(bundle: Bundle) -> list[str]:
    """What the client was, how far it was seen to be right, and what it did without: one text for each that differs."""
    error = float(bundle.card["validity"]["client_error"])
    found = []
    for certificate in bundle.certificates():
        client = certificate.get("client") or {}
        workers = int(client.get("workers") or 1)
        parts = [f"{workers} worker{'s' if workers > 1 else ''} ({client.get('loop')}, {client.get('timer')})"]
        good = [point for point in certificate["points"] if held(point, error)]
        most = {key: max((point[key] for point in good), default=0) for key in ("peak_in_flight", "tokens_per_s")}
        right = f"seen to be right to {error * 1e3:g} ms at "
        reach = f"up to {most['peak_in_flight']} streams and {_rounded(most['tokens_per_s'])} tokens/s"
        parts.append(right + reach if good else f"not {right}any load")
        found.append("; ".join([*parts, *(client.get("costs") or [])]))
    return list(dict.fromkeys(found))


def _rounded(value: float) -> str:
    """Two digits are as many as two certificates of one machine share."""
    return f"{float(f'{value:.2g}'):,.0f}"

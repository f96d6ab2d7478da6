"""What the server's log says of a client's work. Pure. Times in the log are ns; figures are ms and tokens/s."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from server import Reply

#: what a client's inter-token latency is a distribution of
GAPS = "gaps"
REQUEST_MEANS = "request means"


@dataclass(frozen=True)
class Work:
    """What every client is given: a closed loop of `streams`, so many chat requests in all, each of so many tokens."""

    streams: int
    requests: int
    tokens: int


@dataclass(frozen=True)
class Figures:
    """Latencies of the counted replies, ms. `itl` is of gaps or of request means: by the name beside it in a row."""

    ttft_p50: float
    itl_p50: float
    itl_p99: float


class PeerError(Exception):
    """Why a client has no figures, in a line."""


def quantile(values: Iterable[float], share: float) -> float:
    """The quantile between the two nearest values, by linear interpolation (NumPy's default)."""
    ordered = sorted(values)
    if not ordered:
        raise PeerError("nothing to take a quantile of")
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def inter_token(token_times: Iterable[Sequence[int]], kind: str) -> list[float]:
    """Inter-token latencies in ms, from each reply's token times in ns: every gap, or a mean a reply."""
    if kind == REQUEST_MEANS:
        return [(times[-1] - times[0]) / (len(times) - 1) / 1e6 for times in token_times if len(times) > 1]
    return [(later - sooner) / 1e6 for times in token_times for sooner, later in pairwise(times)]


def figures(ttft_ms: Iterable[float], token_times: Iterable[Sequence[int]], kind: str) -> Figures:
    """The figures of a row."""
    gaps = inter_token(token_times, kind)
    return Figures(quantile(ttft_ms, 0.5), quantile(gaps, 0.5), quantile(gaps, 0.99))


def counted(replies: Sequence[Reply], work: Work, ids: Collection[str] | None = None) -> list[Reply]:
    """The replies that the client counts: those with these ids, or the last `work.requests` (what tools send to see
    whether the server is there comes before the work). All must be whole."""
    whole = [reply for reply in replies if len(reply.times) == work.tokens and (ids is None or reply.id in ids)]
    if len(whole) < work.requests:
        raise PeerError(f"the server sent {len(whole)} whole replies, not {work.requests}")
    return whole[-work.requests :]


def server_rate(replies: Sequence[Reply], first: Reply) -> float:
    """Tokens/s at the server from the arrival of `first`: all tokens of it and of what came later, counted or not, up
    to the last token."""
    later = [reply for reply in replies if reply.arrival >= first.arrival and reply.times]
    span = max(reply.times[-1] for reply in later) - first.arrival
    return sum(len(reply.times) for reply in later) / span * 1e9


def true_figures(replies: Sequence[Reply], kind: str) -> Figures:
    """What the server did, by the client's own definition of inter-token latency."""
    waits = ((reply.times[0] - reply.arrival) / 1e6 for reply in replies)
    return figures(waits, (reply.times for reply in replies), kind)

"""Client against server, over the same cell: did both see the same requests, tokens and times?

The client's side is every attempt that it sent, of all phases, since the server's counters run from before the load to
after it; latencies count from when a request was sent, since the server knows nothing of the schedule. What is defined
differently is allowed for, never failed: a reply that was cut off (a timeout, the end of the load) may have been
finished, aborted or left uncounted at the server, and may have cost it as many tokens as were asked for, so counts are
held against a range, and means against every mean that such replies could have made.

Each comparison is a `Compared`: agree, differ, or unknown with the reason. `excess` is what the card limits: how far
the two lie apart beyond what is allowed for, as a share.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from .compared import Compared
from .records import Record
from .sent import Sent, sent_of
from .server_cell import ServerCell
from .view import CellView

#: gauges are compared from so many samples on
SAMPLES = 20
#: engine steps and chunks may differ in number by this share (two tokens in one chunk) for their mean to be compared
STEPS_WITHIN = 0.05


def _limits(card: Record) -> Record | None:
    """The card's limits, or None on a card from before them."""
    validity: Record = card["validity"]
    return validity if "server_requests" in validity else None


def _replicas(view: CellView) -> int:
    """How many replicas answer at the address of the cell's server, as the card says."""
    arms = view.card.get("arms") or {}
    arm = arms.get(view.cell.arm) or arms.get("baseline") or {}
    return int((arm.get("server") or {}).get("replicas") or 1)


def compare(view: CellView) -> tuple[Compared, ...]:
    """Every comparison of a cell; none where the card has no limits for them, the server no metrics, or nothing was
    sent."""
    limits, server = _limits(view.card), view.told
    if limits is None or server is None or view.client is None:
        return ()
    sent = sent_of(view.events)
    if sent is None:
        return ()
    replicas = _replicas(view)
    if replicas > 1:
        server = replace(server, reset=f"its metrics page may be that of one of {replicas} replicas")
    latency = limits["server_latency"]
    relative, absolute = float(latency["relative"]), float(latency["absolute"])
    return (
        _requests(sent, server, float(limits["server_requests"])),
        _tokens("prompt_tokens", sent.prompt, server, float(limits["server_tokens"]), _PROMPT),
        _tokens("output_tokens", sent.output, server, float(limits["server_tokens"]), _OUTPUT, "generation_tokens"),
        _mean("ttft", sent, sent.firsts, server, relative, absolute + sent.connect, _TTFT),
        _itl(sent, server, relative, absolute),
        _mean("e2e", sent, sent.wholes, server, relative, absolute + sent.connect, _E2E),
        _in_system(sent, server, float(limits["littles_law"])),
    )


_REQUESTS = (
    "client: from the complete replies to every try that was sent; server: requests finished, without those it counts "
    "as aborted"
)
_PROMPT = (
    "client: from the prompts of replies that began to those of all that were sent; server: prompts that it prefilled, "
    "with what a cache held of them, counted at their first token"
)
_OUTPUT = "client: from the tokens that came to those that were asked for, of replies that were cut off"
_TTFT = (
    "client: sent to the first token's chunk; server: arrival in its API process to the first token from its engine, "
    "so without network, HTTP and JSON"
)
_ITL = "client: last less first token over the server's number of steps; server: between a request's engine steps"
_E2E = "client: sent to the last token's chunk; server: arrival in its API process to the last token from its engine"
_IN_SYSTEM = (
    "Little's law: rate × mean time from sent to ended, less a request's first step and one more (the gauges are set "
    "at a step's end, so that they miss a request in its first), against running + waiting"
)


def _outside(value: float, least: float, most: float) -> float:
    """How far a value lies below (negative) or above a range."""
    return min(value - least, 0.0) + max(value - most, 0.0)


def _counted(
    what: str, check: str, unit: str, span: tuple[int, int], server: float, limit: float, note: str, of: float
) -> Compared:
    beyond = _outside(server, *span)
    excess = abs(beyond) / of if of else float(beyond != 0)
    return Compared(what, check, unit, span[0], span[1], server, beyond, excess, limit, None, note)


def _unknown(what: str, check: str, unit: str, limit: float, why: str | None, note: str) -> Compared:
    return Compared(what, check, unit, None, None, None, None, None, limit, why or "it was not read", note)


def _requests(sent: Sent, server: ServerCell, limit: float) -> Compared:
    finished, why = server.change("finished")
    if finished is None:
        return _unknown("requests", "server_requests", "requests", limit, why, _REQUESTS)
    whole = finished - server.aborted
    return _counted(
        "requests", "server_requests", "requests", (sent.ok, sent.tries), whole, limit, _REQUESTS, sent.tries
    )


def _tokens(
    what: str, span: tuple[int, int] | None, server: ServerCell, limit: float, note: str, name: str | None = None
) -> Compared:
    made, why = server.change(name or what)
    if span is None:
        why = "the server did not say of each complete reply how many tokens it had"
    if made is None or span is None:
        return _unknown(what, "server_tokens", "tokens", limit, why, note)
    return _counted(what, "server_tokens", "tokens", span, made, limit, note, max(span[1], 1))


def _mean(
    what: str, sent: Sent, values: list[float], server: ServerCell, relative: float, absolute: float, note: str
) -> Compared:
    """A mean latency. Where one side counted more than the other, by no more than were cut off, those may have taken
    anything from nothing to the longest; the means that remain possible are a range on that side."""
    total, why = server.change(f"{what}.sum")
    count, _ = server.change(f"{what}.count")
    if total is not None and not (values and count):
        why = "nothing was observed"
    elif total is not None and not sent.streamed:
        why = "replies were not streamed: the client sees their first token at their end"
    elif count is not None and abs(count - len(values)) > sent.cut:
        why = f"the server observed {count:g}, the client {len(values)}, and {sent.cut} were cut off"
    if why is not None or total is None or count is None:
        return _unknown(what, "server_latency", "s", relative, why, note)
    more = count - len(values)
    theirs, ours = (total / count, total / count), (sum(values) / len(values),) * 2
    if more > 0:
        theirs = (max(0.0, total - more * max(sent.longest_cut, *values)) / len(values), total / len(values))
    elif more < 0:
        least = sorted(values)[: int(count)]
        most = sorted(values)[-int(count) :]
        ours = (sum(least) / count, sum(most) / count)
    apart = max(0.0, ours[0] - theirs[1]) - max(0.0, theirs[0] - ours[1])
    return _latency(what, sum(values) / len(values), total / count, apart, relative, absolute, note)


def _latency(
    what: str, ours: float, theirs: float, apart: float, relative: float, absolute: float, note: str
) -> Compared:
    beyond = max(0.0, abs(apart) - absolute)
    excess = beyond / theirs if theirs > 0 else float(beyond > 0)
    return Compared(what, "server_latency", "s", ours, None, theirs, ours - theirs, excess, relative, None, note)


def _itl(sent: Sent, server: ServerCell, relative: float, absolute: float) -> Compared:
    total, why = server.change("itl.sum")
    count, _ = server.change("itl.count")
    if total is not None and not (count and sent.steps):
        why = "nothing was observed"
    elif count is not None and abs(count - sent.steps) > STEPS_WITHIN * sent.steps:
        why = f"the server observed {count:g} steps, the client {sent.steps} gaps between chunks: they are not the same"
    if why is not None or total is None or not count:
        return _unknown("itl", "server_latency", "s", relative, why, _ITL)
    ours, theirs = sent.gaps / count, total / count
    return _latency("itl", ours, theirs, ours - theirs, relative, absolute, _ITL)


def _in_system(sent: Sent, server: ServerCell, limit: float) -> Compared:
    what, check, unit = "in_system", "littles_law", "requests"
    gauge, why = (None, server.reset) if server.reset else server.in_system
    if gauge is not None and gauge.samples < SAMPLES:
        why = f"gauges were sampled {gauge.samples} times in the load; {SAMPLES} are needed"
    if why is not None or gauge is None or server.seconds is None or gauge.stdev is None:
        return _unknown(what, check, unit, limit, why, _IN_SYSTEM)
    most = sent.sojourn / server.seconds
    prefill, step = server.mean_of("prefill_time"), server.mean_of("itl")
    first = server.mean_of("ttft") if prefill is None else prefill
    if first is None or step is None:
        return _unknown(what, check, unit, limit, "the server does not tell how long its steps were", _IN_SYSTEM)
    least = max(0.0, most - sent.tries * (first + step) / server.seconds)
    beyond = _outside(gauge.mean, least, most)
    error = 3 * gauge.stdev / math.sqrt(gauge.samples)
    excess = max(0.0, abs(beyond) - error) / most if most > 0 else float(beyond != 0)
    return Compared(what, check, unit, least, most, gauge.mean, beyond, excess, limit, None, _IN_SYSTEM)


def crosscheck_rows(cells: Iterable[tuple[Record, Iterable[Compared]]]) -> list[Record]:
    """verdict.json's `crosscheck`: one row a cell that was run and comparison; `cells` gives where each cell is."""
    return [
        place
        | {
            "what": row.what,
            "check": row.check,
            "unit": row.unit,
            "client": row.client,
            "client_most": row.most,
            "server": row.server,
            "difference": row.difference,
            "excess": row.excess,
            "limit": row.limit,
            "word": row.word,
            "why": row.why,
            "note": row.note,
        }
        for place, compared in cells
        for row in compared
    ]

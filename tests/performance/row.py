"""A client's row of the comparison, and the table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from server import Served
from truth import Figures, Work, counted, server_rate, true_figures

#: what a row's CPU time covers
LOAD = "the load only"
WHOLE = "the whole process, start-up included (*)"


@dataclass(frozen=True)
class Row:
    """A client and what it measured. `client` and `truth` are in ms, `rate` in tokens/s at the server, `cpu` in µs a
    counted token. `itl_of` says what its inter-token latencies are of, `cpu_of` what its CPU time covers. `reason` is
    why there are no figures."""

    name: str
    version: str = ""
    rate: float | None = None
    client: Figures | None = None
    truth: Figures | None = None
    itl_of: str = ""
    cpu: float | None = None
    cpu_of: str = ""
    note: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Measured:
    """What a client says of its run. `cpu` in s; `ids` are the X-Request-Ids of what it counted, where it has them."""

    version: str
    figures: Figures
    itl_of: str
    cpu: float
    cpu_of: str
    note: str = ""
    ids: Collection[str] | None = None


def row_of(name: str, measured: Measured, server: Served, work: Work) -> Row:
    """A client's figures beside the server's."""
    replies = server.replies()
    mine = counted(replies, work, measured.ids)
    return Row(
        name,
        measured.version,
        server_rate(replies, mine[0]),
        measured.figures,
        true_figures(mine, measured.itl_of),
        measured.itl_of,
        measured.cpu / (work.requests * work.tokens) * 1e6,
        measured.cpu_of,
        measured.note,
    )


_HEAD = (
    "| client | tokens/s at the server | TTFT p50 ms (truth) | ITL p50 / p99 ms (truth) | CPU µs/token |\n"
    "|---|---:|---:|---:|---:|"
)


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table, and below it what the figures of each client are of."""
    lines = [_HEAD, *map(_line, rows), ""]
    for row in rows:
        if row.client is not None:
            note = f" {row.note}" if row.note else ""
            lines.append(f"- {row.name}: ITL of {row.itl_of}; CPU of {row.cpu_of}.{note}")
    return "\n".join(lines)


def _line(row: Row) -> str:
    name = f"{row.name} {row.version}".strip()
    if row.client is None or row.truth is None:
        return f"| {name} | {row.reason} | | | |"
    client, truth, star = row.client, row.truth, "*" if row.cpu_of == WHOLE else ""
    return (
        f"| {name} | {row.rate:,.0f} | {client.ttft_p50:.1f} ({truth.ttft_p50:.1f}) "
        f"| {client.itl_p50:.2f} / {client.itl_p99:.1f} ({truth.itl_p50:.2f} / {truth.itl_p99:.1f}) "
        f"| {row.cpu:.1f}{star} |"
    )

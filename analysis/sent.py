"""The client's side of the comparison with the server: what it sent and received in a cell, of all phases."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from .window import NS_PER_S


@dataclass(frozen=True)
class Sent:
    """Sums over the attempts that were sent; times in s, from when the last try was sent.

    `tries` were sent for them, `ok` replies were complete, `cut` tries were not, the longest of them after
    `longest_cut`. `prompt` and `output` are the least and the most tokens that they can have cost the server (None
    where the server told of a complete reply not how many it had). `firsts` are TTFTs of replies that began, `wholes`
    E2E of the complete ones, `gaps` and `steps` the time and number of gaps between chunks, `sojourn` all time from
    sent to ended, `connect` the shortest time that a connection took to stand, `streamed` whether every reply was an
    event stream."""

    tries: int
    ok: int
    cut: int
    longest_cut: float
    prompt: tuple[int, int] | None
    output: tuple[int, int] | None
    firsts: list[float]
    wholes: list[float]
    gaps: float
    steps: int
    sojourn: float
    connect: float
    streamed: bool


def sent_of(events: pl.DataFrame) -> Sent | None:
    """The client's side of a cell, or None where nothing was sent."""
    rows = events.lazy().filter(pl.col("sent").is_not_null()).select(
        "outcome", "tries", "sent", "first_token", "last_token", "end", "streamed", "connect_start", "connect_end",
        pl.coalesce("input_tokens", "asked_input_tokens").cast(pl.Int64).alias("prompt"),
        pl.col("asked_output_tokens").cast(pl.Int64).alias("asked"),
        pl.coalesce(pl.when(pl.col("outcome") == "ok").then("output_tokens"), pl.col("chunk_tokens").list.sum(), 0)
        .cast(pl.Int64).alias("got"),
        pl.col("chunk_times").list.len().fill_null(0).cast(pl.Int64).alias("chunks"),
        pl.col("input_tokens").is_not_null().alias("prompt_told"),
        pl.col("output_tokens").is_not_null().alias("output_told"),
    ).collect()  # fmt: skip
    if rows.is_empty():
        return None
    ok, began = pl.col("outcome") == "ok", pl.col("first_token").is_not_null()
    first = (pl.col("first_token") - pl.col("sent")) / NS_PER_S
    whole = (pl.col("last_token") - pl.col("sent")) / NS_PER_S
    lasted = (pl.col("end") - pl.col("sent")) / NS_PER_S
    rest = pl.max_horizontal(pl.col("asked") - pl.col("got"), 0)
    more = pl.max_horizontal(pl.col("tries").fill_null(1), 1).cast(pl.Int64) - 1
    known = {
        "again": more.sum(),
        "ok": ok.sum(),
        "longest_cut": lasted.filter(~ok).max().fill_null(0.0),
        "prompt_least": pl.col("prompt").filter(began).sum(),
        "prompt_most": pl.col("prompt").sum(),
        "prompt_unknown": (pl.col("prompt").is_null() | (ok & ~pl.col("prompt_told"))).sum(),
        "output_unknown": (ok & ~pl.col("output_told")).sum(),
        "got": pl.col("got").sum(),
        "rest": rest.filter(~ok).sum(),
        "prompt_again": (pl.col("prompt") * more).sum(),
        "asked_again": (pl.col("asked") * more).sum(),
        "gaps": ((pl.col("last_token") - pl.col("first_token")) / NS_PER_S).sum(),
        "steps": (pl.col("chunks") - 1).filter(began).sum(),
        "sojourn": lasted.sum(),
        "connect": ((pl.col("connect_end") - pl.col("connect_start")) / NS_PER_S).min().fill_null(0.0),
        "streamed": pl.col("streamed").fill_null(True).filter(began).all(),
    }
    found = rows.select(**known).row(0, named=True)
    again = int(found["again"])
    return Sent(
        tries=rows.height + again,
        ok=int(found["ok"]),
        cut=rows.height - int(found["ok"]) + again,
        longest_cut=float(found["longest_cut"]),
        prompt=None
        if found["prompt_unknown"]
        else (found["prompt_least"], found["prompt_most"] + found["prompt_again"]),
        output=None if found["output_unknown"] else (found["got"], found["got"] + found["rest"] + found["asked_again"]),
        firsts=rows.filter(began).select(first=first)["first"].to_list(),
        wholes=rows.filter(ok).select(whole=whole)["whole"].to_list(),
        gaps=float(found["gaps"]),
        steps=int(found["steps"]),
        sojourn=float(found["sojourn"]),
        connect=float(found["connect"]),
        streamed=bool(found["streamed"]),
    )

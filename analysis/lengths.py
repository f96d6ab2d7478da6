"""Planned lengths against the server's own counts. Both stand in the events; neither replaces the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from .quantities import output_tokens

#: fewer pairs say nothing of a correlation
_PAIRS = 30


@dataclass(frozen=True)
class PromptLengths:
    """Of some counted attempts: how many have the server's count and a planned one, of how many the two differ, and the
    least and the most by which they do (server less plan, tokens; None where no count differs). Of those that the plan
    has no count of (recorded text): how many the server counts, the shortest and the longest."""

    counted: int
    differing: int
    least: int | None
    most: int | None
    unplanned: int = 0
    shortest: int | None = None
    longest: int | None = None


def prompt_lengths(attempts: pl.DataFrame) -> PromptLengths:
    """Compare the prompts of a cell's counted attempts."""
    excess = attempts.select((pl.col("input_tokens") - pl.col("asked_input_tokens")).alias("excess"))["excess"]
    known = excess.drop_nulls()
    unplanned = attempts.filter(pl.col("asked_input_tokens").is_null())["input_tokens"].drop_nulls()
    (least, most), (shortest, longest) = _ends(other := known.filter(known != 0)), _ends(unplanned)
    return PromptLengths(len(known), len(other), least, most, len(unplanned), shortest, longest)


def _ends(values: pl.Series) -> tuple[int | None, int | None]:
    if values.is_empty():
        return None, None
    least, most = values.sort().gather([0, -1]).to_list()
    return int(least), int(most)


def shorter_than_asked(attempts: pl.DataFrame) -> int:
    """How many replies with outcome ok have fewer output tokens than were asked for."""
    less = output_tokens() < pl.col("asked_output_tokens")
    return attempts.filter((pl.col("outcome") == "ok") & less.fill_null(False)).height


@dataclass(frozen=True)
class OutputLengths:
    """Of the counted attempts with outcome ok: how many replies have the server's count, how many are shorter or longer
    than asked for, and the correlation of the logarithms of prompt (without document and history) and output length, as
    delivered (None where one of them does not vary)."""

    counted: int
    shorter: int
    longer: int
    correlation: float | None


def output_lengths(attempts: pl.DataFrame) -> OutputLengths:
    """Compare the outputs of a cell's counted attempts."""
    ok = attempts.filter((pl.col("outcome") == "ok") & (pl.col("output_tokens") > 0))
    excess = ok.select((pl.col("output_tokens") - pl.col("asked_output_tokens")).alias("excess"))["excess"].drop_nulls()
    return OutputLengths(len(excess), int((excess < 0).sum()), int((excess > 0).sum()), _correlation(ok))


def _correlation(ok: pl.DataFrame) -> float | None:
    # what the request says itself, as delivered: without document and history, which the plan gives
    own = pl.col("input_tokens") - pl.col("asked_input_tokens") + pl.col("own_tokens")
    pairs = ok.select(own.alias("own"), "output_tokens").drop_nulls().filter(pl.col("own") > 0)
    if pairs.height < _PAIRS or min(pairs["own"].n_unique(), pairs["output_tokens"].n_unique()) < 2:
        return None
    return float(pairs.select(pl.corr(pl.col("own").log(), pl.col("output_tokens").log())).item())


def outputs_in_words(cells: Iterable[OutputLengths]) -> str:
    """What the server's counts say of a run's outputs."""
    parts = list(cells)
    counted = sum(part.counted for part in parts)
    shorter, longer = sum(part.shorter for part in parts), sum(part.longer for part in parts)
    if not counted:
        return "unknown (no reply says how many tokens it has)"
    text = f"as asked for in all {counted} replies that count them"
    if shorter or longer:
        text = f"of {counted} replies that count them {shorter} are shorter than asked for, {longer} longer"
    known = sorted(part.correlation for part in parts if part.correlation is not None)
    if not known:
        return text
    return (
        f"{text}; correlation of the logarithms of prompt and output length {known[len(known) // 2]:.2f} (median cell)"
    )


def in_words(cells: Iterable[PromptLengths]) -> str:
    """What the server's counts say of a run's prompts."""
    parts = list(cells)
    counted, differing = sum(part.counted for part in parts), sum(part.differing for part in parts)
    recorded = _recorded(parts)
    if not counted:
        return recorded or "unknown (no reply says how many tokens its prompt had)"
    more = f"; {recorded}" if recorded else ""
    if not differing:
        return f"as planned in all {counted} replies that count them{more}"
    least = min(part.least for part in parts if part.least is not None)
    most = max(part.most for part in parts if part.most is not None)
    by = f"{least:+d}" if least == most else f"{least:+d} to {most:+d}"
    return f"not as planned in {differing} of {counted} replies: the server counts {by} tokens; both are kept{more}"


def _recorded(parts: Sequence[PromptLengths]) -> str | None:
    """What the server's counts say of texts that were not counted when they were planned."""
    unplanned = sum(part.unplanned for part in parts)
    if not unplanned:
        return None
    shortest = min(part.shortest for part in parts if part.shortest is not None)
    longest = max(part.longest for part in parts if part.longest is not None)
    tokens = f"{shortest}" if shortest == longest else f"{shortest} to {longest}"
    return (
        f"{tokens} tokens by the server's count in {unplanned} replies to recorded text, which the plan has not counted"
    )

"""What is measured on each attempt: TTFT, TTFA, TPOT, ITL, ICL, E2E. Latencies count from `scheduled`.

The formulas stand in `QUANTITIES` and in `quantities()` beside them. Values are seconds; a value that does not exist is
NaN inside this module's arrays and a counted reason outside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from .records import BundleError
from .window import NS_PER_S

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Quantity:
    """A per-attempt (or, for itl and icl, per-token and per-chunk) quantity."""

    formula: str
    undefined_when: str


QUANTITIES: dict[str, Quantity] = {
    "ttft": Quantity("scheduled -> first token-bearing chunk", "the reply was not streamed"),
    "ttfa": Quantity("scheduled -> first answer token", "no answer token (reasoning or tool calls only)"),
    "tpot": Quantity(
        "(last token - first token) / (output tokens - tokens in the first chunk)",
        "no token after the first chunk",
    ),
    "itl": Quantity(
        "gap between token-bearing chunks / tokens in the later chunk, once for each of its tokens",
        "fewer than two token-bearing chunks",
    ),
    "itl_retokenized": Quantity(
        "gap between token-bearing chunks / tokens that the card's tokenizer counts in the later chunk, once for each",
        "no tokenizer declared; fewer than two token-bearing chunks",
    ),
    "icl": Quantity("gap between token-bearing chunks, as read from the socket", "fewer than two token-bearing chunks"),
    "e2e": Quantity("scheduled -> last token", "the time of the last token is unknown"),
}

_NOT_STREAMED = "not streamed"
_NO_TOKENIZER = "no tokenizer declared"
_REASONS = {
    "ttft": "no time of a first token",
    "ttfa": "no answer token",
    "tpot": "no token after the first chunk",
    "itl": "fewer than two chunks",
    "itl_retokenized": "fewer than two chunks",
    "icl": "fewer than two chunks",
    "e2e": "no time of a last token",
}


@dataclass(frozen=True)
class Quantities:
    """The quantities of a cell's counted attempts.

    `each` holds one value an attempt, in the order of the attempts, NaN where undefined (for itl and icl the worst
    gap): failed attempts too, as far as they got. `samples` holds the sorted values of ok attempts, which the metrics
    are statistics of; `undefined` counts, for each quantity, the attempts that gave no sample, by reason (their
    outcome, or what was missing).
    """

    ok: Bools
    each: dict[str, Floats]
    samples: dict[str, Floats]
    undefined: dict[str, dict[str, int]]


def quantities(attempts: pl.DataFrame) -> Quantities:
    """Compute the quantities of the counted attempts (event columns, times in ns)."""
    ok = (attempts["outcome"] == "ok").to_numpy()
    each = _from_marks(attempts)
    samples = {name: _sorted(values[ok & ~np.isnan(values)]) for name, values in each.items()}
    gaps, tokens, rows = _gaps(attempts, "chunk_tokens")
    icl = gaps / NS_PER_S
    each["icl"], samples["icl"] = _worst(icl, rows, attempts.height), _sorted(icl[ok[rows]])
    if (tokens == 1).all():
        # the usual case, and most of the work: one token a chunk, so the gap is the inter-token latency
        each["itl"], samples["itl"] = each["icl"], samples["icl"]
    else:
        each["itl"], samples["itl"] = _per_token(icl, tokens, rows, ok)
    gaps, tokens, rows = _gaps(attempts, "chunk_tokens_retokenized")
    each["itl_retokenized"], samples["itl_retokenized"] = _per_token(gaps / NS_PER_S, tokens, rows, ok)
    return Quantities(
        ok,
        {name: each[name] for name in QUANTITIES},
        {name: samples[name] for name in QUANTITIES},
        {name: _undefined(name, attempts, ok, each[name]) for name in QUANTITIES},
    )


def output_tokens() -> pl.Expr:
    """Output tokens of an attempt: what the server reports or, where it reports none, the sum over its chunks."""
    return pl.coalesce(pl.col("output_tokens").cast(pl.Int64), pl.col("chunk_tokens").list.sum().cast(pl.Int64))


def _from_marks(attempts: pl.DataFrame) -> dict[str, Floats]:
    later = output_tokens() - pl.col("chunk_tokens").list.first().cast(pl.Int64)
    decode = (pl.col("last_token") - pl.col("first_token")) / NS_PER_S
    frame = attempts.select(
        ttft=(pl.col("first_token") - pl.col("scheduled")) / NS_PER_S,
        ttfa=(pl.col("first_answer_token") - pl.col("scheduled")) / NS_PER_S,
        # One chunk alone shows no time between tokens, however many it holds.
        tpot=pl.when((later > 0) & (pl.col("chunk_times").list.len() > 1)).then(decode / later),
        e2e=(pl.col("last_token") - pl.col("scheduled")) / NS_PER_S,
    )
    return {name: frame[name].cast(pl.Float64).fill_null(np.nan).to_numpy() for name in frame.columns}


def _per_token(icl: Floats, tokens: Ints, rows: Ints, ok: Bools) -> tuple[Floats, Floats]:
    """Inter-token latencies: (the worst of each attempt, the sorted ones of ok attempts, once for each token)."""
    itl, of_ok = _divide(icl, tokens), ok[rows]
    return _worst(itl, rows, len(ok)), _sorted(np.repeat(itl[of_ok], np.maximum(tokens[of_ok], 0)))


def _gaps(attempts: pl.DataFrame, counts: str) -> tuple[Ints, Ints, Ints]:
    """All gaps between chunks of one attempt (ns), the tokens of the later chunk by the column `counts`, and the
    attempt's row. Attempts whose counts are null have none."""
    lists = attempts.select("chunk_times", chunk_tokens=counts).with_row_index("row")
    if lists.filter(pl.col("chunk_times").list.len() != pl.col("chunk_tokens").list.len()).height:
        raise BundleError(f"events of cell {attempts['cell'][0]}: chunk_times and {counts} differ in length")
    lists = lists.filter(pl.col("chunk_tokens").is_not_null() & (pl.col("chunk_times").list.len() >= 2))
    if lists.height == 0:
        nothing = np.empty(0, dtype=np.int64)
        return nothing, nothing, nothing
    rows = np.repeat(lists["row"].to_numpy().astype(np.int64), lists["chunk_times"].list.len().to_numpy())
    times = lists["chunk_times"].explode().to_numpy()
    tokens = lists["chunk_tokens"].explode().to_numpy().astype(np.int64)
    within = rows[1:] == rows[:-1]
    return np.diff(times)[within], tokens[1:][within], rows[1:][within]


def _divide(gaps: Floats, tokens: Ints) -> Floats:
    """gap / tokens; a chunk that is counted as no token has no inter-token latency (NaN)."""
    out = np.full(len(gaps), np.nan)
    np.divide(gaps, tokens, out=out, where=tokens > 0)
    return out


def _sorted(values: Floats) -> Floats:
    """Ascending; polars uses all cores."""
    return pl.Series(values).sort().to_numpy()


def _worst(values: Floats, rows: Ints, height: int) -> Floats:
    """The largest value of each row; NaN for a row without one. `rows` is ascending."""
    worst = np.full(height, np.nan)
    if len(rows):
        starts = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
        worst[rows[starts]] = np.fmax.reduceat(values, starts)
    return worst


def _undefined(name: str, attempts: pl.DataFrame, ok: Bools, values: Floats) -> dict[str, int]:
    """Attempts without the quantity, by reason: the outcome of a failed one, what was missing of an ok one."""
    outcomes = attempts.filter(~pl.Series(ok))["outcome"].value_counts().sort("outcome")
    reasons = {str(outcome): int(count) for outcome, count in outcomes.rows()}
    missing = ok & np.isnan(values)
    if name == "itl_retokenized":
        uncounted = missing & attempts["chunk_tokens_retokenized"].is_null().to_numpy()
        reasons |= {_NO_TOKENIZER: int(uncounted.sum())} if uncounted.any() else {}
        missing &= ~uncounted
    if missing.any():
        plain = ~attempts["streamed"].fill_null(True).to_numpy() & missing
        for reason, count in ((_NOT_STREAMED, int(plain.sum())), (_REASONS[name], int((missing & ~plain).sum()))):
            if count:
                reasons[reason] = count
    return reasons

"""Traces of real traffic, read: when each request came, how long its prompt and its answer were, which text it shared.

Formats and their units: mooncake (JSON lines; timestamp in ms from the start; hash_ids, one a block of text), azure
(CSV; wall clock with up to nine decimals), burstgpt (CSV; seconds; 0 response tokens is a request that failed), csv (a
plain table of ours; the card says the unit). Timestamps are whole ns after reading, by decimal arithmetic: a wall clock
in a double is right to a quarter of a microsecond only. Columns and keys that are not named here are passed over.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from .phrase import show
from .table import FileError, csv_rows, json_lines

_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_OWN_UNIT = {"mooncake": "ms", "burstgpt": "s"}
#: tokens that one of mooncake's hash_ids stands for, where the card does not say
HASH_BLOCK = 512
#: a mean gap beyond this is no traffic: the timestamps are in a smaller unit than they are read in
_LONGEST_MEAN_GAP_NS = 100 * 10**9
#: the most tokens of a request
_MOST_TOKENS = 10_000_000
_MOST_NS = 2**62

#: (line, timestamp as text or None, prompt tokens, output tokens, ids of shared blocks)
_Row = tuple[int, Any, Any, Any, Any]


@dataclass(frozen=True)
class Trace:
    """The rows of a trace in their order. `offsets`: ns since the first of them (empty where timestamps were not read);
    lengths in tokens; `hash_ids`: ids of the blocks of shared text, or None where the format has none; `left_out`: rows
    of requests that had failed, which are no rows of it."""

    offsets: array[int]
    input_tokens: array[int]
    output_tokens: array[int]
    hash_ids: list[tuple[int, ...]] | None
    left_out: int

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.input_tokens)

    @property
    def mean_output(self) -> float:
        """Mean output tokens."""
        return sum(self.output_tokens) / self.rows

    @property
    def span_ns(self) -> int:
        """From the first row to the last, ns."""
        return self.offsets[-1] if self.offsets else 0

    @property
    def busiest_second(self) -> int:
        """The most requests in a second that begins with one of them."""
        most = first = 0
        for index, offset in enumerate(self.offsets):
            while self.offsets[first] <= offset - 10**9:
                first += 1
            most = max(most, index - first + 1)
        return most

    @property
    def rate(self) -> float:
        """The mean rate, requests per second: gaps over the time they take."""
        return (self.rows - 1) / (self.span_ns / 1e9)


def read_trace(
    data: bytes, format_: str, unit: str | None = None, timed: bool = True, hash_block: int | None = None
) -> Trace:
    """Read a trace; `timed` False reads its lengths only. `hash_block`: the tokens that one of its hash_ids stands for,
    if it is known. Raises FileError, located."""
    scale = _scale(format_, unit) if timed else 1
    offsets, inputs, outputs = array("q"), array("i"), array("i")
    hash_ids: list[tuple[int, ...]] | None = [] if format_ == "mooncake" else None
    first = before = left_out = 0
    for line, stamp, prompt, output, ids in _ROWS[format_](data, timed, unit):
        if timed:
            now = _wall_clock_ns(stamp, line) if format_ == "azure" else _ns(stamp, scale, line)
            if now < before:
                found = f"the timestamp {show(stamp)}, earlier than the row before"
                raise FileError(found, "timestamps that do not go back", "sort the file by its timestamps", line)
            before = now
        if format_ == "burstgpt" and _tokens(output, "Response tokens", line, least=0) == 0:
            left_out += 1
            continue
        inputs.append(_tokens(prompt, "prompt tokens", line))
        outputs.append(_tokens(output, "output tokens", line))
        if timed:
            first = first if offsets else now
            offsets.append(now - first)
        if hash_ids is not None:
            hash_ids.append(_ids(ids, line, inputs[-1], hash_block))
    trace = Trace(offsets, inputs, outputs, hash_ids, left_out)
    _require_traffic(trace, timed, unit is None and format_ != "azure")
    return trace


def _require_traffic(trace: Trace, timed: bool, unit_assumed: bool) -> None:
    if not trace.rows:
        found = f"nothing but failed requests ({trace.left_out})" if trace.left_out else "no rows"
        raise FileError(found, "at least one request")
    if not timed:
        return
    if trace.rows < 2 or not trace.span_ns:
        raise FileError("requests of one moment", "at least two requests at different times")
    if unit_assumed and trace.span_ns / (trace.rows - 1) > _LONGEST_MEAN_GAP_NS:
        seconds = trace.span_ns / (trace.rows - 1) / 1e9
        hint = "if they are in another unit, the card says so: unit: ms; if they are right, too: unit: s"
        raise FileError(f"timestamps with a mean gap of {seconds:,.0f} s", "those of a service's traffic", hint, 2)


def _scale(format_: str, unit: str | None) -> int:
    own = _OWN_UNIT.get(format_)
    if unit is None and own is None and format_ != "azure":
        raise FileError("timestamps without a unit", "the key unit on the card, as in unit: ms", line=1)
    return _UNITS[unit or own or "s"]


def _mooncake(data: bytes, timed: bool, unit: str | None) -> Iterator[_Row]:
    for line, row in json_lines(data):
        for key in (("timestamp",) if timed else ()) + ("input_length", "output_length"):
            if key not in row:
                wanted = "timestamp (ms), input_length and output_length"
                raise FileError(f"a row without {key}", wanted, f"there are {', '.join(map(show, row))[:200]}", line)
        stamp = row.get("timestamp")
        if timed and unit is None and isinstance(stamp, Decimal) and not re.fullmatch(r"\d+\.0*", str(stamp)):
            hint = "seconds? then the card says so: unit: s; fractions of milliseconds: unit: ms"
            raise FileError(f"the timestamp {show(stamp)}", "whole milliseconds, which mooncake has", hint, line)
        yield line, stamp, row["input_length"], row["output_length"], row.get("hash_ids")


def _table(stamp: str, prompt: str, output: str) -> Callable[[bytes, bool, str | None], Iterator[_Row]]:
    """The reader of a CSV file with these columns."""

    def rows(data: bytes, timed: bool, _unit: str | None) -> Iterator[_Row]:
        """The file's rows: line, time stamp (None where not asked for), prompt and output tokens, no blocks."""
        for line, row in csv_rows(data, ((stamp,) if timed else ()) + (prompt, output)):
            yield line, row[0] if timed else None, row[-2], row[-1], None

    return rows


_azure_table = _table("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def _azure(data: bytes, timed: bool, unit: str | None) -> Iterator[_Row]:
    """Azure's rows: all of their wall clocks name a zone, or none does."""
    zoned: bool | None = None
    for row in _azure_table(data, timed, unit):
        match = _WALL_CLOCK.fullmatch(row[1].strip()) if timed else None
        if match is not None:
            here = match[4] is not None
            if zoned not in (None, here):
                found = f"the timestamp {show(row[1])}, {'with' if here else 'without'} a zone"
                raise FileError(found, f"one {'without' if here else 'with'} it, as in the rows before", line=row[0])
            zoned = here
        yield row


_ROWS: dict[str, Callable[[bytes, bool, str | None], Iterator[_Row]]] = {
    "mooncake": _mooncake, "azure": _azure,
    "burstgpt": _table("Timestamp", "Request tokens", "Response tokens"),
    "csv": _table("timestamp", "input_tokens", "output_tokens"),
}  # fmt: skip

_NUMBER = re.compile(r"\d{1,19}(\.\d{0,25})?([eE][-+]?\d{1,2})?", re.ASCII)


def _ns(stamp: Any, scale: int, line: int) -> int:
    plain = isinstance(stamp, str | int | Decimal) and not isinstance(stamp, bool)
    text = str(stamp).strip() if plain else ""
    if _NUMBER.fullmatch(text) and (ns := Decimal(text) * scale) < _MOST_NS:
        return round(ns)
    raise FileError(f"the timestamp {show(stamp)}", "a number from 0 up", line=line)


_WALL_CLOCK = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?", re.ASCII)


def _wall_clock_ns(stamp: str, line: int) -> int:
    """A wall clock time in ns since 1970, in its own zone or, without one, as it stands: only differences count."""
    match = _WALL_CLOCK.fullmatch(stamp.strip())
    try:
        if match is not None:
            day, clock, fraction, zone = match.groups()
            whole = datetime.fromisoformat(f"{day}T{clock}{'+00:00' if zone in (None, 'Z') else zone}")
            ns = int(whole.timestamp()) * 10**9 + int((fraction or "").ljust(9, "0"))
            if 0 <= ns < _MOST_NS:
                return ns
    except ValueError:
        pass
    raise FileError(f"the timestamp {show(stamp)}", "a wall clock such as 2023-11-16 18:15:46.6805900", line=line)


def _tokens(value: Any, what: str, line: int, least: int = 1) -> int:
    text = str(value).strip() if isinstance(value, str | int | Decimal) and not isinstance(value, bool) else ""
    if _TOKENS.fullmatch(text) and least <= int(float(text)) <= _MOST_TOKENS:
        return int(float(text))
    raise FileError(f"{what} {show(value)}", f"a whole number from {least} to {_MOST_TOKENS:,}", line=line)


_TOKENS = re.compile(r"\d{1,9}(\.0{0,9})?", re.ASCII)


def _ids(value: Any, line: int, tokens: int, block: int | None) -> tuple[int, ...]:
    if value is None:
        return ()
    whole = isinstance(value, list) and all(
        isinstance(item, int) and not isinstance(item, bool) and 0 <= item < 2**62 for item in value
    )
    if not whole:
        raise FileError(f"hash_ids {show(value)}", "a list of whole numbers", line=line)
    blocks = None if block is None else -(-tokens // block)
    if value and blocks is not None and len(value) != blocks:
        wanted = f"{blocks}, of {block} tokens each, or none"
        hint = "the last may be shorter; the card's hash_block says how long the others are"
        raise FileError(f"{len(value)} hash_ids for {tokens} prompt tokens", wanted, hint, line)
    return tuple(value)

"""Traces and requests: what is written is read again, and whatever bytes come, they are read or refused, and soon."""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from benchcard.schema.recorded import Recorded, read_recorded
from benchcard.schema.table import FileError
from benchcard.schema.trace import Trace, read_trace
from hypothesis import given, settings
from hypothesis import strategies as st

QUICK = settings(max_examples=120, deadline=None)
TOKENS = st.integers(1, 10_000_000)
#: gaps in ns, as whole multiples of 100: what each format can hold
GAPS = st.lists(st.integers(0, 3_000_000_000).map(lambda ns: ns - ns % 100), min_size=1, max_size=8)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


def table(header: list[str], rows: list[list[object]]) -> bytes:
    stream = io.StringIO()
    csv.writer(stream).writerows([header, *rows])
    return stream.getvalue().encode()


def moments(gaps: list[int]) -> list[int]:
    """The times since the first, ns, of which the last is later than the first."""
    times = [0]
    for gap in gaps:
        times.append(times[-1] + gap)
    times[-1] += 100
    return times


def lengths(data: st.DataObject, rows: int) -> tuple[list[int], list[int]]:
    return tuple(data.draw(st.lists(TOKENS, min_size=rows, max_size=rows)) for _ in range(2))  # type: ignore[return-value]


def same(trace: Trace, times: list[int], prompt: list[int], output: list[int]) -> None:
    assert (list(trace.offsets), list(trace.input_tokens), list(trace.output_tokens)) == (times, prompt, output)


@QUICK
@given(GAPS, st.data())
def test_azure(gaps: list[int], data: st.DataObject) -> None:
    times = moments(gaps)
    prompt, output = lengths(data, len(times))
    start = data.draw(st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1))).replace(microsecond=0)
    clock = [start + timedelta(seconds=ns // 10**9) for ns in times]
    stamps = [f"{when:%Y-%m-%d %H:%M:%S}.{ns % 10**9 // 100:07}" for when, ns in zip(clock, times, strict=True)]
    rows = [list(row) for row in zip(stamps, prompt, output, strict=True)]
    same(read_trace(table(["TIMESTAMP", "ContextTokens", "GeneratedTokens"], rows), "azure"), times, prompt, output)


@QUICK
@given(GAPS, st.sampled_from([("s", 9), ("ms", 6), ("us", 3), ("ns", 0)]), st.integers(0, 10**15), st.data())
def test_csv_in_every_unit(gaps: list[int], unit: tuple[str, int], start: int, data: st.DataObject) -> None:
    times = moments(gaps)
    prompt, output = lengths(data, len(times))
    stamps = [str(Decimal(start + ns).scaleb(-unit[1])) for ns in times]
    rows: list[list[object]] = [[o, s, p] for o, s, p in zip(output, stamps, prompt, strict=True)]
    read = read_trace(table(["output_tokens", "timestamp", "input_tokens"], rows), "csv", unit[0])
    same(read, times, prompt, output)


@QUICK
@given(GAPS, st.data())
def test_burstgpt(gaps: list[int], data: st.DataObject) -> None:
    times = moments(gaps)
    prompt, output = lengths(data, len(times))
    rows: list[list[object]] = []
    for ns, asked, answered in zip(times, prompt, output, strict=True):
        stamp = str(Decimal(ns).scaleb(-9))
        rows += [[stamp, "ChatGPT", 7, 0, 7, "API log"]] * data.draw(st.integers(0, 1))
        rows.append([stamp, "GPT-4", asked, answered, asked + answered, "API log"])
    header = ["Timestamp", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type"]
    trace = read_trace(table(header, rows), "burstgpt")
    same(trace, times, prompt, output)
    assert trace.left_out == len(rows) - len(times)


@QUICK
@given(st.lists(st.integers(0, 5_000), min_size=1, max_size=8), st.data())
def test_mooncake(gaps: list[int], data: st.DataObject) -> None:
    times = [ns * 10**4 for ns in moments([gap * 100 for gap in gaps])]  # whole ms
    prompt, output = lengths(data, len(times))
    ids = [data.draw(st.lists(st.integers(0, 2**62 - 1), max_size=4)) for _ in times]
    keys = ("timestamp", "input_length", "output_length", "hash_ids")
    rows = [
        dict(zip(keys, (t // 10**6, p, o, i), strict=True))
        for t, p, o, i in zip(times, prompt, output, ids, strict=True)
    ]
    trace = read_trace("\n".join(map(json.dumps, rows)).encode(), "mooncake")
    same(trace, times, prompt, output)
    assert trace.hash_ids == [tuple(row) for row in ids]


@QUICK
@given(
    st.lists(st.tuples(TEXT | st.lists(st.integers(0, 2**31 - 1), min_size=1), st.none() | TOKENS), min_size=1),
    st.booleans(),
)
def test_requests(rows: list[tuple[Any, int | None]], escaped: bool) -> None:
    written = [json.dumps({"prompt": p, "output_tokens": o}, ensure_ascii=escaped) for p, o in rows]
    recorded = read_recorded("\n".join(written).encode(), "jsonl", "completions")
    assert [(request.prompt, request.output_tokens) for request in recorded.requests] == rows


@QUICK
@given(
    st.lists(TEXT.filter(str.strip), min_size=1, max_size=5),
    st.booleans(),
    st.booleans(),
    st.none() | st.integers(0, 3),
)
def test_conversations(questions: list[str], escaped: bool, listed: bool, indent: int | None) -> None:
    rows = [{"conversations": [{"from": "human", "value": question}]} for question in questions]
    text = json.dumps(rows, ensure_ascii=escaped, indent=indent)
    if not listed:
        text = "\n".join(json.dumps(row, ensure_ascii=escaped) for row in rows)
    recorded = read_recorded(text.encode(), "sharegpt", "completions")
    assert [request.prompt for request in recorded.requests] == questions


def read_all(data: bytes) -> None:
    """Every reader takes the bytes, or refuses them with a place and words."""
    for format_ in ("mooncake", "azure", "burstgpt", "csv"):
        for timed in (True, False):
            for unit in (None, "s"):
                refused_or(data, lambda f=format_, t=timed, u=unit: read_trace(data, f, u, t, 16))  # type: ignore[misc]
    for format_ in ("jsonl", "sharegpt"):
        for endpoint in ("completions", "chat"):
            refused_or(data, lambda f=format_, e=endpoint: read_recorded(data, f, e))  # type: ignore[misc]


def refused_or(data: bytes, read: Any) -> None:
    try:
        found = read()
    except FileError as error:
        found = error
    if isinstance(found, FileError):
        assert 0 <= found.line <= data.count(b"\n") + data.count(b"\r") + 1
        assert found.column >= 1
        assert found.found
        assert found.wanted
    else:
        assert isinstance(found, Trace | Recorded)
        assert found.rows >= 1


PIECES = [piece.encode() for piece in (
    "\n", "\r\n", "\r", ",", '"', "{", "}", "[", "]", ":", "null", "true", "NaN", "-1", "0", "1e400", "1E-9", "\u2028",
    "\ufeff",
    "timestamp,input_tokens,output_tokens", "TIMESTAMP,ContextTokens,GeneratedTokens", "2023-11-16 18:15:46.68",
    "Timestamp,Request tokens,Response tokens", '"prompt":"x"', '"messages":[{"role":"user","content":"x"}]', '\\ud800',
    '"conversations":[{"from":"human","value":"x"}]', '"timestamp":1', '"input_length":2', '"output_length":3',
    '"hash_ids":[1]', "9" * 5000, "x" * 140_000,
)]  # fmt: skip


@QUICK
@given(st.lists(st.sampled_from(PIECES) | st.binary(max_size=4), max_size=14).map(b"".join))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    read_all(data)


GOOD = [
    b'{"timestamp": 0, "input_length": 40, "output_length": 5, "hash_ids": [1, 2]}\n'
    b'{"timestamp": 7, "input_length": 41, "output_length": 6, "hash_ids": [1, 3]}\n',
    b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,1,2\n2023-11-16 18:15:47.68+01:00,1,2\n",
    b"Timestamp,Request tokens,Response tokens\n1,2,3\n1.5,2,0\n2,3,4\n",
    b"timestamp,input_tokens,output_tokens\n1,2,3\n1.5,2,2\n",
    b'{"prompt": "x", "output_tokens": 3}\n'
    b'{"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}\n',
    b'[{"conversations": [{"from": "system", "value": "x"}, {"from": "human", "value": "y"}]}]',
]


@QUICK
@given(st.data())
def test_a_good_file_that_was_spoiled_is_read_or_refused(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(GOOD))
    for _ in range(data.draw(st.integers(1, 3))):
        start, cut = data.draw(st.integers(0, len(text))), data.draw(st.integers(0, 12))
        text = text[:start] + data.draw(st.sampled_from(PIECES) | st.binary(max_size=3)) + text[start + cut :]
    read_all(text)


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 2_000_000,
        b'{"a":' * 500_000,
        b'[{"conversations":' + b"[" * 500_000,
        b'{"prompt":' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"timestamp": 0, "input_length": ' + b"[" * 900 + b"]" * 900 + b', "output_length": 1}',
        b'{"timestamp": ' + b"9" * 1_000_000 + b"}",
        b'{"timestamp": 1e' + b"9" * 100_000 + b', "input_length": 1, "output_length": 1}',
        b"{" + b",".join(b'"%d": 1' % (i % 150_000) for i in range(300_000)) + b"}",
        b"timestamp,input_tokens,output_tokens\n" + b"1e999999999,1,1\n" * 2,
        b"\n" * 500_000,
        b"," * 300_000,
    ],
    ids=lambda data: data[:24].decode(),
)
def test_what_would_take_long_is_refused_soon(data: bytes) -> None:
    """None of these takes a time that grows with the square of its length; pytest would hang if one did."""
    read_all(data)

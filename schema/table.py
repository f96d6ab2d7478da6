"""What the readers of traces and recorded requests share: located faults, rows of CSV, and JSON read strictly.

JSON here is what RFC 8259 says and no more: a key twice in one object is refused (readers differ in which of the two
they take), and so are NaN and Infinity. Numbers with a decimal point stay decimal, digit for digit.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from .phrase import show

_SPACE = re.compile(r"[ \t\r\n]*")


class FileError(ValueError):
    """A fault in a file beside the card: where (line and column from 1; 0 is the whole file), what was found, what
    would be right, and a hint."""

    def __init__(self, found: str, wanted: str, hint: str = "", line: int = 0, column: int = 1) -> None:
        super().__init__(f"line {line}: found {found}; wanted {wanted}")
        self.found, self.wanted, self.hint, self.line, self.column = found, wanted, hint, line, column


def text_of(data: bytes) -> str:
    """The text of a file's bytes. Raises FileError where they are not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise FileError(f"the byte 0x{data[error.start]:02x}", "text in UTF-8", "", line, column) from None


def csv_rows(data: bytes, columns: tuple[str, ...]) -> Iterator[tuple[int, list[str]]]:
    """(line, the wanted columns' texts) of each row; names are compared without case, _ and space. Raises FileError."""
    header: list[str] = []
    indexes: list[int] = []
    for line, row in _csv(data):
        if not header:
            header, indexes = row, _indexes(row, columns, line)
        elif len(row) != len(header):
            fields = f"{len(row)} field{'s' * (len(row) != 1)}"
            raise FileError(f"a row of {fields}", f"{len(header)}, as in the header", line=line)
        else:
            yield line, [row[index] for index in indexes]
    if not header:
        raise FileError("an empty file", f"a header with {', '.join(columns)}", line=1)


def _csv(data: bytes) -> Iterator[tuple[int, list[str]]]:
    """(line, fields) of every row that is not blank."""
    reader = csv.reader(io.StringIO(text_of(data), newline=""), strict=True)
    try:
        for row in reader:
            if len(row) > 1 or any(field.strip() for field in row):
                yield reader.line_num, row
    except csv.Error as error:
        raise FileError(f"a row that is not CSV ({error})", "CSV", line=reader.line_num) from None


def _indexes(header: list[str], columns: tuple[str, ...], line: int) -> list[int]:
    """Where each wanted column stands in a header."""
    names = [_plain(name) for name in header]
    for column in columns:
        count = names.count(_plain(column))
        if count != 1:
            found = f"a header {'without' if not count else 'with'} {column}{' twice' if count else ''}"
            wanted = f"the columns {', '.join(columns)}"
            raise FileError(found, wanted, f"there are {', '.join(map(show, header))[:200]}", line)
    return [names.index(_plain(column)) for column in columns]


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "").replace(" ", "")


def json_lines(data: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line, object) of each line that is not blank. Lines end with a line feed, and with nothing else that Unicode
    calls a line's end. Raises FileError."""
    for number, line in enumerate(text_of(data).split("\n"), 1):
        if not line.strip():
            continue
        value, end = _value(line, _skip(line, 0), number)
        if _skip(line, end) != len(line):
            found = "more after the object"
            raise FileError(found, "one JSON object a line", "", number, _skip(line, end) + 1)
        if not isinstance(value, dict):
            raise FileError(show(value), "one JSON object a line", line=number)
        yield number, value


def json_objects(data: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line, object) of each object of a JSON list, or, where the text is no list, of each line. Raises FileError."""
    text = text_of(data)
    at = _skip(text, 0)
    if not text.startswith("[", at):
        yield from json_lines(data)
        return
    line, counted, more = 1, 0, not text.startswith("]", _skip(text, at + 1))
    while more:
        start = _skip(text, at + 1)
        line, counted = line + text.count("\n", counted, start), start
        value, end = _value(text, start, 1)
        if not isinstance(value, dict):
            raise FileError(show(value), "a list of objects", line=line)
        yield line, value
        at = _skip(text, end)
        more = text.startswith(",", at)
    at = at if text.startswith("]", at) else _skip(text, at + 1)
    if not text.startswith("]", at):
        raise _at(text, at, "a list that does not end", "a comma or ]")
    if (after := _skip(text, at + 1)) != len(text):
        raise _at(text, after, "more after the list", "nothing")


def json_document(data: bytes) -> Any:
    """The one JSON value of a file. Raises FileError."""
    text = text_of(data)
    value, end = _value(text, _skip(text, 0), 1)
    if (after := _skip(text, end)) != len(text):
        raise _at(text, after, "more after the document", "one JSON document")
    return value


def written_by_us(data: bytes, key: str, version: int, wanted: str) -> dict[str, Any]:
    """The JSON object of a file that one of our commands wrote, with floats; `key` holds its format's version, and
    `wanted` says what the file is. Raises FileError, also where the version is not the one that is read."""
    json_document(data)  # with the places of its faults; its numbers are decimals
    document = json.loads(data.decode("utf-8-sig"))
    if not isinstance(document, dict) or key not in document:
        raise FileError(show(document), wanted, line=1)
    if document[key] != version:
        found = f"{key.removesuffix('_version')} format version {show(document[key])}"
        raise FileError(found, f"version {version}, which this benchcard reads", line=1)
    return document


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _at(text: str, at: int, found: str, wanted: str) -> FileError:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return FileError(found, wanted, "", line, column)


class _RefusedError(ValueError):
    """What JSON's grammar or its readers let pass, and we do not."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _RefusedError(f"the key {show(twice)} twice in one object")
    return value


def _constant(name: str) -> Any:
    raise _RefusedError(f"{name}, which is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=Decimal)


def _value(text: str, start: int, line: int) -> tuple[Any, int]:
    """The JSON value that begins at `start`, and where it ends; `line` is that of the text's beginning."""
    try:
        return _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        found = f"text that is not JSON ({error.msg.lower()})"
        raise FileError(found, "JSON", "", line + error.lineno - 1, error.colno) from None
    except _RefusedError as error:
        found, wanted = str(error), "JSON that every reader reads alike"
    except RecursionError:
        found, wanted = "lists or objects nested too deeply", "JSON of a sane depth"
    except (ValueError, ArithmeticError):
        found, wanted = "a number that is too long", "a number that a computer can hold"
    raise FileError(found, wanted, line=line + text.count("\n", 0, start))

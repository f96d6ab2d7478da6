"""What the readers of traces and recorded requests share: located faults, and rows of CSV and JSON lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

from .phrase import show, words


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
        raise FileError(f"the byte 0x{data[error.start]:02x}", "text in UTF-8", line=line) from None


def csv_rows(data: bytes, columns: tuple[str, ...]) -> Iterator[tuple[int, list[str]]]:
    """(line, the wanted columns' texts) of each row; names are compared without case, _ and space. Raises FileError."""
    reader = csv.reader(io.StringIO(text_of(data), newline=""))
    header = next(reader, None)
    if header is None:
        raise FileError("an empty file", f"a header with {words(columns)}", line=1)
    names = [_plain(name) for name in header]
    missing = [column for column in columns if _plain(column) not in names]
    if missing:
        found = f"a header without {words(missing)}"
        raise FileError(found, f"the columns {', '.join(columns)}", f"there are {', '.join(header)[:200]}", line=1)
    indexes = [names.index(_plain(column)) for column in columns]
    try:
        for row in reader:
            if row:
                if len(row) != len(header):
                    found = f"a row of {len(row)} fields"
                    raise FileError(found, f"{len(header)}, as in the header", line=reader.line_num)
                yield reader.line_num, [row[index] for index in indexes]
    except csv.Error as error:
        raise FileError(f"a row that is not CSV ({error})", "CSV", line=reader.line_num) from None


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "").replace(" ", "")


def json_lines(data: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line, object) of each line that is not blank. Raises FileError."""
    for number, line in enumerate(text_of(data).split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            column = getattr(error, "colno", 1)
            raise FileError("a line that is not JSON", "one JSON object a line", "", number, column) from None
        if not isinstance(value, dict):
            raise FileError(show(value), "one JSON object a line", line=number)
        yield number, value

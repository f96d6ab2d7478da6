"""One file of a bundle -> a record, lines, or a table of known columns; missing or broken is a `BundleError`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from .columns import LATER_COLUMNS
from .records import BundleError, Record


def read_json(path: Path) -> Record:
    """A file that holds one JSON object."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise BundleError(f"{path}: missing; wanted a run directory of benchcard") from None
    except (ValueError, OSError) as error:
        raise BundleError(f"{path}: not readable as JSON: {error}") from None
    if not isinstance(value, dict):
        raise BundleError(f"{path}: holds a {type(value).__name__}; wanted an object")
    return value


def read_log(path: Path) -> tuple[Record, ...]:
    """The attempt log. A torn last line is what a killed run leaves behind and is passed over; any other is refused."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        raise BundleError(f"{path}: missing; a run writes it before anything else") from None
    records: list[Record] = []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except ValueError:
            if number == len(lines):
                break
            raise BundleError(f"{path}:{number}: not a line of JSON") from None
        if not isinstance(record, dict):
            raise BundleError(f"{path}:{number}: wanted an object")
        records.append(record)
    return tuple(records)


def read_row(path: Path, columns: Mapping[str, Any]) -> Record | None:
    """The one row of a table, or None where there is no such file."""
    if not path.is_file():
        return None
    frame = read_frame(path, columns)
    if frame.height != 1:
        raise BundleError(f"{path}: {frame.height} rows; wanted exactly one")
    return frame.row(0, named=True)


def read_frame(path: Path, columns: Mapping[str, Any]) -> pl.DataFrame:
    """A table's columns; those that came later and that the file lacks are null."""
    try:
        schema = pl.read_parquet_schema(path)
        absent = [name for name in columns if name not in schema]
        missing = [name for name in absent if name not in LATER_COLUMNS]
        if missing:
            raise BundleError(f"{path}: column {missing[0]!r} is missing")
        for name, wanted in columns.items():
            if name in schema and schema[name] not in (wanted, pl.Null):
                raise BundleError(f"{path}: column {name!r} is {schema[name]}; wanted {wanted}")
        frame = pl.read_parquet(path, columns=[name for name in columns if name in schema])
    except (pl.exceptions.PolarsError, OSError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BundleError(f"{path}: not readable as Parquet: {first}") from None
    there = [pl.lit(None).alias(name) if name in absent else pl.col(name) for name in columns]
    return frame.select(column.cast(wanted) for column, wanted in zip(there, columns.values(), strict=True))

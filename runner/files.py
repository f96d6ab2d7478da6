"""Durable files: written to a temporary name, fsynced, renamed. A reader sees the old file or the new one, whole."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file durably."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    _publish(temporary, path)


def write_json(path: Path, document: Any) -> None:
    """Write a JSON document durably, indented for people to read and compare."""
    write_bytes(path, (json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())


def write_parquet(path: Path, frame: pl.DataFrame) -> None:
    """Write a data frame durably, as Parquet."""
    temporary = path.with_name(f".{path.name}.tmp")
    frame.write_parquet(temporary, compression="zstd", statistics=True)
    with temporary.open("rb+") as file:
        os.fsync(file.fileno())
    _publish(temporary, path)


def read_json(path: Path) -> Any:
    """Read a JSON document."""
    return json.loads(path.read_bytes())


def _publish(temporary: Path, path: Path) -> None:
    temporary.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)

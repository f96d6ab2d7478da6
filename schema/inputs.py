"""Files that a card names beside itself: traces, recorded requests, length pairs, JSON Schemas.

Each is found, hashed and read when the card is, so that a fault in one is a located problem, and what is planned from
it is what was hashed.

In the resolved card such a file is {name, sha256, bytes} and what its reader found; a bundle keeps its bytes under
their digest.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from .defaults import Filled
from .digest import digest_bytes
from .errors import InputError, Problem
from .phrase import KeyPath, show
from .recorded import Recorded, read_recorded
from .structure import Schema, card_schema, child
from .table import FileError
from .tokenizer_files import beside_tokenizer, read_chat_template, read_tokenizer, read_tokenizer_config
from .trace import Trace, read_trace

#: the largest file that is read; a trace of five million rows has some 300 MB
MAX_BYTES = 1 << 30


@dataclass(frozen=True)
class Inputs:
    """Where the bytes of a card's files are: digest -> path. It can be sent to another process."""

    paths: Mapping[str, Path] = field(default_factory=dict)

    def trace(self, file: Mapping[str, Any], format_: str, unit: str | None = None) -> Trace:
        """The trace of a resolved file."""
        return _trace(self._path(file), format_, unit, str(file["sha256"]), True)

    def pairs(self, file: Mapping[str, Any], format_: str) -> Trace:
        """The length pairs of a resolved file: a trace without its times."""
        return _trace(self._path(file), format_, None, str(file["sha256"]), False)

    def recorded(self, file: Mapping[str, Any], format_: str, endpoint: str) -> Recorded:
        """The recorded requests of a resolved file."""
        return _recorded(self._path(file), format_, endpoint, str(file["sha256"]))

    def json(self, file: Mapping[str, Any]) -> Any:
        """The JSON document of a resolved file."""
        return json.loads(self._bytes(file))

    def bytes_of(self, sha256: str) -> bytes:
        """A file's bytes by its digest. Raises InputError if they are gone or changed."""
        return _checked(self.paths[sha256], sha256)

    def data(self, file: Mapping[str, Any]) -> bytes:
        """The bytes of a resolved file."""
        return self._bytes(file)

    def _path(self, file: Mapping[str, Any]) -> Path:
        path = self.paths.get(str(file["sha256"]))
        if path is None:
            raise InputError(f"{file['name']}: its bytes ({file['sha256']}) are not at hand")
        return path

    def _bytes(self, file: Mapping[str, Any]) -> bytes:
        return _checked(self._path(file), str(file["sha256"]))


#: of a card that names no files
NO_INPUTS = Inputs()


def _checked(path: Path, sha256: str) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); the card was resolved with {sha256}") from None
    if digest_bytes(data) != sha256:
        raise InputError(f"{path}: not the file that the card was resolved with ({sha256})")
    return data


@lru_cache(maxsize=8)
def _trace(path: Path, format_: str, unit: str | None, sha256: str, timed: bool) -> Trace:
    return read_trace(_checked(path, sha256), format_, unit, timed)


@lru_cache(maxsize=8)
def _recorded(path: Path, format_: str, endpoint: str, sha256: str) -> Recorded:
    return read_recorded(_checked(path, sha256), format_, endpoint)


def read_inputs(filled: Filled, found: Mapping[str, Path] | None, problems: list[Problem]) -> Inputs:
    """Put {name, sha256, bytes, …} in the place of every file that the card names. `found` says where files are that
    do not lie beside the card (a bundle's), by the name that the card gives them."""
    paths: dict[str, Path] = {}
    found = found or {}
    names = dict(beside_tokenizer(filled, found))
    for path, kind in sorted(_files(filled, card_schema(), (), filled.values), key=lambda item: str(item[0])):
        node = filled.root.at(path)
        if path not in names and (node is None or not isinstance(node.value, str)):
            continue
        name, file = names[path] if path in names or node is None else (str(node.value), node.file)
        place = found.get(name) or Path(os.path.dirname(file), name)
        above = filled.get(*path[:-1])
        above[path[-1]] = name
        data = _read(filled, path, place, problems)
        if data is None:
            above[path[-1]] = None
            continue
        facts: dict[str, Any] = {"name": name, "sha256": digest_bytes(data), "bytes": len(data)}
        try:
            facts |= _facts(kind, data, above, filled)
        except FileError as error:
            where = (error.line, error.column) if error.line else (1, 1)
            problems.append(Problem(str(place), *where, "", error.found, error.wanted, error.hint))
            above[path[-1]] = None
            continue
        above[path[-1]] = facts
        paths[facts["sha256"]] = place
    return Inputs(paths)


def _files(filled: Filled, schema: Schema, path: KeyPath, values: Any) -> Iterator[tuple[KeyPath, str]]:
    """The paths of the keys that name files, and what kind of file."""
    for key, below in values.items() if isinstance(values, dict) else ():
        schema_below = child(schema, key)
        if schema_below is None:
            continue
        if "x-file" in schema_below:
            # A default is a word, such as `words`, and no file.
            if below is not None and below != schema_below.get("default"):
                yield (*path, key), schema_below["x-file"]
        else:
            yield from _files(filled, schema_below, (*path, key), below)


def _read(filled: Filled, path: KeyPath, place: Path, problems: list[Problem]) -> bytes | None:
    try:
        size = place.stat().st_size
        if size > MAX_BYTES:
            problems.append(filled.problem(path, f"a file of {size:,} bytes", f"at most {MAX_BYTES:,}"))
            return None
        return place.read_bytes()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a path"
        found = f"{show(str(filled.get(*path)))}, which cannot be read ({why})"
        problems.append(filled.problem(path, found, "a file, as a path relative to the card that names it"))
        return None


def _facts(kind: str, data: bytes, beside: dict[str, Any], filled: Filled) -> dict[str, Any]:
    """What the reader of a file found in it. Raises FileError."""
    if kind == "trace" and beside.get("format") is not None:
        trace = read_trace(data, beside["format"], beside.get("unit"), timed=True)
        timing = {"rate": trace.rate, "span": trace.span_ns / 1e9, "busiest_second": trace.busiest_second}
        return {"rows": trace.rows, "left_out": trace.left_out, "mean_output": trace.mean_output} | timing
    if kind == "pairs" and beside.get("format") is not None:
        pairs = read_trace(data, beside["format"], None, timed=False)
        return {"rows": pairs.rows, "left_out": pairs.left_out, "mean_output": pairs.mean_output}
    if kind == "requests" and beside.get("format") is not None:
        endpoint = filled.get("workload", "endpoint") or "completions"
        recorded = read_recorded(data, beside["format"], endpoint)
        return {"rows": recorded.rows, "left_out": recorded.left_out, "mean_output": recorded.mean_output}
    if kind == "json_schema":
        _json_schema(data)
    if kind in _TOKENIZER_FILES:
        return _TOKENIZER_FILES[kind](data)
    return {}


_TOKENIZER_FILES = {
    "tokenizer": read_tokenizer,
    "tokenizer_config": read_tokenizer_config,
    "chat_template": read_chat_template,
}


def _json_schema(data: bytes) -> None:
    try:
        document = json.loads(data)
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        raise FileError("text that is not JSON", "a JSON Schema", line=line) from None
    if not isinstance(document, dict):
        raise FileError(show(document), "a JSON Schema, which is an object")

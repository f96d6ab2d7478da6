"""Files that a card names beside itself: traces, recorded requests, length pairs, JSON Schemas, pilots.

Each is found, hashed and read when the card is, so that a fault in one is a located problem, and what is planned from
it is what was hashed. The card that names a file decides the folder: a path is relative to it, and stays so where
another card extends it.

In the resolved card such a file is {name, sha256, bytes} and what its reader found; a bundle keeps its bytes under
their digest.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from .defaults import Filled
from .digest import digest_bytes
from .errors import InputError, Problem
from .items import Items, read_items
from .phrase import KeyPath, show
from .pilot import read_pilot
from .probe_file import read_probe
from .recorded import Recorded, read_recorded
from .structure import Schema, card_schema, child, deref
from .table import FileError, json_document
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

    def items(self, file: Mapping[str, Any], endpoint: str) -> Items:
        """The items of a resolved file."""
        return read_items(self._bytes(file), endpoint)

    def json(self, file: Mapping[str, Any]) -> Any:
        """The JSON document of a resolved file."""
        return json.loads(self._bytes(file).decode("utf-8-sig"))

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
        raise InputError(f"{path}: found nothing to read ({error.strerror}); wanted the card's file") from None
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
    beside = dict(beside_tokenizer(filled, found))
    named: dict[str, str] = {}
    for path, kind in sorted(_files(filled, card_schema(), (), filled.values), key=lambda item: str(item[0])):
        node = filled.root.at(path)
        if path not in beside and (node is None or not isinstance(node.value, str)):
            continue
        name, file = beside[path] if path in beside or node is None else (str(node.value), node.file)
        place = found.get(name) or Path(os.path.dirname(file), name)
        above = filled.get(*path[:-1])
        above[path[-1]] = name
        facts: dict[str, Any] | None = None
        if (data := _read(filled, path, place, problems)) is not None:
            facts = {"name": name, "sha256": digest_bytes(data), "bytes": len(data)}
            if named.setdefault(name, facts["sha256"]) != facts["sha256"]:
                hint = "a run keeps a card's files under the names that it gives them"
                problems.append(filled.problem(path, f"{show(name)} for two files", "a name for each", hint))
            more = _facts(kind, data, place, above, filled, problems)
            facts = None if more is None else facts | more
        above[path[-1]] = facts
        if facts is not None:
            paths[facts["sha256"]] = place
    return Inputs(paths)


def _files(filled: Filled, schema: Schema, path: KeyPath, values: Any) -> Iterator[tuple[KeyPath, str]]:
    """The paths of the keys that name files, and what kind of file."""
    if isinstance(values, list) and "items" in schema:
        for index, item in enumerate(values):
            yield from _files(filled, deref(schema["items"]), (*path, index), item)
    for key, below in values.items() if isinstance(values, dict) else ():
        schema_below = child(schema, key)
        if schema_below is None:
            continue
        if "x-file" in schema_below:
            # A default is a word, such as `words`, and no file; so is the name of what is built in.
            if below is not None and below not in (schema_below.get("default"), *schema_below.get("x-built-in", [])):
                yield (*path, key), schema_below["x-file"]
        else:
            yield from _files(filled, schema_below, (*path, key), below)


def _read(filled: Filled, path: KeyPath, place: Path, problems: list[Problem]) -> bytes | None:
    """The bytes of a file that the card names at a path; None, and a problem, if it is none that can be read."""
    name, wanted = str(filled.get(*path)), "a file, as a path relative to the card that names it"
    # A tokenizer may lie with the model, wherever that is on this machine.
    if os.path.isabs(name) and path[:2] != ("system", "model"):
        problems.append(filled.problem(path, show(name), wanted, "cards move between machines"))
        return None
    try:
        status = place.stat()
        if not stat.S_ISREG(status.st_mode):
            problems.append(filled.problem(path, f"{show(name)}, which is no file", wanted))
        elif status.st_size > MAX_BYTES:
            problems.append(filled.problem(path, f"a file of {status.st_size:,} bytes", f"at most {MAX_BYTES:,}"))
        else:
            return place.read_bytes()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a path"
        problems.append(filled.problem(path, f"{show(name)}, which cannot be read ({why})", wanted))
    return None


_TOKENIZER_FILES = {
    "tokenizer": read_tokenizer,
    "tokenizer_config": read_tokenizer_config,
    "chat_template": read_chat_template,
}


def _facts(
    kind: str, data: bytes, place: Path, beside: dict[str, Any], filled: Filled, problems: list[Problem]
) -> dict[str, Any] | None:
    """What the reader of a file found in it; None if it cannot be read: for a fault in it, which is a problem, or for
    want of a key beside it, which the card's rules say."""
    try:
        if kind == "pilot":
            return read_pilot(data)
        if kind == "probe":
            return read_probe(data)
        if kind == "json_schema":
            _require_json_schema(data)
            return {}
        if kind == "items":
            items = read_items(data, filled.get("workload", "endpoint") or "completions")
            return {"rows": items.rows, "answered": items.answered}
        if kind in _TOKENIZER_FILES:
            return _TOKENIZER_FILES[kind](data)
        if beside.get("format") is None:
            return None
        return _rows(kind, data, beside, filled)
    except FileError as error:
        where = (error.line, error.column) if error.line else (1, 1)
        problems.append(Problem(str(place), *where, "", error.found, error.wanted, error.hint))
        return None


def _rows(kind: str, data: bytes, beside: dict[str, Any], filled: Filled) -> dict[str, Any] | None:
    """What was found in a file of rows. Raises FileError."""
    format_, unit = beside["format"], beside.get("unit")
    read: Trace | Recorded
    if kind == "requests":
        read = read_recorded(data, format_, filled.get("workload", "endpoint") or "completions")
    elif kind == "pairs":
        read = read_trace(data, format_, timed=False)
    elif unit is None and (format_ == "csv" or filled.on_card("workload", "arrivals", "unit")):
        return None
    else:
        read = read_trace(data, format_, unit, hash_block=beside.get("hash_block"))
    facts = {"rows": read.rows, "left_out": read.left_out, "mean_output": read.mean_output}
    if kind == "trace" and isinstance(read, Trace):
        facts |= {"rate": read.rate, "span": read.span_ns / 1e9, "busiest_second": read.busiest_second}
    return facts


def _require_json_schema(data: bytes) -> None:
    document = json_document(data)
    if not isinstance(document, dict):
        raise FileError(show(document), "a JSON Schema, which is an object", line=1)
    from .keywords import schema_fault  # jsonschema takes a tenth of a second to import

    fault = schema_fault(json.loads(data.decode("utf-8-sig")))
    if fault:
        raise FileError(fault, "a JSON Schema of Draft 2020-12", line=1)

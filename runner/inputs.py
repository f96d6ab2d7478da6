"""The files that a card names, kept in the bundle under their digests: inputs/<SHA-256 hex>."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..schema.inputs import Inputs
from .bundle import Bundle
from .files import write_bytes


def keep_inputs(bundle: Bundle, inputs: Inputs) -> None:
    """Copy the files into a bundle, so that its plan can be made again."""
    for sha256 in inputs.paths:
        path = _path(bundle, sha256)
        path.parent.mkdir(exist_ok=True)
        write_bytes(path, inputs.bytes_of(sha256))


def kept_inputs(bundle: Bundle, resolved: Any) -> Inputs:
    """Where the files of a resolved card are in its bundle. That their bytes are right is seen when they are read."""
    return Inputs({file["sha256"]: _path(bundle, file["sha256"]) for file in _named(resolved)})


def kept_by_name(bundle: Bundle, resolved: Any) -> dict[str, Path]:
    """The same, by the names that the card gives them."""
    return {file["name"]: _path(bundle, file["sha256"]) for file in _named(resolved)}


def _path(bundle: Bundle, sha256: str) -> Path:
    return bundle.root / "inputs" / sha256.removeprefix("sha256:")


def _named(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if {"name", "sha256", "bytes"} <= value.keys():
            yield value
        for below in value.values():
            yield from _named(below)
    elif isinstance(value, list):
        for below in value:
            yield from _named(below)

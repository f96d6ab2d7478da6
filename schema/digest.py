"""Canonical JSON (RFC 8785) and SHA-256 digests, written `sha256:` and 64 hex digits."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

_CHUNK = 1 << 20


def canonical_json(value: Any) -> bytes:
    """The RFC 8785 form of a JSON value, in UTF-8: keys in the order of their UTF-16 code units, numbers as ECMAScript
    writes them, no space.

    Integers beyond ±(2^53 − 1), which RFC 8785 leaves out because a double cannot hold each of them, are written with
    all their digits, so that two different ones never share a form. NaN, infinities, lone surrogates and keys that are
    not text are refused with ValueError."""
    parts: list[str] = []
    _write(value, parts)
    try:
        return "".join(parts).encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("a lone surrogate has no canonical form") from None


def _write(value: Any, parts: list[str]) -> None:
    if value is None or value is True or value is False:
        parts.append({None: "null", True: "true", False: "false"}[value])
    elif isinstance(value, str):
        parts.append(json.dumps(value, ensure_ascii=False))
    elif isinstance(value, int):
        parts.append(str(int(value)))
    elif isinstance(value, float):
        parts.append(_number(value))
    elif isinstance(value, list | tuple):
        parts.append("[")
        for index, item in enumerate(value):
            if index:
                parts.append(",")
            _write(item, parts)
        parts.append("]")
    elif isinstance(value, dict):
        _write_mapping(value, parts)
    else:
        raise ValueError(f"{type(value).__name__} has no canonical form")


def _write_mapping(value: dict[Any, Any], parts: list[str]) -> None:
    if not all(isinstance(key, str) for key in value):
        raise ValueError("a key that is not text has no canonical form")
    parts.append("{")
    for index, key in enumerate(sorted(value, key=lambda k: k.encode("utf-16-be", "surrogatepass"))):
        parts.append("," if index else "")
        parts.append(json.dumps(key, ensure_ascii=False))
        parts.append(":")
        _write(value[key], parts)
    parts.append("}")


def _number(value: float) -> str:
    """Number::toString of ECMA-262: the shortest digits that round-trip, and its rules for where the point stands."""
    if not math.isfinite(value):
        raise ValueError(f"{value} has no canonical form")
    if value == 0:
        return "0"
    if value < 0:
        return "-" + _number(-value)
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    point = len(whole) + int(exponent or 0)  # value = 0.digits * 10**point, before zeros are stripped
    digits = whole + fraction
    stripped = digits.lstrip("0")
    point -= len(digits) - len(stripped)
    digits = stripped.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        return digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    power = point - 1
    mantissa = digits if count == 1 else f"{digits[0]}.{digits[1:]}"
    return f"{mantissa}e{'+' if power > 0 else '-'}{abs(power)}"


def digest_bytes(data: bytes) -> str:
    """SHA-256 of bytes, as `sha256:…`."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest_json(value: Any) -> str:
    """SHA-256 of a value's canonical JSON, as `sha256:…`."""
    return digest_bytes(canonical_json(value))


def digest_file(path: str | Path) -> str:
    """SHA-256 of a file's bytes, as `sha256:…`, read in pieces."""
    state = hashlib.sha256()
    with Path(path).open("rb") as file:
        while piece := file.read(_CHUNK):
            state.update(piece)
    return "sha256:" + state.hexdigest()


def tree_digest(folder: str | Path) -> str:
    """Digest of a folder's Python sources: of the canonical JSON of {relative path with slashes: SHA-256 of its bytes}.

    For analysis/ this is the revision. Other files, and caches, do not count."""
    root = Path(folder)
    files = {path.relative_to(root).as_posix(): digest_file(path) for path in root.rglob("*.py") if path.is_file()}
    if not files:
        raise ValueError(f"{root} holds no Python sources")
    return digest_json(files)

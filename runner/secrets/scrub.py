"""Known secrets taken out of bytes, at once or as they come. Standard library only: a server's guard uses it too.

Bytes, since a secret is looked for in logs of any encoding, and since lowering ASCII leaves every place where it was.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .names import is_plain, is_strong, speaks_of_secret

MASK = b"[redacted]"
#: the longest piece of a log that is kept back until its line ends
_LONGEST_LINE = 1 << 20

_BASE64_BEFORE = re.compile(rb"[A-Za-z0-9+/_-]*\Z")
_BASE64_AFTER = re.compile(rb"[A-Za-z0-9+/_=-]*")
_VALUE = rb"""[\\"'\[({]{0,4}(?:(?:bearer|basic)\s+)?([^\s"'&;,\])}\\]+)"""
#: a name and the value that follows it: in a shell, Python, JSON, YAML, a query, a header; and on a command line
_ASSIGNED = re.compile(
    rb"""(?<![A-Za-z0-9_.-])([A-Za-z_][A-Za-z0-9_.-]{1,80})(?:\\?["'])?\s{0,3}(?:=>?(?!=)|:)\s{0,3}""" + _VALUE,
    re.IGNORECASE,
)
_FLAG = re.compile(rb"""--([A-Za-z][A-Za-z0-9_.-]{1,80})["']?(?:,?\s{1,3}|=)""" + _VALUE, re.IGNORECASE)
_SCHEME = re.compile(rb"\b(?:bearer|basic)(?:\s+|%20|\+)([\w.~+/=-]{6,})", re.IGNORECASE)
_IN_URL = re.compile(rb"""://([^/\s@'"<>]+:[^/\s@'"<>]+)@""")
_KNOWN = re.compile(
    rb"(?<![\w-])(?:sk-[\w-]{16,}|hf_[A-Za-z0-9]{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|"
    rb"xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|nvapi-[\w-]{20,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
)

Span = tuple[int, int]


@dataclass(frozen=True)
class Needles:
    """What is looked for. `folded`: in any case (given in lower case). `exact`: pieces of base64, masked with the
    base64 around them. `words`: secrets that could be ordinary text, masked only as words of their own, in free text.
    `named`: variable -> its value, masked where it follows the variable's name. `shorten`: (text, what it is written
    as), for paths of this machine."""

    folded: tuple[bytes, ...] = ()
    exact: tuple[bytes, ...] = ()
    words: tuple[bytes, ...] = ()
    named: dict[bytes, bytes] = field(default_factory=dict)
    shorten: tuple[tuple[bytes, bytes], ...] = ()

    def as_json(self) -> dict[str, Any]:
        """As JSON can hold it; for a pipe, never for a file."""
        held: dict[str, Any] = {name: list(map(_text, getattr(self, name))) for name in ("folded", "exact", "words")}
        for name, pairs in (("named", self.named.items()), ("shorten", self.shorten)):
            held[name] = [(_text(a), _text(b)) for a, b in pairs]
        return held

    @classmethod
    def from_json(cls, held: dict[str, Any]) -> Needles:
        """The reverse of as_json."""
        folded, exact, words = (tuple(map(_bytes, held[key])) for key in ("folded", "exact", "words"))
        named = {_bytes(name): _bytes(value) for name, value in held["named"]}
        return cls(folded, exact, words, named, tuple((_bytes(a), _bytes(b)) for a, b in held["shorten"]))


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)


def holds(data: bytes, needles: Needles) -> bool:
    """Whether a secret that cannot be ordinary text stands in the data. Fast: for large pages."""
    lowered = data.lower()
    return any(needle in lowered for needle in needles.folded) or any(needle in data for needle in needles.exact)


def scrub(data: bytes, needles: Needles, *, free: bool = True) -> bytes:
    """The data without secrets: those that are known, and what stands where a secret stands (after `Bearer`, in a URL
    before the host, after a name such as api_key). `free`: it is text for people, in which one word more may be
    masked; else words that could be one of a format's own stay."""
    spans = [*_known(data, needles, free), *_by_place(data, needles)]
    out, end = [], 0
    for start, stop in _merged(spans):
        out += [data[end:start], MASK]
        end = stop
    text = b"".join([*out, data[end:]]) if spans else data
    for long, short in needles.shorten:
        text = text.replace(long, short)
    return text


def _known(data: bytes, needles: Needles, free: bool) -> Iterator[Span]:
    lowered = data.lower()
    for needle in needles.folded:
        yield from _places(lowered, needle)
    for needle in needles.exact:
        for start, stop in _places(data, needle):
            before, after = _BASE64_BEFORE.search(data, max(0, start - 400), start), _BASE64_AFTER.match(data, stop)
            yield (before.start() if before else start), (after.end() if after else stop)
    for needle in needles.words if free else ():
        for start, stop in _places(lowered, needle):
            if not _wordlike(data[max(0, start - 1) : start]) and not _wordlike(data[stop : stop + 1]):
                yield start, stop


def _wordlike(byte: bytes) -> bool:
    return byte.isalnum() or byte == b"_"


def _places(data: bytes, needle: bytes) -> Iterator[Span]:
    at = data.find(needle)
    while at >= 0:
        yield at, at + len(needle)
        at = data.find(needle, at + 1)


def _by_place(data: bytes, needles: Needles) -> Iterator[Span]:
    for pattern in (_ASSIGNED, _FLAG):
        at = 0
        while (match := pattern.search(data, at)) is not None:
            at, start = match.end(1), match.start(2)
            value = needles.named.get(match[1], b"")
            end = start + len(value)
            if value and data.startswith(value, start) and not _wordlike(data[end : end + 1]):
                yield start, end
            elif speaks_of_secret(match[1].decode()) and _strong(match[2]):
                yield match.span(2)
    for match in _SCHEME.finditer(data):
        if _strong(match[1]):
            yield match.span(1)
    for match in (*_IN_URL.finditer(data), *_KNOWN.finditer(data)):
        yield match.span(1) if match.re is _IN_URL else match.span()


def _strong(value: bytes) -> bool:
    text = value.decode("utf-8", "replace")
    return is_strong(text) and not is_plain(text)


def _merged(spans: list[Span]) -> Iterator[Span]:
    held: Span | None = None
    for start, stop in sorted(spans):
        if held is None or start > held[1]:
            if held is not None:
                yield held
            held = (start, stop)
        else:
            held = (held[0], max(held[1], stop))
    if held is not None:
        yield held


class Stream:
    """Bytes that come in pieces, scrubbed line by line: a secret may be cut by a read, never by what is written."""

    def __init__(self, needles: Needles) -> None:
        self._needles = needles
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """What can be written now: the lines that are whole."""
        data = self._held + piece
        cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if not cut and len(data) > _LONGEST_LINE:
            cut = _blank_before(data)
        self._held = data[cut:]
        return scrub(data[:cut], self._needles) if cut else b""

    def close(self) -> bytes:
        """The last line, if it did not end."""
        last, self._held = self._held, b""
        return scrub(last, self._needles) if last else b""


def _blank_before(data: bytes) -> int:
    """Where a line without end may be cut: at a blank; a longest secret's length before its end if it has none."""
    return data.rfind(b" ", 0, len(data) - 65536) + 1 or len(data) - 65536

"""YAML, read strictly: bytes in, located nodes out, and a located problem for whatever a reader could stumble at.

PyYAML's parser gives the events; the nodes are built here, because its own loader keeps the last of two equal keys,
reads `no` as false and `1e3` as text, and expands an alias bomb.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from .errors import Problem
from .node import Node, Place, height
from .phrase import KeyPath, dotted, holds_secret, show
from .quantity import QuantityError
from .scalar import plain_scalar, short

MAX_BYTES = 1 << 20
#: values of one document, aliases expanded; the fullest card has a few hundred
MAX_NODES = 20_000
MAX_DEPTH = 32
MAX_ALIASES = 100


class _UnreadableError(Exception):
    """Reading cannot go on after this problem."""


def read_bytes(file: str) -> bytes:
    """A card's bytes, and no more than it takes to see that there are too many. Raises OSError."""
    with Path(file).open("rb") as stream:
        return stream.read(MAX_BYTES + 1)


def read_document(data: bytes, file: str) -> tuple[Node | None, list[Problem]]:
    """The root mapping of a card's bytes and the problems on the way; no root if there is nothing to go on with."""
    problems: list[Problem] = []
    try:
        return _Composer(_decode(data, file, problems), file, problems).document(), problems
    except _UnreadableError:
        return None, problems


def _decode(data: bytes, file: str, problems: list[Problem]) -> str:
    """The text of a card's bytes; its problem and _UnreadableError if they are none."""
    if len(data) > MAX_BYTES:
        problems.append(Problem(file, 1, 1, "", f"a file of more than {MAX_BYTES:,} bytes", "a card of a sane size"))
        raise _UnreadableError
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", errors="replace")
        found = f"the byte 0x{data[error.start]:02x}"
        problems.append(Problem(file, *_line_and_column(before, len(before)), "", found, "text in UTF-8"))
        raise _UnreadableError from None
    bad = yaml.reader.Reader.NON_PRINTABLE.search(text)
    if bad is not None:
        found = f"the control character U+{ord(bad.group()):04X}"
        problems.append(Problem(file, *_line_and_column(text, bad.start()), "", found, "printable text"))
        raise _UnreadableError
    return text


def _line_and_column(text: str, index: int) -> tuple[int, int]:
    """Line and column, from 1, of a position in a text."""
    start = text.rfind("\n", 0, index) + 1
    return text.count("\n", 0, start) + 1, index - start + 1


@dataclass(frozen=True)
class _Anchored:
    node: Node
    size: int


class _Composer:
    """Builds the nodes of one document from PyYAML's events."""

    def __init__(self, text: str, file: str, problems: list[Problem]) -> None:
        self.text, self.file, self.problems = text, file, problems
        self.events: Iterator[yaml.Event] = yaml.parse(text, Loader=yaml.SafeLoader)
        self.anchors: dict[str, _Anchored | None] = {}
        self.nodes = 0
        self.aliases = 0

    def document(self) -> Node | None:
        """The only document of the stream. Its root has to be a mapping."""
        self._next()  # stream start
        event = self._next()
        if isinstance(event, yaml.StreamEndEvent):
            self._problem(event, (), "an empty file", "a card")
            return None
        root = self._node(self._next(), (), 0)
        self._next()  # document end
        event = self._next()
        if not isinstance(event, yaml.StreamEndEvent):
            self._problem(event, (), "a second document", "one card a file")
        if isinstance(root.value, dict):
            return root
        kind = "a list" if isinstance(root.value, list) else "a single value"
        self.problems.append(Problem(*root.place, "", kind, "a mapping of keys, beginning with card: 1"))
        return None

    def _next(self) -> yaml.Event:
        try:
            return next(self.events)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
            index = mark.index if isinstance(mark, yaml.Mark) else 0
            found, wanted = _syntax(error, self.text, index)
            self.problems.append(Problem(self.file, line, column, "", found, wanted))
        except (yaml.YAMLError, ValueError, OverflowError) as error:  # "\UFFFFFFFF" is a bare ValueError of chr()
            found = f"text that is not YAML ({type(error).__name__})"
            self.problems.append(Problem(self.file, 1, 1, "", found, "YAML"))
        raise _UnreadableError

    def _place(self, event: yaml.Event) -> Place:
        mark = event.start_mark
        return (self.file, mark.line + 1, mark.column + 1) if mark is not None else (self.file, 1, 1)

    def _problem(self, event: yaml.Event, path: KeyPath, found: str, wanted: str, hint: str = "") -> None:
        shown = "a value that is not shown" if holds_secret(path) else found
        self.problems.append(Problem(*self._place(event), dotted(path), shown, wanted, hint if shown == found else ""))

    def _stop(self, event: yaml.Event, path: KeyPath, found: str, wanted: str) -> _UnreadableError:
        self._problem(event, path, found, wanted)
        return _UnreadableError()

    def _count(self, event: yaml.Event, path: KeyPath, nodes: int = 1) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            raise self._stop(event, path, f"more than {MAX_NODES:,} values, aliases expanded", "a card of a sane size")

    def _too_deep(self, event: yaml.Event, path: KeyPath) -> _UnreadableError:
        return self._stop(event, path, f"nesting deeper than {MAX_DEPTH} levels", "a card of a sane depth")

    def _node(self, event: yaml.Event, path: KeyPath, depth: int) -> Node:
        self._count(event, path)
        if depth > MAX_DEPTH:
            raise self._too_deep(event, path)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, path, depth)
        anchor, tag = getattr(event, "anchor", None), getattr(event, "tag", None)
        if anchor is not None:
            self.anchors[anchor] = None
        if tag is not None:
            self._problem(event, path, f"the tag {short(tag)}", "a value without a tag")
        before = self.nodes
        if isinstance(event, yaml.MappingStartEvent):
            node = self._mapping(event, path, depth)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._sequence(event, path, depth)
        else:
            assert isinstance(event, yaml.ScalarEvent)
            written = event.value if event.style is None else ""
            node = Node(self._scalar(event, path), self._place(event), written=written)
        if anchor is not None:
            self.anchors[anchor] = _Anchored(node, self.nodes - before + 1)
        return node

    def _alias(self, event: yaml.AliasEvent, path: KeyPath, depth: int) -> Node:
        """What the anchor named, counted in full: eight levels of nine aliases are 43 million values."""
        self.aliases += 1
        name = f"the alias *{short(str(event.anchor))}"
        if self.aliases > MAX_ALIASES:
            wanted = "the values themselves, or a card that `extends`"
            raise self._stop(event, path, f"more than {MAX_ALIASES} aliases", wanted)
        if event.anchor not in self.anchors:
            raise self._stop(event, path, name, "an alias of an anchor that stands before it")
        anchored = self.anchors[event.anchor]
        if anchored is None:
            raise self._stop(event, path, f"{name} inside what it names", "a value that ends")
        self._count(event, path, anchored.size)
        if depth + height(anchored.node) > MAX_DEPTH:
            raise self._too_deep(event, path)
        return Node(anchored.node.value, self._place(event), anchored.node.keys)

    def _sequence(self, event: yaml.SequenceStartEvent, path: KeyPath, depth: int) -> Node:
        items: list[Node] = []
        while not isinstance(item := self._next(), yaml.SequenceEndEvent):
            items.append(self._node(item, (*path, len(items)), depth + 1))
        return Node(items, self._place(event))

    def _mapping(self, event: yaml.MappingStartEvent, path: KeyPath, depth: int) -> Node:
        entries: dict[str, Node] = {}
        keys: dict[str, Place] = {}
        while not isinstance(key_event := self._next(), yaml.MappingEndEvent):
            key = self._key(key_event, path, depth)
            below = path if key is None else (*path, key)
            value = self._node(self._next(), below, depth + 1)
            if key is None:
                continue
            if key in entries:
                found, hint = f"the key {show(key)} a second time", f"first on line {keys[key][1]}"
                self.problems.append(Problem(*self._place(key_event), dotted(below), found, "each key once", hint))
                continue
            entries[key], keys[key] = value, self._place(key_event)
        return Node(entries, self._place(event), keys)

    def _key(self, event: yaml.Event, path: KeyPath, depth: int) -> str | None:
        """The text of a key, or None (and a problem) where it is not a plain name."""
        if not isinstance(event, yaml.ScalarEvent):
            self._node(event, path, depth + 1)
            self._problem(event, path, "a key that is not a name", "a name")
            return None
        if event.style is None and event.value == "<<":
            self._problem(event, path, "the merge key <<", "the keys themselves, or a card that `extends`")
            return None
        if event.anchor is not None or event.tag is not None:
            self._problem(event, path, f"the key {show(event.value)} with an anchor or a tag", "a plain name")
        before = len(self.problems)
        value = self._scalar(event, path)
        if isinstance(value, str):
            return value
        if len(self.problems) == before:
            found = "an empty key" if value is None else f"the key {short(event.value)}, which is not text"
            self._problem(event, path, found, "a name, in quotes if need be")
        return None

    def _scalar(self, event: yaml.ScalarEvent, path: KeyPath) -> object:
        """The value of a scalar; None and a problem where it has none."""
        if event.style is not None:
            return event.value
        try:
            return plain_scalar(event.value)
        except QuantityError as error:
            self._problem(event, path, error.found, error.wanted, error.hint)
            return None


def _syntax(error: yaml.MarkedYAMLError, text: str, index: int) -> tuple[str, str]:
    """What PyYAML stumbled at, in our words; its snippets stay out, because a card's line could hold a secret."""
    if text[index : index + 1] == "\t":
        return "a tab", "spaces: YAML does not indent with tabs"
    problem = error.problem or "something else"
    if problem.startswith("expected <block end>"):
        return "indentation that does not fit, or a value that goes on after its end", "YAML"
    if problem.startswith("mapping values are not allowed"):
        return "a second colon in one value", "a text with a colon in quotes, or the next key on a line of its own"
    expected = re.fullmatch(r"(?:did not find )?expected (.+?), but (?:got|found) (.+)", problem)
    if expected is not None:
        return expected.group(2), expected.group(1).replace("the node content", "a value")
    if problem == "could not find expected ':'":
        return "a line that is neither a key nor a value", "a colon and a space after each key"
    where = f" ({error.context})" if error.context else ""
    return problem.removeprefix("found ").removeprefix("but found ") + where, "YAML"

"""Items of a quality gate, read: prompts with known answers, one JSON object a line."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from .digest import canonical_json
from .phrase import show
from .recorded import Prompt, read_prompt
from .table import FileError, json_lines

#: the sets that are made from the seed: no file
BUILT_IN = ("arithmetic", "extraction")


@dataclass(frozen=True)
class Item:
    """A prompt (text, token ids or messages) by its id, and its answer as text (None: it has none)."""

    id: str
    prompt: Prompt
    answer: str | None = None

    def as_bytes(self) -> bytes:
        """The prompt's canonical JSON, which is what its digest covers."""
        return canonical_json(self.prompt)


@dataclass(frozen=True)
class Items:
    """The items of a file, in its order."""

    items: list[Item]

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.items)

    @property
    def answered(self) -> int:
        """How many of them have an answer."""
        return sum(item.answer is not None for item in self.items)


def read_items(data: bytes, endpoint: str) -> Items:
    """Read a file of items for an endpoint (completions, chat): {prompt | messages, answer?, id?}. An item without an
    id has its line's number. Raises FileError, located."""
    items: list[Item] = []
    lines: dict[str, int] = {}
    for line, row in json_lines(data):
        item = Item(_id(row.get("id"), line), read_prompt(row, endpoint, line), _answer(row.get("answer"), line))
        if item.id in lines:
            found = f"the id {show(item.id)} of line {lines[item.id]} again"
            raise FileError(found, "an id of its own for each item", line=line)
        lines[item.id] = line
        items.append(item)
    if not items:
        raise FileError("no items", "at least one")
    return Items(items)


def _id(value: Any, line: int) -> str:
    if value is None:
        return str(line)
    if isinstance(value, int | str) and not isinstance(value, bool) and 1 <= len(str(value)) <= 100:
        return str(value)
    raise FileError(f"the id {show(value)}", "a text of 1 to 100 characters, or a whole number", line=line)


def _answer(value: Any, line: int) -> str | None:
    if value is None:
        return None
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return str(value)
    raise FileError(f"the answer {show(value)}", "a text or a number", line=line)

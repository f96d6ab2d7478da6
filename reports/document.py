"""What a report is made of: sections of paragraphs, lists, tables, figures and commands, without any markup.

Both outputs, Markdown and HTML, are written from one Document, so that they cannot say different things.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: how a cell or paragraph is meant; the word always says it too, the colour only helps
TONES = ("", "good", "bad", "warn", "muted")


@dataclass(frozen=True)
class Cell:
    """One cell of a table. `tone` is one of TONES; `code` sets it as a literal (an id, a digest)."""

    text: str
    tone: str = ""
    code: bool = False


@dataclass(frozen=True)
class Column:
    """A column's heading; numeric columns are set flush right."""

    heading: str
    numeric: bool = False


@dataclass(frozen=True)
class Table:
    """A table with its caption; the first cell of a row is its heading."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    kind: str = "table"


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of plain text."""

    text: str
    tone: str = ""
    kind: str = "paragraph"


@dataclass(frozen=True)
class Bullets:
    """A list of plain texts; numbered where their order means something."""

    items: tuple[str, ...]
    numbered: bool = False
    kind: str = "bullets"


@dataclass(frozen=True)
class Figure:
    """A chart: a static SVG made by us, and the caption that says in words what it shows. Only HTML shows it."""

    svg: str
    caption: str
    kind: str = "figure"


@dataclass(frozen=True)
class Code:
    """Commands to type, one a line."""

    text: str
    kind: str = "code"


Block = Table | Paragraph | Bullets | Figure | Code


@dataclass(frozen=True)
class Section:
    """A titled part; `id` is its anchor."""

    id: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    """A whole report. `word` is the verdict word with its `symbol` and `tone`; `sentence` is what it says."""

    title: str
    word: str
    symbol: str
    tone: str
    sentence: str
    stamp: str
    because: tuple[str, ...] = ()
    decision: tuple[str, ...] = ()
    question: str = ""
    sections: tuple[Section, ...] = field(default=())


def table(caption: str, headings: str, rows: list[list[Cell | str]]) -> Table:
    """A table from headings separated by '|' (a leading '#': numeric) and rows of cells or plain texts."""
    columns = tuple(Column(h.strip().lstrip("#"), h.strip().startswith("#")) for h in headings.split("|"))
    cells = tuple(tuple(c if isinstance(c, Cell) else Cell(c) for c in row) for row in rows)
    for row in cells:
        if len(row) != len(columns):
            raise ValueError(f"{caption}: {len(row)} cells under {len(columns)} headings")
    return Table(caption, columns, cells)


def section(section_id: str, title: str, *blocks: Block | None) -> Section:
    """A section of the blocks that exist."""
    return Section(section_id, title, tuple(block for block in blocks if block is not None))

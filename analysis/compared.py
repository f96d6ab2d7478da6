"""A comparison of client and server in one cell, and the checks that rest on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Compared:
    """What was compared: the client's value (`most`: up to this, where it is a range), the server's, in `unit`; the
    `difference` beyond the range; `excess` as a share, against `limit`; `why` it is unknown, `note` on definitions."""

    what: str
    check: str
    unit: str
    client: float | None
    most: float | None
    server: float | None
    difference: float | None
    excess: float | None
    limit: float
    why: str | None
    note: str

    @property
    def word(self) -> str:
        """agree, differ or unknown."""
        if self.excess is None:
            return "unknown"
        return "agree" if self.excess <= self.limit else "differ"


class _View(Protocol):
    @property
    def compared(self) -> tuple[Compared, ...]:
        """The comparisons of the cell."""


def _of(view: _View, check: str) -> list[tuple[float, Compared]]:
    return [(row.excess, row) for row in view.compared if row.check == check and row.excess is not None]


def compared_as(check: str) -> Callable[[_View], bool]:
    """Whether anything could be compared under that check: what the server does not tell makes no cell invalid."""
    return lambda view: bool(_of(view, check))


def against_server(check: str) -> Callable[[_View], tuple[float | None, str | None]]:
    """The worst of the comparisons under that check."""
    return lambda view: (max(excess for excess, _ in _of(view, check)), None)

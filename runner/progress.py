"""Progress on long work: where the run is and how long it has to go. It shows no result: nobody looks in between."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

from .people import people_time
from .plan.blocks import Cell
from .plan.duration import cell_seconds
from .secrets import redactor


class Progress:
    """Writes to a terminal a line that is updated, to anything else a line a cell."""

    def __init__(self, card: dict[str, Any], stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        seconds = [cell_seconds(card, load) for load in card["workload"]["loads"]]
        self._planned = sum(s or 0.0 for s in seconds) / len(seconds) + card["method"]["pause_between_cells"]
        self._total = 0
        self._done = 0
        self._started = time.monotonic()
        self._label = ""

    def expect(self, cells: int) -> None:
        """So many cells are to be run from here on."""
        self._total = self._done + cells

    def more(self, cells: int) -> None:
        """So many cells more are to be run than was expected (or fewer)."""
        self._total += cells

    def cell(self, cell: Cell) -> None:
        """A cell begins."""
        self._label = f"[{self._done + 1}/{self._total}] {cell.cell}"
        self._show("server up, load begins" if self._live else None)

    def phase(self, name: str) -> None:
        """Something other than cells begins."""
        self._label = name

    def waiting(self, text: str) -> None:
        """Something other than load takes time."""
        if self._live:
            self._show(text)

    def attempts(self, ended: int, failed: int) -> None:
        """So many attempts of the current cell have ended; of these the client saw so many fail."""
        if self._live:
            self._show(f"{ended} attempts ended, {failed} timed out or unconnected")

    def ended(self, attempts: int, failed: int, note: str = "") -> None:
        """The current cell is over."""
        self._done += 1
        text = f"{attempts} attempts, {failed} failed{', ' + note if note else ''}; {self._time_left()}"
        self._show(text, final=True)

    def say(self, text: str) -> None:
        """A line of its own."""
        self._clear()
        print(redactor().value(text), file=self._stream, flush=True)

    def _time_left(self) -> str:
        left = self._total - self._done
        if left <= 0:
            return "no cell left"
        spent = (time.monotonic() - self._started) / max(self._done, 1)
        return f"about {people_time(left * max(spent, self._planned))} left"

    def _show(self, text: str | None, *, final: bool = False) -> None:
        if text is None:
            return
        self._clear()
        end = "\n" if final or not self._live else ""
        print(f"{self._label}  {text}", end=end, file=self._stream, flush=True)

    def _clear(self) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=self._stream)

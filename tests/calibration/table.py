"""The table of the calibration: what was counted, what it must be, and whether it is.

A rate that must be at most p holds if so many successes or more are not rarer than 1 in 10,000 for a true rate of p (so
that a table of a hundred rows which all stand exactly on their bound fails by chance once in a hundred times). A rate
that must lie in a range has no such allowance. Beside each stands its exact 99% interval (Clopper and Pearson, 1934).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from scipy import stats

#: how rare a count must be at the bound before the bound is taken for broken
RARE = 1e-4
#: the columns of the table
HEADINGS = ("what", "of", "experiments", "observed", "99% interval", "must be", "allowed", "holds")


@dataclass(frozen=True)
class Row:
    """`count` of `experiments` came out as `what` says; the true rate must lie between `low` and `high`. With `low`
    None the bound is one-sided, with the Monte-Carlo allowance."""

    group: str
    what: str
    count: int
    experiments: int
    low: float | None
    high: float

    @property
    def observed(self) -> float:
        """The share seen."""
        return self.count / self.experiments

    @property
    def allowed(self) -> tuple[float, float]:
        """The shares that hold."""
        if self.low is not None:
            return self.low, self.high
        return 0.0, int(stats.binom.isf(RARE, self.experiments, self.high)) / self.experiments

    @property
    def interval(self) -> tuple[float, float]:
        """The exact 99% interval of the true rate."""
        k, n = self.count, self.experiments
        lower = float(stats.beta.ppf(0.005, k, n - k + 1)) if k else 0.0
        upper = float(stats.beta.ppf(0.995, k + 1, n - k)) if k < n else 1.0
        return lower, upper

    @property
    def holds(self) -> bool:
        """Whether the observed share is allowed."""
        low, high = self.allowed
        return low <= self.observed <= high

    def cells(self) -> list[str]:
        """The row as texts, in the order of `HEADINGS`."""
        low, high = self.interval
        must = f"≤ {_percent(self.high)}" if self.low is None else f"{_percent(self.low)} to {_percent(self.high)}"
        least, most = self.allowed
        allowed = f"≤ {100 * most:.2f}%" if self.low is None else f"{_percent(least)} to {_percent(most)}"
        seen = f"{100 * self.observed:.2f}%"
        bounds = f"{100 * low:.2f}% to {100 * high:.2f}%"
        word = "yes" if self.holds else "NO"
        return [self.what, f"{self.count}", f"{self.experiments}", seen, bounds, must, allowed, word]


def _percent(share: float) -> str:
    return f"{100 * share:.6g}%"


def at_most(group: str, what: str, count: int, experiments: int, rate: float) -> Row:
    """A rate that must not be above `rate`."""
    return Row(group, what, count, experiments, None, rate)


def within(group: str, what: str, count: int, experiments: int, low: float, high: float) -> Row:
    """A rate that must lie between `low` and `high`."""
    return Row(group, what, count, experiments, low, high)


def markdown(rows: list[Row]) -> str:
    """A Markdown table for each group, in the order in which groups first appear."""
    out = []
    for group in dict.fromkeys(row.group for row in rows):
        out += [f"## {group}", "", f"| {' | '.join(HEADINGS)} |", "|---|" + "---:|" * 6 + "---|"]
        out += [f"| {' | '.join(row.cells())} |" for row in rows if row.group == group]
        out.append("")
    return "\n".join(out)


def parsed(text: str) -> list[Row]:
    """The rows of such tables, from what is written in them: counts, and what they must be."""
    rows, group = [], ""
    for line in text.splitlines():
        if line.startswith("## "):
            group = line[3:]
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) != len(HEADINGS) or not cells[1].isdigit():
            continue
        numbers = [float(number) / 100 for number in re.findall(r"[\d.]+(?=%)", cells[5])]
        low = None if cells[5].startswith("≤") else numbers[0]
        rows.append(Row(group, cells[0], int(cells[1]), int(cells[2]), low, numbers[-1]))
    return rows

"""What can go wrong, and the exit code of each.

BenchcardError
├── InputError            exit 2    something a person gave us is wrong: a card, a bundle, an argument
│   ├── CardError                   a card that does not validate; holds every located problem
│   ├── BundleError                 a run directory that is missing, incomplete or not ours
│   └── RevisionError               the analysis that is pinned is not the one that is here
├── SystemUnderTestError  exit 3    a server did not start, answer or match; the run is resumable
├── InterruptedRunError   exit 130  stopped by the user; the run is resumable
└── InternalError         exit 4    a bug in benchcard

A person never sees a traceback: the command line prints the message of the error and exits with its code. A message
says what was found, where, and what would be right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

EXIT_OK = 0
EXIT_INPUT = 2
EXIT_SYSTEM = 3
EXIT_BUG = 4
EXIT_INTERRUPTED = 130

#: `benchcard verdict --exit-code`
VERDICT_EXIT_CODES = {"supported": 0, "falsified": 10, "inconclusive": 11, "mixed": 12, "invalid": 13}
#: `benchcard audit` when a check failed
EXIT_AUDIT_FAILED = 20


class BenchcardError(Exception):
    """Any error benchcard raises on purpose; `exit_code` is what the command line exits with."""

    exit_code = EXIT_BUG


class InputError(BenchcardError):
    """Something a person gave us is wrong."""

    exit_code = EXIT_INPUT


@dataclass(frozen=True, order=True)
class Problem:
    """One thing wrong with a card: where it stands (line and column from 1), its key path, what was found, what is
    right.

    `hint` is a did-you-mean or a piece of advice, or empty.
    """

    file: str
    line: int
    column: int
    path: str
    found: str
    wanted: str
    hint: str = ""

    def __str__(self) -> str:
        return self._text("")

    def as_warning(self) -> str:
        """The text of a problem that refuses nothing: `file:line:column: warning: …`."""
        return self._text(" warning:")

    def _text(self, kind: str) -> str:
        where = f"{self.file}:{self.line}:{self.column}:{kind}"
        key = f" {self.path}:" if self.path else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{where}{key} found {self.found}; wanted {self.wanted}{hint}"


class CardError(InputError):
    """A card that does not validate: all of its problems, in the order of the file."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = sorted(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class BundleError(InputError):
    """A run directory that is missing, incomplete, or of a format we do not read."""


class RevisionError(InputError):
    """The analysis revision that the card pins is not the one at hand."""


class SystemUnderTestError(BenchcardError):
    """A system under test did not start, answer or match what the card says."""

    exit_code = EXIT_SYSTEM


class InterruptedRunError(BenchcardError):
    """The user stopped the run; what was finished stays, and `--resume` goes on."""

    exit_code = EXIT_INTERRUPTED


class InternalError(BenchcardError):
    """A bug in benchcard."""

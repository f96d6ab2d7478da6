"""The pinned analysis, run as a process of its own: the installed revision or an archived one, the same way.

Which code may run: the installed revision; an archived revision that this project has released (revisions.json); any
other code in a bundle is somebody's program, and runs only if the user says so.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ..schema.digest import tree_digest
from ..schema.errors import BundleError, InputError, InternalError, RevisionError
from .bundle import Bundle
from .files import read_json

#: the analysis's own exit code for an input it cannot use
_BAD_INPUT = 2


def installed_source() -> Path:
    """The folder of the installed analysis. It is found, not imported."""
    spec = importlib.util.find_spec("benchcard.analysis")
    if spec is None or not spec.submodule_search_locations:
        raise InternalError("benchcard.analysis is not installed beside benchcard.runner")
    return Path(next(iter(spec.submodule_search_locations)))


def installed_revision() -> str:
    """The digest of the installed analysis's source tree."""
    return tree_digest(installed_source())


def released_revisions() -> list[str]:
    """Digests of the revisions that this project has released."""
    releases: list[str] = read_json(Path(__file__).with_name("revisions.json"))
    return releases


@dataclass(frozen=True)
class Analysis:
    """A revision that is ready to run: its digest, and the module to start with its import path."""

    revision: str
    module: str
    path: str | None

    @property
    def judges_identity(self) -> bool:
        """Whether this revision knows the gate of identity; one of before does not understand the question."""
        return self.path is None or (Path(self.path) / "analysis" / "identity.py").is_file()

    def run(self, *arguments: str, stdin: str | None = None) -> str:
        """Run a command of the analysis and return what it printed. Raises InputError with its message if it
        refuses."""
        result = subprocess.run(
            self._command(arguments), input=stdin, capture_output=True, text=True, env=self._env(), check=False
        )
        if result.returncode == _BAD_INPUT:
            raise InputError(result.stderr.strip().removeprefix("error: ") or "the analysis refused its input")
        if result.returncode != 0:
            raise InternalError(f"the analysis failed (exit {result.returncode}):\n{result.stderr.strip()[-4000:]}")
        return result.stdout

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        # -P: nothing in the current directory (which may be somebody's bundle) stands in for the analysis or a library.
        return [sys.executable, "-P", "-m", self.module, *arguments]

    def _env(self) -> dict[str, str]:
        return dict(os.environ) if self.path is None else {**os.environ, "PYTHONPATH": self.path}

    @contextmanager
    def cell_checks(self, bundle: Bundle) -> Iterator[CellChecks]:
        """The validity checks of single cells, from one process that stays up (starting one takes half a second)."""
        process = subprocess.Popen(
            self._command(("check", str(bundle.root))),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self._env(),
            # Ctrl-C is the runner's to handle: this process ends when its input does.
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield CellChecks(process.stdin, process.stdout, self.judges_identity)
        finally:
            with contextlib.suppress(OSError):  # it may have ended already; then `ask` has said so
                process.stdin.close()
            process.wait(30)
            process.stdout.close()


@dataclass(frozen=True)
class CellChecks:
    """Asks a running analysis about one cell at a time, and about the identity of the arms."""

    questions: IO[str]
    answers: IO[str]
    judges_identity: bool

    def ask(self, cell: str) -> list[dict[str, Any]]:
        """The validity checks of a finished cell: name, passed, observed, limit, unit, meaning, advice."""
        checks: list[dict[str, Any]] = self._answer(cell, f"about cell {cell}")["checks"]
        return checks

    def identity(self) -> tuple[list[dict[str, Any]], list[str]]:
        """The forbidden differences of identity that the bundle's files show so far: rows as in verdict.json's
        `identity`, and texts. No rows where the pinned revision is older than the gate."""
        if not self.judges_identity:
            return [], []
        found = self._answer("identity", "about the identity of the arms")["identity"]
        return found["rows"], found["texts"]

    def _answer(self, question: str, about: str) -> dict[str, Any]:
        with contextlib.suppress(BrokenPipeError):
            self.questions.write(question + "\n")
            self.questions.flush()
        line = self.answers.readline()
        if not line:
            raise InternalError(f"the analysis ended while it was asked {about}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def pinned_analysis(bundle: Bundle, *, run_bundled_code: bool = False) -> Iterator[Analysis]:
    """The analysis that the bundle's card pins. Raises RevisionError, naming both, if it may not or cannot be run."""
    pinned = str(read_json(bundle.resolved)["analysis"]["revision"])
    installed = installed_revision()
    if pinned == installed:
        yield Analysis(installed, "benchcard.analysis", None)
        return
    for archive in bundle.archives():
        with tempfile.TemporaryDirectory(prefix="benchcard-analysis-") as folder:
            _unpack(archive, Path(folder))
            if tree_digest(Path(folder) / "analysis") != pinned:
                continue
            if pinned not in released_revisions() and not run_bundled_code:
                raise RevisionError(
                    f"{bundle.root}: the card pins analysis revision {pinned}; installed is {installed}. The "
                    "bundle holds the pinned source, but it is no released revision of benchcard, so it is somebody's "
                    "program. "
                    "Read it (analysis/*.zip), then pass --run-bundled-code to run it"
                )
            yield Analysis(pinned, "analysis", folder)
            return
    raise RevisionError(
        f"{bundle.root}: the card pins analysis revision {pinned}; installed is {installed}, and the bundle holds no "
        "archive of the pinned one"
    )


def archived_revisions(bundle: Bundle) -> list[str]:
    """The digests of the revisions whose source the bundle holds."""
    found = []
    for archive in bundle.archives():
        with tempfile.TemporaryDirectory(prefix="benchcard-analysis-") as folder:
            _unpack(archive, Path(folder))
            found.append(tree_digest(Path(folder) / "analysis"))
    return found


def _unpack(archive: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(archive) as source:
            names = source.namelist()
            if len(set(names)) != len(names):
                raise BundleError(f"{archive}: holds a file twice")
            for name in names:
                if not name.endswith(".py"):
                    # What the digest does not cover must not be there to be imported.
                    raise BundleError(f"{archive}: {name!r} is no Python source")
                target = (folder / name).resolve()
                if not target.is_relative_to(folder.resolve()) or not name.startswith("analysis/"):
                    raise BundleError(f"{archive}: {name!r} would be written outside the archive's own folder")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(source.read(name))
    except (zipfile.BadZipFile, OSError) as error:
        raise BundleError(f"{archive}: not a readable archive: {error}") from None

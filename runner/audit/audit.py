"""The audit of a bundle: every check, and what each found."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...schema.errors import BenchcardError, RevisionError
from ..analysis_process import pinned_analysis
from ..bundle import Bundle
from .checks import CHECKS, run_check
from .context import Context, Renderer


@dataclass(frozen=True)
class Finding:
    """A check's result."""

    name: str
    meaning: str
    passed: bool
    faults: list[str]


@dataclass(frozen=True)
class Audit:
    """All findings, and what was noticed that is no fault."""

    run: str
    findings: list[Finding]
    notes: list[str]

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return all(finding.passed for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """The audit as a document."""
        return {
            "run": self.run,
            "passed": self.passed,
            "checks": [asdict(f) for f in self.findings],
            "notes": self.notes,
        }


def audit(bundle: Bundle, render: Renderer | None, *, run_bundled_code: bool = False) -> Audit:
    """Run every check. Raises RevisionError if the pinned analysis is somebody's program and may not be run."""
    with tempfile.TemporaryDirectory(prefix="benchcard-audit-") as folder:
        again, why = _analyse_again(bundle, Path(folder), run_bundled_code)
        context = Context(bundle, again, why, render)
        findings = []
        for check in CHECKS:
            faults = run_check(check, context)
            findings.append(Finding(check.name, check.meaning, not faults, faults))
        return Audit(bundle.name, findings, _notes(context))


def _analyse_again(bundle: Bundle, folder: Path, run_bundled_code: bool) -> tuple[Path | None, str | None]:
    try:
        with pinned_analysis(bundle, run_bundled_code=run_bundled_code) as analysis:
            analysis.run(bundle.analysis_command, str(bundle.root), "--out", str(folder))
        return folder, None
    except RevisionError:
        raise
    except BenchcardError as error:
        return None, f"the pinned analysis refused the bundle: {error}"


def _notes(context: Context) -> list[str]:
    return [*_pilot_note(context), *_library_notes(context)]


def _pilot_note(context: Context) -> list[str]:
    return ["this is a pilot: it has no verdict, and its data enter none"] if context.bundle.is_pilot else []


def _library_notes(context: Context) -> list[str]:
    try:
        then, now = context.result["libraries"], context.result_again["libraries"]
    except (ValueError, KeyError, OSError):
        return []
    return [
        f"{name} was {then.get(name)} when the verdict was made, and is {now.get(name)} here"
        for name in sorted({*then, *now})
        if then.get(name) != now.get(name)
    ]

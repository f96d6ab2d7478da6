"""After the load: analysis, report, manifest. The one place that wires runner, analysis and reports together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..analysis_process import pinned_analysis
from ..bundle import Bundle, write_manifest
from ..files import read_json


def analyse_and_render(bundle: Bundle, *, run_bundled_code: bool = False) -> dict[str, Any]:
    """Run the pinned analysis, render the reports, write the manifest; returns the verdict (or the baseline)."""
    with pinned_analysis(bundle, run_bundled_code=run_bundled_code) as analysis:
        analysis.run(bundle.analysis_command, str(bundle.root))
    if bundle.is_pilot:
        write_manifest(bundle)
    else:
        render_reports(bundle)
    result: dict[str, Any] = read_json(bundle.result())
    return result


def render_reports(bundle: Bundle) -> list[Path]:
    """Write REPORT.md and report.html from what the analysis wrote, then the manifest."""
    from benchcard.reports.render import render

    written = render(bundle.root)
    write_manifest(bundle)
    return written


def headline(result: dict[str, Any]) -> str:
    """One sentence for the terminal."""
    if "verdict" not in result:
        return "baseline measured" if result.get("valid") else "baseline invalid: the report says why"
    return f"verdict: {result['verdict']}\n{result['sentence']}"

"""Heavy libraries load only where they are used, so that the command line answers at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    *("polars", "numpy", "scipy", "altair", "vl_convert", "httpx", "jinja2", "uvloop", "prometheus_client"),
    "tokenizers",
}
CARD = Path(__file__).parents[2] / "cards" / "quickstart.yaml"


@pytest.mark.parametrize(
    "arguments", [["--help"], ["validate", str(CARD)], ["explain", "claim"], ["new", "x", "--help"]]
)
def test_nothing_heavy_is_loaded(arguments: list[str]) -> None:
    code = (
        "import sys\n"
        "from benchcard.runner.cli import group\n"
        f"group.main({arguments!r}, standalone_mode=False)\n"
        "print(sorted({name.split('.')[0] for name in sys.modules}), file=sys.stderr)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(eval(result.stderr.splitlines()[-1]))
    assert not loaded & HEAVY


def test_a_report_does_not_load_the_http_client() -> None:
    code = "import sys, benchcard.runner.cli.report, benchcard.reports.render; print('httpx' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"

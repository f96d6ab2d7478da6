"""The analysis as a process: files in, files out.

    python -m benchcard.analysis verdict BUNDLE [--out DIR]
    python -m benchcard.analysis compare DAY1 DAY2 --out FILE
    python -m benchcard.analysis check BUNDLE < cell ids, a line each > answers, a line each
    python -m benchcard.analysis cell BUNDLE CELL > its metrics
    python -m benchcard.analysis pilot BUNDLE [--out DIR]
    python -m benchcard.analysis power < question.json > answer.json

Exit codes: 0 done · 2 bad input, one line on stderr · 4 a bug in the analysis.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from .records import BundleError

EXIT_OK, EXIT_INPUT, EXIT_BUG = 0, 2, 4


def _verdict(arguments: argparse.Namespace) -> None:
    from . import output
    from .cells import read_cells
    from .populations import all_have_objectives
    from .read import read_bundle
    from .series import write_series

    bundle = read_bundle(arguments.bundle)
    folder = arguments.out or arguments.bundle
    reading = read_cells(bundle)
    if bundle.card["kind"] == "ab":
        from .verdict import verdict

        output.write(folder / "verdict.json", verdict(reading))
    else:
        from .baseline import baseline

        output.write(folder / "inference_baseline.json", baseline(reading))
    write_series(reading, folder / "series", goodput=all_have_objectives(bundle.card))


def _pilot(arguments: argparse.Namespace) -> None:
    from . import output
    from .cells import read_cells
    from .pilot import pilot
    from .read import read_bundle

    reading = read_cells(read_bundle(arguments.bundle))
    output.write((arguments.out or arguments.bundle) / "pilot.json", pilot(reading))


def _compare(arguments: argparse.Namespace) -> None:
    from . import output
    from .compare import compare

    output.write(arguments.out, compare(arguments.day1, arguments.day2))


def _check(arguments: argparse.Namespace) -> None:
    from .check import serve
    from .read import read_bundle

    serve(read_bundle(arguments.bundle), sys.stdin, sys.stdout)


def _cell(arguments: argparse.Namespace) -> None:
    from . import output
    from .one_cell import cell_values
    from .read import read_bundle

    sys.stdout.write(output.text(cell_values(read_bundle(arguments.bundle), arguments.cell)))


def _power(_: argparse.Namespace) -> None:
    from . import output
    from .power import answer

    try:
        question = json.load(sys.stdin)
    except ValueError as error:
        raise BundleError(f"stdin: not JSON: {error}") from None
    if not isinstance(question, dict):
        raise BundleError("stdin: wanted one JSON object")
    sys.stdout.write(output.text(answer(question)))


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="analysis", description="A bundle of raw events -> verdict.json")
    commands = top.add_subparsers(dest="command", required=True)
    verdict = commands.add_parser("verdict", help="analyse a run directory")
    verdict.add_argument("bundle", type=Path)
    verdict.add_argument("--out", type=Path, help="write into this directory instead of the run's")
    verdict.set_defaults(run=_verdict)
    pilot = commands.add_parser("pilot", help="what a pilot found: spreads, no verdict")
    pilot.add_argument("bundle", type=Path)
    pilot.add_argument("--out", type=Path, help="write into this directory instead of the run's")
    pilot.set_defaults(run=_pilot)
    compare = commands.add_parser("compare", help="put two days of one card side by side")
    compare.add_argument("day1", type=Path)
    compare.add_argument("day2", type=Path)
    compare.add_argument("--out", type=Path, required=True, help="the file to write")
    compare.set_defaults(run=_compare)
    check = commands.add_parser("check", help="the validity of single cells: a cell id a line in, JSON a line out")
    check.add_argument("bundle", type=Path)
    check.set_defaults(run=_check)
    cell = commands.add_parser("cell", help="every metric of one cell, as JSON on stdout")
    cell.add_argument("bundle", type=Path)
    cell.add_argument("cell")
    cell.set_defaults(run=_cell)
    power = commands.add_parser("power", help="what an experiment can detect: JSON on stdin, JSON on stdout")
    power.set_defaults(run=_power)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code. A person sees one line, never a traceback."""
    arguments = parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except BundleError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_INPUT
    except Exception as error:
        print(f"bug in the analysis: {type(error).__name__}: {error}", file=sys.stderr)
        return EXIT_BUG
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())

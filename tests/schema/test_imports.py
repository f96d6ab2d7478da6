"""The import rule: what each folder may import of ours, so that the pipeline's only joints are files.

schema imports none of ours; analysis neither, and of others only numpy, scipy and polars (its source tree is the pinned
revision, and has to run alone); reports and runner may import schema; only the command line imports reports, lazily.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("schema", "runner", "analysis", "reports")
OURS = {
    "schema": {"schema"},
    "runner": {"runner", "schema"},
    "analysis": {"analysis"},
    "reports": {"reports", "schema"},
}
OTHERS = {"schema": {"yaml", "jsonschema"}, "analysis": {"numpy", "scipy", "polars"}}
FILES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Every module a file imports, as an absolute name, and whether that happens inside a function."""
    package = ["benchcard", *path.relative_to(ROOT).parent.parts]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    lazy = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for inner in ast.walk(node)}  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) in lazy
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            module = [*base, *(node.module or "").split(".")] if node.module else base
            if len(module) > 1 or module[0] != "benchcard":
                yield ".".join(module), id(node) in lazy
            else:
                for alias in node.names:
                    yield f"benchcard.{alias.name}", id(node) in lazy


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_a_file_imports_only_what_its_folder_may(path: Path) -> None:
    folder = path.relative_to(ROOT).parts[0]
    is_cli = path.relative_to(ROOT).parts[:2] == ("runner", "cli")
    for name, lazy in imports(path):
        first, _, rest = name.partition(".")
        if first == "benchcard":
            part = rest.partition(".")[0]
            allowed = OURS[folder] | ({"reports"} if is_cli and lazy else set())
            assert part in allowed, f"{path.name} imports {name}"
        elif folder in OTHERS and first not in sys.stdlib_module_names:
            assert first in OTHERS[folder], f"{path.name} imports {name}"


def test_analysis_never_names_the_package_it_lives_in() -> None:
    """It has to run from an archive, under another package's name."""
    for path in (ROOT / "analysis").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                depth = len(path.relative_to(ROOT / "analysis").parts)
                assert node.level <= depth, f"{path.name} imports from outside its folder"
                assert not (node.module or "").startswith("benchcard"), f"{path.name} imports by absolute name"


def test_the_command_line_starts_without_what_it_may_not_need() -> None:
    """The card's schema loads yaml; jsonschema only once a card is validated."""
    path = ROOT / "schema" / "structure.py"
    assert ("benchcard.schema.keywords", True) in set(imports(path))
    for other in (ROOT / "schema").glob("*.py"):
        if other.name != "keywords.py":
            assert not any(name.startswith("jsonschema") for name, _ in imports(other))

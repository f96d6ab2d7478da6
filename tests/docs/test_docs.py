"""The documents say what is there: every command, every card, every folder's rule."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchcard.runner.cli import COMMANDS, group
from benchcard.schema.card import load_card
from benchcard.schema.errors import EXIT_AUDIT_FAILED, EXIT_BUG, EXIT_INPUT, EXIT_INTERRUPTED, EXIT_SYSTEM
from benchcard.schema.structure import card_schema

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_every_command_is_in_the_readme_and_has_help() -> None:
    table = set(re.findall(r"^\| `benchcard (\w+)", README, re.M))
    assert table == set(COMMANDS)
    for name in COMMANDS:
        command = group.get_command(None, name)  # type: ignore[arg-type]
        assert command is not None
        assert command.help, name


def test_every_make_target_in_the_documents_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.M))
    for document in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / document).read_text()
        assert set(re.findall(r"make ([a-z-]+)", text)) <= targets | {"sure"}


def test_exit_codes_are_the_readmes() -> None:
    for code in (EXIT_INPUT, EXIT_SYSTEM, EXIT_BUG, EXIT_INTERRUPTED, EXIT_AUDIT_FAILED):
        assert re.search(rf"^\| {code} \|", README, re.M)


@pytest.mark.parametrize("card", sorted((ROOT / "cards").glob("*.yaml")), ids=lambda path: path.name)
def test_every_card_validates(card: Path) -> None:
    assert load_card(card).resolved["card"] == 1


def test_links_between_documents_lead_somewhere() -> None:
    for document in [*ROOT.glob("*.md"), *(ROOT / "cards").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
            if not target.startswith("http"):
                assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_every_format_of_a_file_is_described() -> None:
    text = (ROOT / "cards" / "FILES.md").read_text()
    workload = card_schema()["properties"]["workload"]["properties"]
    requests = workload["requests"]["properties"]
    for place in (workload["arrivals"], requests["file"], requests["pairs"]):
        for format_ in place["properties"]["format"]["enum"]:
            assert f"`{format_}`" in text, format_


def test_every_package_folder_is_installed() -> None:
    import tomllib

    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = {
        "benchcard." + ".".join(path.parent.relative_to(ROOT).parts)
        for top in ("schema", "runner", "analysis", "reports", "cards")
        for path in (ROOT / top).rglob("__init__.py")
    }
    assert found == listed


def test_nothing_of_one_machine_is_named() -> None:
    """Paths of somebody's machine have no place in the project."""
    home = re.compile("|".join(rf"/{folder}/\w" for folder in ("root", "home", "work", "srv")))
    for path in ROOT.rglob("*"):
        parts = path.relative_to(ROOT).parts
        if any(part.startswith(".") or part in ("build", "runs") or part.endswith("egg-info") for part in parts):
            continue
        if path.suffix in {".py", ".md", ".yaml", ".toml", ".json", ".txt"} and "__pycache__" not in parts:
            if path == Path(__file__):
                continue
            found = home.search(path.read_text(errors="replace"))
            assert found is None, f"{path}: {found and found[0]}"

"""A benchmark card: text in, a located and resolved card out, or every problem it has at once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from .advice import advice
from .defaults import Filled, fill, loads_of_a_trace
from .digest import digest_json
from .document import read_bytes, read_document
from .errors import CardError, InputError, Problem
from .inputs import Inputs, read_inputs
from .node import Node, empty_values, merge
from .phrase import show
from .pilot import pilot_of_another
from .quality import fill_gates
from .resolve import resolve
from .rules import broken_rules
from .structure import card_schema, normalise, violations
from .versions import CARD_VERSION

_LONGEST_CHAIN = 8


@dataclass(frozen=True)
class Card:
    """A card that validates. `resolved` is what card.resolved.json holds, `digest` its digest; `values` is nested as on
    the card, and `sources` says for each of its key paths: card, default, or extends FILE. `text` is the file's own;
    `standalone` is the same, or, for a card that extends another, one text that resolves to the same without it.
    `inputs` says where the bytes of the files that it names are; `warnings` are what its author should know, and may
    want."""

    path: str
    text: str
    resolved: dict[str, Any]
    digest: str
    values: dict[str, Any]
    sources: Mapping[str, str]
    standalone: str
    inputs: Inputs = field(default_factory=Inputs)
    warnings: tuple[Problem, ...] = ()


def load_card(
    path: str | os.PathLike[str], installed_revision: str | None = None, files: Mapping[str, Path] | None = None
) -> Card:
    """Read, check and resolve a card. `analysis.revision: installed` becomes `installed_revision` if that is given.
    `files`: where the files that the card names are, by the names it gives them, if not beside it (a bundle's).

    Raises CardError with every problem, sorted by place; InputError if the file cannot be read."""
    file = os.fspath(path)
    data = _read(file)
    problems: list[Problem] = []
    root = _with_bases(data, file, problems, [os.path.realpath(file)])
    if root is None:
        raise CardError(problems)
    _add(problems, empty_values(root))
    _add(problems, violations(root))
    filled = fill(root, file, {problem.path for problem in problems})
    inputs = read_inputs(filled, files, problems)
    loads_of_a_trace(filled)
    fill_gates(filled)
    _add(problems, broken_rules(filled))
    if problems:
        raise CardError(problems)
    if installed_revision is not None and filled.values["analysis"]["revision"] == "installed":
        filled.values["analysis"]["revision"] = installed_revision
    resolved = resolve(filled)
    _of_its_own_pilot(filled, resolved)
    text = data.decode("utf-8-sig")
    standalone = _standalone(root) if "extends" in root.mapping else text
    return Card(
        file, text, resolved, digest_json(resolved), filled.values, filled.sources, standalone, inputs,
        tuple(sorted(advice(filled))),
    )  # fmt: skip


def _of_its_own_pilot(filled: Filled, resolved: dict[str, Any]) -> None:
    """Refuse a spread from a pilot of another system or workload, naming the first difference. What the resolved card
    keeps of the pilot is its numbers, not the card that it was of."""
    spread = (resolved["power"] or {}).get("spread")
    if not isinstance(spread, dict):
        return
    matters = spread["from"].pop("matters")
    difference = pilot_of_another(matters, resolved, filled.on_card)
    if difference is not None:
        wanted = "a pilot of this card's system, arms, workload and objectives: `benchcard run CARD --pilot`"
        found = f"a pilot of another card: {difference}"
        raise CardError([filled.problem(("power", "spread", "from"), found, wanted)])


def _read(file: str) -> bytes:
    try:
        return read_bytes(file)
    except OSError as error:
        raise InputError(f"{file}: found nothing to read ({error.strerror}); wanted a card") from None


def _add(problems: list[Problem], more: Any) -> None:
    """Add what is new: where a place already has a problem, a second view of the same fault only confuses."""
    places = {problem.path for problem in problems if problem.path}
    problems.extend(problem for problem in more if problem.path not in places)


def _with_bases(data: bytes, file: str, problems: list[Problem], chain: list[str]) -> Node | None:
    """The root of a card, laid over the cards it extends; None if there is nothing to go on with."""
    root, found = read_document(data, file)
    problems += found
    if root is None:
        return None
    other = _version_problem(root)
    if other is not None:
        problems.append(other)
        return None
    root = normalise(root, card_schema(), problems)
    base = root.mapping.get("extends")
    if base is None or not isinstance(base.value, str):
        return root
    under = _base(base, file, problems, chain)
    return None if under is None else merge(under, root)


def _base(node: Node, file: str, problems: list[Problem], chain: list[str]) -> Node | None:
    """The root of the card that a card extends."""
    name = str(node.value)
    target = os.path.join(os.path.dirname(file), name)
    place = (*node.place, "extends")
    if os.path.isabs(name):
        problems.append(Problem(*place, show(name), "a path relative to this card", "cards move between machines"))
    elif os.path.realpath(target) in chain:
        problems.append(
            Problem(*place, f"{show(name)}, which extends this card", "a card that does not lead back here")
        )
    elif len(chain) > _LONGEST_CHAIN:
        problems.append(Problem(*place, f"a chain of {len(chain)} cards", f"at most {_LONGEST_CHAIN}"))
    else:
        try:
            data = read_bytes(target)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "not a path"
            problems.append(Problem(*place, f"{show(name)}, which cannot be read ({why})", "another card"))
        else:
            return _with_bases(data, target, problems, [*chain, os.path.realpath(target)])
    return None


class _Quoted(yaml.SafeDumper):
    """Writes every text in quotes, so that no reader takes one for a number or a boolean."""


_Quoted.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))


def _standalone(root: Node) -> str:
    """The card and what it extends as one text."""
    plain = root.plain()
    assert isinstance(plain, dict)
    without = {key: value for key, value in plain.items() if key != "extends"}
    return yaml.dump(without, Dumper=_Quoted, sort_keys=False, default_flow_style=None)


def _version_problem(root: Node) -> Problem | None:
    """A card of another format version is refused by name; its keys may mean something else."""
    node = root.mapping.get("card")
    if node is None or node.value is None or node.value == CARD_VERSION:
        return None
    found = f"card format version {show(node.value)}"
    return Problem(*node.place, "card", found, f"version {CARD_VERSION}, which this benchcard reads")

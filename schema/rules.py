"""What a card must satisfy beyond its schema: one small function a rule, over the filled-in card.

A rule sees None wherever a key is absent or already has a problem, and then says nothing about it. The registry at the
end fixes the order in which rules are tried; problems are sorted by place afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .defaults import Filled
from .errors import Problem
from .phrase import KeyPath
from .rules_aa import AA_RULES
from .rules_claim import CLAIM_RULES
from .rules_places import PLACES_RULES
from .rules_populations import POPULATION_RULES
from .rules_quality import QUALITY_RULES
from .rules_requests import REQUEST_RULES
from .rules_start import START_RULES
from .rules_system import SYSTEM_RULES
from .rules_tokenizer import TOKENIZER_RULES
from .rules_workload import WORKLOAD_RULES
from .structure import Schema, card_schema, child

Rule = Callable[[Filled], Iterator[Problem]]


def broken_rules(filled: Filled) -> list[Problem]:
    """Every problem that the rules find; nothing below a key that has no meaning on this card."""
    meaningless = list(_meaningless(filled, card_schema(), ()))
    places = tuple(problem.path for problem in meaningless)
    found = [problem for rule in RULES for problem in rule(filled)]
    return meaningless + [p for p in found if not p.path.startswith(places)] if places else found


def _meaningless(filled: Filled, schema: Schema, path: KeyPath) -> Iterator[Problem]:
    """Keys that have no meaning for the card's kind or engine: they would be ignored, so they are refused."""
    for key in schema.get("properties", {}):
        if not filled.on_card(*path, key):
            continue
        below, here = child(schema, key) or {}, (*path, key)
        kinds, engines = below.get("x-kinds"), below.get("x-engines")
        if kinds and filled.kind in ("ab", "baseline") and filled.kind not in kinds:
            yield _no_meaning(filled, here, f"a card of kind {filled.kind}", kinds, "kind")
        elif engines and filled.engine in ("simulated", "vllm", "openai") and filled.engine not in engines:
            yield _no_meaning(filled, here, f"the engine {filled.engine}", engines, "engine")
        else:
            yield from _meaningless(filled, below, here)


def _no_meaning(filled: Filled, path: KeyPath, where: str, only: list[str], what: str) -> Problem:
    hint = f"it belongs to the {what} {' or '.join(only)}"
    return filled.problem(path, f"{path[-1]}, which has no meaning for {where}", "no such key", hint, at_key=True)


def _required_by_kind(filled: Filled) -> Iterator[Problem]:
    """Keys that this kind of card cannot do without."""
    for path in ((), ("arms",)):
        schema: Schema = card_schema()
        for key in path:
            schema = child(schema, key) or {}
        if path and not filled.on_card(*path):
            continue
        for key in schema["properties"]:
            below = child(schema, key) or {}
            if filled.kind in below.get("x-required-by", []) and not filled.on_card(*path, key):
                yield filled.problem((*path, key), "nothing", f"the key {key}", below["description"])


RULES: tuple[Rule, ...] = (
    _required_by_kind, *CLAIM_RULES, *SYSTEM_RULES, *TOKENIZER_RULES, *WORKLOAD_RULES, *REQUEST_RULES,
    *POPULATION_RULES, *START_RULES, *AA_RULES, *PLACES_RULES, *QUALITY_RULES,
)  # fmt: skip

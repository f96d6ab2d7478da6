"""Rules about A/A blocks: a margin on the claim's scale, and text by which the two runs can be told apart."""

from __future__ import annotations

from collections.abc import Iterator

from .defaults import Filled
from .errors import Problem
from .quantity import format_quantity


def _margin_on_the_claims_scale(filled: Filled) -> Iterator[Problem]:
    """A bias in points cannot be held against a margin in percent, nor against the threshold."""
    within = filled.get("method", "aa", "within")
    bound = filled.get("claim", "must_rise_by") or filled.get("claim", "must_fall_by")
    if not isinstance(within, dict) or not isinstance(bound, dict) or within["scale"] == bound["scale"]:
        return
    wanted = f"the claim's scale, as in {format_quantity('change', bound)}"
    yield filled.problem(("method", "aa", "within"), format_quantity("change", within), wanted)


def _text_can_be_told_apart(filled: Filled) -> Iterator[Problem]:
    """Both runs of the baseline go to the one server that somebody else runs: made-up prompts are salted, others are
    not."""
    recorded = filled.get("workload", "requests", "file") is not None
    reset = filled.get("workload", "cache_state") == "reset"
    across = filled.on_card("method", "aa", "across")
    if (
        filled.engine == "openai"
        and isinstance(filled.get("method", "aa"), dict)
        and recorded
        and not (reset or across)
    ):
        hint = "else the second run hits what the first left in the cache"
        found = "A/A blocks of recorded requests on a server that somebody else runs"
        yield filled.problem(("method", "aa"), found, "cache_state: reset, or no A/A blocks", hint, at_key=True)


AA_RULES = (_margin_on_the_claims_scale, _text_can_be_told_apart)

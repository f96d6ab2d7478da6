"""What a card's author should know and may want: warnings, which refuse nothing."""

from __future__ import annotations

from collections.abc import Iterator

from .defaults import Filled
from .errors import Problem


def advice(filled: Filled) -> Iterator[Problem]:
    """The warnings of a card that validates, by place."""
    yield from _speculation_on_random_text(filled)


def _speculation_on_random_text(filled: Filled) -> Iterator[Problem]:
    """Drafts are accepted as often as the text is predictable: random prompts and forced lengths are not."""
    places = [("system", "flags"), *(("arms", arm, "flags") for arm in ("baseline", "candidate"))]
    for place in places:
        for flag in filled.get(*place) or {}:
            if not flag.startswith(("speculative", "spec-")):
                continue
            reasons = [] if filled.get("workload", "requests", "file") else ["prompts of random tokens"]
            reasons += ["ignore_eos"] if filled.get("workload", "sampling", "ignore_eos") else []
            if reasons:
                found = f"speculation ({flag}) with {' and '.join(reasons)}"
                hint = "drafts are accepted at another rate than on the service's text"
                yield filled.problem((*place, flag), found, "requests: {file: …} and ignore_eos: false", hint, True)

"""What a card's author should know and may want: warnings, which refuse nothing."""

from __future__ import annotations

from collections.abc import Iterator

from .defaults import Filled
from .errors import Problem


def advice(filled: Filled) -> Iterator[Problem]:
    """The warnings of a card that validates, by place."""
    yield from _trace_of_an_odd_rate(filled)
    yield from _speculation_on_random_text(filled)
    yield from _a_lopsided_swap(filled)


#: mean rates of a trace, requests per second, beyond which its unit is in doubt
_ODD_RATES = (0.01, 10_000.0)


def _trace_of_an_odd_rate(filled: Filled) -> Iterator[Problem]:
    """A trace a thousand times too slow or too fast is one whose timestamps are in another unit."""
    file = filled.get("workload", "arrivals", "file")
    if isinstance(file, dict) and not _ODD_RATES[0] <= file["rate"] <= _ODD_RATES[1]:
        found = f"a trace with a mean rate of {file['rate']:.3g} req/s"
        hint = "are its timestamps in that unit?"
        yield filled.problem(("workload", "arrivals", "file"), found, "a rate that a service sees", hint)


def _speculation_on_random_text(filled: Filled) -> Iterator[Problem]:
    """Drafts are accepted as often as the text is predictable: random prompts and forced lengths are not."""
    places: list[tuple[str, ...]] = [
        ("system", "flags"),
        *(("arms", arm, "flags") for arm in ("baseline", "candidate")),
    ]
    for place in places:
        for flag in filled.get(*place) or {}:
            if not flag.startswith(("speculative", "spec-")):
                continue
            random = not filled.get("workload", "requests", "file")
            forced = bool(filled.get("workload", "sampling", "ignore_eos"))
            if random or forced:
                reasons = ["prompts of random tokens"] * random + ["ignore_eos"] * forced
                wanted = ["requests: {file: …}"] * random + ["ignore_eos: false"] * forced
                found = f"speculation ({flag}) with {' and '.join(reasons)}"
                hint = "drafts are accepted at another rate than on the service's text"
                yield filled.problem((*place, flag), found, " and ".join(wanted), hint, at_key=True)


def _a_lopsided_swap(filled: Filled) -> Iterator[Problem]:
    """A place weighs on an effect by the blocks that an arm had it in beyond the other arm's."""
    after, blocks = filled.get("method", "swap", "after_block"), filled.get("method", "blocks")
    if isinstance(after, int) and isinstance(blocks, int) and abs(2 * after - blocks) > 1:
        found = f"{after} blocks before the swap and {blocks - after} after it"
        wanted = f"after_block: {blocks // 2}"
        hint = "what the places differ in cancels out only where the sides are alike"
        yield filled.problem(("method", "swap", "after_block"), found, wanted, hint)

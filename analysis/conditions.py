"""The conditions under which a result holds, generated from the bundle; they cannot be parted from the verdict.

A row is {"name", "value", "source"}: declared on the card, observed by the runner, or unknown (the value is then the
reason).
"""

from __future__ import annotations

from collections.abc import Sequence

from . import aa, places, planned_power, reuse, start_words, steady_loads, turns, wording
from .card_words import engine, flags, model, objectives, treatment, unknowns, window
from .cells import Reading
from .claim import LoadEffect
from .identity import confounded
from .identity_conditions import identity_conditions
from .instrument import measuring_client
from .issued import in_words as in_words_issued
from .lengths import in_words, outputs_in_words
from .population_rows import mix
from .populations import declared
from .records import Record
from .servers import condition_rows as servers
from .start import cold_start as is_cold_start
from .traffic import arrivals, cache_state, plain, shape, workload


def conditions(reading: Reading) -> list[Record]:
    """Every condition of the result."""
    bundle, card = reading.bundle, reading.bundle.card
    rows = [
        _row("model", model(card)),
        _row("engine", engine(card)),
        _row("flags", flags(card["system"].get("flags") or {}) or "none"),
        *([_row("treatment", treatment(card))] if card["kind"] == "ab" else []),
        _row("workload", workload(card)),
        *cold_start(reading),
        _row("arrivals", arrivals(card)),
        _row("arrivals as made", in_words_issued(cell.issued for cell in reading.used()), "observed"),
        _row("loads", wording.loads(card["workload"]["loads"], card["workload"]["load_kind"])),
        _row("cache state", cache_state(card["workload"].get("cache_state"))),
        _row("window", window(card)),
        _row("objectives", objectives(card)),
        *_populations(reading),
        _row("token counts", token_counts(reading), "observed"),
        _row("prompt lengths", in_words(cell.prompts for cell in reading.used()), "observed"),
        _row("output lengths", outputs_in_words(cell.outputs for cell in reading.used()), "observed"),
        *(
            _row(f"cached share ({arm})", text, "observed")
            for arm, text in reuse.in_words(card, ((cell.cell.arm, cell.cached) for cell in reading.used()))
        ),
        *_conversations(reading),
        _row("blocks", f"{sum(block.used for block in reading.blocks)} of {reading.wanted} used", "observed"),
        *_noise_floor(reading),
        _row("server restarts", plain((card["system"].get("launch") or {}).get("restart", "not declared"))),
        *(_row(*found) for found in steady_loads.conditions(reading, steady_loads.steady_rows(reading))),
        _row("days", "single day", "observed"),
        *(_row(*found) for found in servers(bundle)),
        *(_row("measuring client", text, "observed") for text in measuring_client(bundle)),
        *sent_again(reading),
    ]
    identity = [_row(*found) for found in identity_conditions(bundle)]
    # a fact of the model or the hardware that the identity has too stands there, once
    told = {f"system.{row['name']}" for row in identity if row["name"].startswith(("model.", "hardware."))}
    rows += [_row(path, why, "unknown") for path, why in sorted(unknowns(card)) if path not in told]
    rows += identity
    rows += [_row("override", plain(item)) for item in bundle.plan.get("overrides") or []]
    if bundle.plan.get("seed_source") == "second_day":
        rows.append(_row("seed", f"{bundle.plan['seed']}, drawn for a second day", "observed"))
    rows += [_row("treatment, by name", str(name)) for name in (card.get("identity") or {}).get("treatment") or []]
    rows += [_row("confounded", name) for name in confounded(bundle)]
    if card["kind"] == "ab":
        rows += [_row(*found) for found in planned_power.condition_rows(card)]
    return rows


def _row(name: str, value: str, source: str = "declared") -> Record:
    # what nobody knows is unknown, whoever said so
    return {"name": name, "value": value, "source": "unknown" if value.startswith("unknown (") else source}


def _noise_floor(reading: Reading) -> list[Record]:
    found = aa.condition(reading)
    return [] if found is None else [_row("noise floor (A/A)", *found)]


def _conversations(reading: Reading) -> list[Record]:
    text = turns.in_words((cell.told for cell in reading.used()), turns.comparable(reading.bundle.card))
    return [] if text is None else [_row("conversations", text, "observed")]


def cold_start(reading: Reading) -> list[Record]:
    """That this is a cold start, where it is one, and how its starts were measured."""
    if not is_cold_start(reading.bundle.card):
        return []
    cells = [cell.started for cell in reading.used() if cell.started is not None]
    return [
        _row("test", start_words.CONDITION),
        _row("server starts", start_words.observed(cells), "observed"),
        _row("caches on disk", start_words.LEFT_ON_DISK, "unknown"),
    ]


def _populations(reading: Reading) -> list[Record]:
    """The mix, declared and delivered, and what each population is; nothing without populations."""
    text = mix(reading)
    rows = [] if text is None else [_row("mix", text, "observed")]
    for name, own in declared(reading.bundle.card).items():
        text = ", ".join(shape(own)) or "requests of the workload"
        text += f"; objectives: {objectives(own)}" if own.get("objectives") else ""
        rows.append(_row(f"population {name}", text))
    return rows


def reversal_conditions(texts: Sequence[str]) -> list[Record]:
    """What the treatment made better for one population and worse for another: no average of them holds for either."""
    return [_row("reversed between populations", text, "observed") for text in texts]


def place_conditions(reading: Reading, effects: Sequence[LoadEffect]) -> list[Record]:
    """That the arms exchanged places, or ran against themselves across them."""
    found = places.condition(reading, effects)
    return [] if found is None else [_row("places", *found)]


def sent_again(reading: Reading) -> list[Record]:
    """How many counted attempts were tried more than once, where any was."""
    again = sum(cell.again for cell in reading.used())
    retries = reading.bundle.card["workload"]["client"].get("retries") or 0
    if not again and not retries:
        return []
    counted = sum(cell.judgement.attempted for cell in reading.used())
    text = f"{again} of {counted} counted attempts were tried more than once (up to {retries} retries)"
    return [_row("retries", text, "observed")]


def token_counts(reading: Reading) -> str:
    """Where the tokens of a chunk come from, and how often the server's own total says otherwise."""
    source = (reading.bundle.card["workload"].get("client") or {}).get("token_counts", "chunk")
    cells = reading.used()
    ok = sum(cell.judgement.outcomes.get("ok", 0) for cell in cells)
    other = sum(cell.other_count for cell in cells)
    sources = {"per_chunk_usage": "per-chunk usage", "retokenized": "the text by the card's tokenizer"}
    text = sources.get(source, "one chunk is one token")
    return f"{text}; {other} of {ok} replies add up to another total than the server reports"

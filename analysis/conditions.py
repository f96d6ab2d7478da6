"""The conditions under which a result holds, generated from the bundle; they cannot be parted from the verdict.

A row is {"name", "value", "source"}: declared on the card, observed by the runner, or unknown (the value is then the
reason).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from . import reuse, turns, wording
from .card import ARMS
from .cells import Reading
from .instrument import measuring_client
from .lengths import in_words, outputs_in_words
from .population_rows import mix, mix_in_words
from .populations import declared
from .read import Bundle
from .records import Record

#: identity fields that name the machine or the engine; others only show where the arms differ
_SHOWN = ("engine", "model", "host", "hardware", "device", "cpu", "gpu", "accelerator", "os", "driver", "client")


def conditions(reading: Reading) -> list[Record]:
    """Every condition of the result."""
    bundle, card = reading.bundle, reading.bundle.card
    rows = [
        _row("model", model(card)),
        _row("engine", engine(card)),
        _row("flags", flags(card["system"].get("flags") or {}) or "none"),
        *([_row("treatment", treatment(card))] if card["kind"] == "ab" else []),
        _row("workload", workload(card)),
        _row("arrivals", arrivals(card)),
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
            for arm, text in reuse.in_words((cell.cell.arm, cell.cached) for cell in reading.used())
        ),
        *_conversations(reading),
        _row("blocks", f"{sum(block.used for block in reading.blocks)} of {reading.wanted} used", "observed"),
        _row("server restarts", plain((card["system"].get("launch") or {}).get("restart", "not declared"))),
        _row("steady state", "not examined by this revision of the analysis", "unknown"),
        _row("days", "single day", "observed"),
        *(_row("measuring client", text, "observed") for text in measuring_client(bundle)),
        *sent_again(reading),
    ]
    identity = _identity(bundle)
    # a fact of the model or the hardware that the identity has too stands there, once
    told = {f"system.{row['name']}" for row in identity if row["name"].startswith(("model.", "hardware."))}
    rows += [_row(path, why, "unknown") for path, why in sorted(unknowns(card)) if path not in told]
    rows += identity
    rows += [_row("override", plain(item)) for item in bundle.plan.get("overrides") or []]
    if bundle.plan.get("seed_source") == "second_day":
        rows.append(_row("seed", f"{bundle.plan['seed']}, drawn for a second day", "observed"))
    rows += [_row("confounded", name) for name in confounded(bundle)]
    if card["kind"] == "ab" and not card.get("power"):
        rows.append(_row("power", "the spread was not known when this was planned", "unknown"))
    return rows


def _row(name: str, value: str, source: str = "declared") -> Record:
    # what nobody knows is unknown, whoever said so
    return {"name": name, "value": value, "source": "unknown" if value.startswith("unknown (") else source}


def _conversations(reading: Reading) -> list[Record]:
    text = turns.in_words(cell.told for cell in reading.used())
    return [] if text is None else [_row("conversations", text, "observed")]


def _populations(reading: Reading) -> list[Record]:
    """The mix, declared and delivered, and what each population is; nothing without populations."""
    text = mix(reading)
    rows = [] if text is None else [_row("mix", text, "observed")]
    for name, own in declared(reading.bundle.card).items():
        text = ", ".join(requests(own.get("lengths") or {}, own.get("prefix"))) or "requests of the workload"
        text += f"; objectives: {objectives(own)}" if own.get("objectives") else ""
        rows.append(_row(f"population {name}", text))
    return rows


def reversal_conditions(texts: Sequence[str]) -> list[Record]:
    """What the treatment made better for one population and worse for another: no average of them holds for either."""
    return [_row("reversed between populations", text, "observed") for text in texts]


def sent_again(reading: Reading) -> list[Record]:
    """How many counted attempts were tried more than once, where any was."""
    again = sum(cell.again for cell in reading.used())
    retries = reading.bundle.card["workload"]["client"].get("retries") or 0
    if not again and not retries:
        return []
    counted = sum(cell.judgement.attempted for cell in reading.used())
    text = f"{again} of {counted} counted attempts were tried more than once (up to {retries} retries)"
    return [_row("retries", text, "observed")]


def plain(value: Any) -> str:
    """A value of the card in one line."""
    if isinstance(value, dict) and set(value) == {"unknown"}:
        return f"unknown ({value['unknown']})"
    if isinstance(value, bool) or value is None or isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return f"{value:g}" if isinstance(value, float) else str(value)


def model(card: Record) -> str:
    """The model's name, precision and context limit."""
    facts = card["system"].get("model") or {}
    name = facts.get("name") or facts.get("path") or "a model without a name"
    precision = facts.get("precision")
    limit = facts.get("context_limit")
    details = [plain(precision)] if precision else []
    details += [f"context {plain(limit)}"] if limit else []
    return f"{name} ({', '.join(details)})" if details else str(name)


def model_name(card: Record) -> str:
    """The model's name alone."""
    facts = card["system"].get("model") or {}
    return str(facts.get("name") or facts.get("path") or "a model without a name")


def engine(card: Record) -> str:
    """The engine and, where one is pinned, its version."""
    facts = card["system"].get("engine") or {}
    if facts.get("kind") == "simulated":
        speed = facts.get("speedup") or 1
        fast = "" if speed == 1 else f", times divided by {plain(float(speed))}"
        return f"the embedded simulated engine ({plain(facts.get('costs'))} costs{fast})"
    names = {"vllm": "vLLM", "openai": "an OpenAI-compatible server"}
    kind, version = str(facts.get("kind")), facts.get("version")
    return names.get(kind, kind) + (f" {version}" if version not in (None, "any") else "")


def flags(values: dict[str, Any]) -> str:
    """`max-num-seqs=32, enforce-eager=true`."""
    return ", ".join(f"{name}={plain(value)}" for name, value in sorted(values.items()))


def treatment(card: Record) -> str:
    """What the candidate has that the baseline does not: flags, environment, server."""
    arms = [card["arms"].get(arm) or {} for arm in ARMS]
    parts = []
    for kind in ("flags", "env"):
        before, after = (arm.get(kind) or {} for arm in arms)
        for name in sorted({*before, *after}):
            if before.get(name) != after.get(name) or (name in before) != (name in after):
                old = plain(before[name]) if name in before else "the default"
                new = f"{name}={plain(after[name])}" if name in after else f"{name} left at its default"
                parts.append(f"{new} (instead of {old})")
    servers = [(arm.get("server") or {}).get("url") for arm in arms]
    if servers[0] != servers[1]:
        parts.append(f"the server {servers[1]} (instead of {servers[0]})")
    return "; ".join(parts) or "no declared difference"


def cache_state(value: Any) -> str:
    """What the prefix cache held when a cell began."""
    if isinstance(value, dict):
        return f"warm: {value['warm']}, each sent once before the cell"
    return "not declared" if value is None else str(value)


def workload(card: Record) -> str:
    """Endpoint, lengths and shared prefixes."""
    work = card["workload"]
    described = work.get("requests") or {}
    endpoint = str(work.get("endpoint", "requests"))
    if declared(card):
        return f"{endpoint}: {mix_in_words(card)}"
    parts = requests(described.get("lengths") or {}, None)
    if described.get("file"):
        parts.append(f"requests from {plain(described['file'])}")
    parts += requests({}, described.get("prefix"))
    return f"{endpoint}: {', '.join(parts)}" if parts else endpoint


def requests(lengths: Record, prefix: Record | None) -> list[str]:
    """What requests are like: their lengths, the documents they begin with."""
    parts = []
    if lengths:
        parts.append(f"{_length(lengths.get('input'))} tokens in, {_length(lengths.get('output'))} out")
    if prefix and prefix.get("documents") is None:
        parts.append(f"each behind a document of its own of {plain(prefix.get('tokens'))} tokens")
    elif prefix:
        choice = prefix.get("choice") or {}
        law = " ".join(plain(choice[key]) for key in ("law", "exponent") if choice.get(key) is not None)
        parts.append(
            f"behind {plain(prefix.get('documents'))} shared documents of {plain(prefix.get('tokens'))} tokens"
            + (f" ({law})" if law else "")
        )
    return parts


def _length(spec: Any) -> str:
    if not isinstance(spec, dict):
        return plain(spec)
    median, sigma = spec.get("median"), spec.get("sigma")
    return plain(median) if not sigma else f"{plain(median)} (median; sigma {plain(sigma)})"


def arrivals(card: Record) -> str:
    """The arrival process, and whether the loop is open or closed."""
    facts = card["workload"]["arrivals"]
    process = str(facts.get("process"))
    if process == "closed":
        return f"closed loop, think time {plain(facts.get('think_time', 0.0))} s"
    details = {
        "gamma": lambda: f" with burstiness {plain(facts['burstiness'])}",
        "bursts": lambda: f" of {plain(facts['size'])} requests",
        "ramp": lambda: f" from {facts['from']:.6g} of the load at the start to the load at the window's end",
        "profile": lambda: (
            f" of {', '.join(f'{level:.4g}' for level in facts['levels'])} times the load, every "
            f"{plain(facts['period'])} s"
        ),
    }
    return f"open loop, {process}" + (details[process]() if process in details else "")


def window(card: Record) -> str:
    """Warm-up, measured window and drain."""

    def part(spec: Any) -> str:
        if isinstance(spec, dict):
            return " ".join(f"{plain(value)} {'s' if key == 'seconds' else key}" for key, value in spec.items())
        return "none" if spec is None else f"{plain(spec)} s"

    facts = card["workload"]["window"]
    return (
        f"warm-up {part(facts.get('warmup'))}, measured {part(facts.get('measure'))}, drain {part(facts.get('drain'))}"
    )


def objectives(card: Record) -> str:
    """The conjunction that makes an attempt good."""
    facts = card.get("objectives")
    if not facts:
        return "none"
    parts = ["success"]
    for name, spec in facts.items():
        if name == "output" and spec:
            finish = " or ".join(spec.get("finish") or ["any"])
            parts.append(f"finish {finish}; output tokens ≥ {spec.get('min_tokens', 0)}")
        elif isinstance(spec, dict):
            limit = next(iter(spec.values()))
            parts.append(f"{'every ' if 'every' in spec else ''}{name} ≤ {1000 * limit:g} ms")
    return "; ".join(parts)


def token_counts(reading: Reading) -> str:
    """Where the tokens of a chunk come from, and how often the server's own total says otherwise."""
    source = (reading.bundle.card["workload"].get("client") or {}).get("token_counts", "chunk")
    cells = reading.used()
    ok = sum(cell.judgement.outcomes.get("ok", 0) for cell in cells)
    other = sum(cell.other_count for cell in cells)
    text = "per-chunk usage" if source == "per_chunk_usage" else "one chunk is one token"
    return f"{text}; {other} of {ok} replies add up to another total than the server reports"


def unknowns(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """(key path, why) of every fact that the card says cannot be known."""
    if isinstance(value, dict):
        if set(value) == {"unknown"}:
            yield path, str(value["unknown"])
            return
        for key, item in value.items():
            yield from unknowns(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from unknowns(item, f"{path}[{i}]")


def _identity(bundle: Bundle) -> list[Record]:
    arms = [arm for arm in ARMS if arm in bundle.card["arms"]]
    found = {arm: bundle.identity(arm) for arm in arms}
    rows = [
        _row(f"identity of {arm}", f"identity/{arm}.json is not in the bundle", "unknown")
        for arm in arms
        if found[arm] is None
    ]
    known = {arm: fields for arm, fields in found.items() if fields is not None}
    for name in sorted({name for fields in known.values() for name in fields}):
        fields = {arm: known[arm].get(name, {}) for arm in known}
        values = {arm: plain(field.get("value")) for arm, field in fields.items()}
        differs = len(set(values.values())) > 1
        if not differs and name.split(".")[0] not in _SHOWN:
            continue
        if all(field.get("source") == "unknown" for field in fields.values()):
            rows.append(_row(name, str(next(iter(fields.values())).get("why") or "not observed"), "unknown"))
            continue
        text = "; ".join(f"{arm}: {value}" for arm, value in values.items()) if differs else next(iter(values.values()))
        source = "observed" if any(field.get("source") == "observed" for field in fields.values()) else "declared"
        rows.append(_row(name + (" (differs between arms)" if differs else ""), text, source))
    return rows


def confounded(bundle: Bundle) -> list[str]:
    """Differences that the card accepts by name, unless both arms were observed to be the same in them."""
    names = (bundle.card.get("identity") or {}).get("confounded") or []
    fields = [bundle.identity(arm) or {} for arm in ARMS]
    same = []
    for name in names:
        values = [field.get(name, {}).get("value") for field in fields]
        if values[0] is not None and values[0] == values[1]:
            same.append(name)
    return [str(name) for name in names if name not in same]

"""Format versions. Each has its history beside it; a file with a newer version is refused by name."""

from __future__ import annotations

from .errors import InputError

#: 1: first. A key with x-since came later: a card resolved before that edition (CARD_EDITION) has none.
CARD_VERSION = 1
#: 2: workload.client.workers; validity.loop_lag_p99, client_starved, coalesced_chunks, client_error.
#: 3: traces, recorded requests, length pairs, conversations, populations, structured output, warm caches, cold starts
#: (workload), validity.cached_beyond_plan, validity.steady_state; system.model.tokenizer_config and chat_template.
#: 4: analysis.attainment, method.aa, power.override, power.spread.from.
#: 5: quality; identity.treatment; method.swap, method.aa.across and command, arms.*.server.probe;
#: validity.server_requests, server_tokens, server_latency, littles_law; outputs.telemetry_every.
CARD_EDITION = 5
#: 1: first.
PLAN_VERSION = 1
#: 1: first; failure, tries, population, turns, own_tokens and reusable_tokens came later; a reader that does not
#: know them loses nothing.
EVENTS_VERSION = 1
#: 1: first.
VERDICT_VERSION = 1
#: 1: first.
BASELINE_VERSION = 1
#: 1: first.
MANIFEST_VERSION = 1
#: 1: first.
CERTIFICATE_VERSION = 1
#: 1: first.
LOG_VERSION = 1


def require_version(what: str, found: object, known: int) -> None:
    """Refuse a format newer than (or unlike) what this benchcard reads, naming both versions."""
    if found != known:
        raise InputError(f"{what} has format version {found!r}; this benchcard reads version {known}")

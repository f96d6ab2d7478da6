"""Keys that came later: an old card is not held against them, and each is of an edition that there is."""

from __future__ import annotations

import copy
from pathlib import Path

from benchcard.schema.card import load_card
from benchcard.schema.editions import ANY, later_keys, without_later_keys
from benchcard.schema.structure import card_schema, deref
from benchcard.schema.versions import CARD_EDITION

CARD = Path(__file__).parent / "cards" / "good-ab.yaml"


def test_the_later_keys() -> None:
    file = ("workload", "requests", "file")
    pairs, turns = ("workload", "requests", "pairs"), ("workload", "requests", "conversations")
    assert set(later_keys()) == {
        ("workload", "client", "workers"), ("validity", "loop_lag_p99"), ("validity", "client_starved"),
        ("validity", "coalesced_chunks"), ("validity", "client_error"),
        *(("workload", "arrivals", key) for key in ("file", "format", "unit", "hash_block")),
        ("workload", "slowdown"), ("workload", "populations"),
        file, *((*file, key) for key in ("path", "format", "reuse")),
        ("workload", "requests", "output"), ("workload", "requests", "from"),
        pairs, *((*pairs, key) for key in ("file", "format")),
        turns, *((*turns, key) for key in ("turns", "think_time", "think")),
        *(("workload", "sampling", key) for key in ("top_p", "top_k", "json_schema")),
        ("workload", "cache_state", "warm"), ("validity", "cached_beyond_plan"),
        ("workload", "test"), ("validity", "steady_state"), ("method", "aa"),
        ("system", "model", "tokenizer_config"), ("system", "model", "chat_template"),
        ("claim", "population"), ("guards", ANY, "population"),
        ("analysis", "attainment"), ("power", "override"), ("power", "spread", "from"),
        ("identity", "treatment"),
        ("method", "swap"), ("method", "aa", "across"), ("method", "aa", "command"),
        *(("arms", arm, "server", "probe") for arm in ("baseline", "candidate")),
        *(("validity", key) for key in ("server_requests", "server_tokens", "server_latency", "littles_law")),
        ("outputs", "telemetry_every"),
        *(("quality", ANY, key) for key in (
            "risk", "gate", "prompts", "items", "scorer", "before_token", "excess_over_aa_at_most", "equivalent_within",
            "may_fall_by", "nonconforming_at_most", "json_schema", "reuse", "output_tokens", "concurrency", "repeats",
            "within",
        )),
    }  # fmt: skip
    for path in later_keys():
        schema = card_schema()
        for part in path:
            schema = deref(schema["items"] if part == ANY else schema["properties"][part])
        assert 1 < schema["x-since"] <= CARD_EDITION


def test_a_card_resolved_before_is_compared_without_them() -> None:
    again = load_card(CARD)
    old = copy.deepcopy(again.resolved)
    for path in later_keys():
        above = old
        for part in path[:-1]:
            above = above.get(part) if isinstance(above, dict) else None
        if isinstance(above, dict):
            above.pop(path[-1], None)
    assert set(old["workload"]["requests"]) == {"lengths", "prefix"}
    assert set(old["workload"]["sampling"]) == {"temperature", "ignore_eos", "seed"}
    assert without_later_keys(old, again) == old
    assert without_later_keys(again.resolved, again) == again.resolved


def test_a_later_key_that_the_card_names_is_compared(tmp_path: Path) -> None:
    path = tmp_path / "card.yaml"
    path.write_text(CARD.read_text() + "\nvalidity: {loop_lag_p99: 3 ms}\n")
    again = load_card(path)
    old = copy.deepcopy(again.resolved)
    del old["validity"]["loop_lag_p99"]
    assert without_later_keys(old, again) != old


def test_a_later_mapping_that_the_card_names_is_compared(tmp_path: Path) -> None:
    """Only its leaves have a source."""
    path = tmp_path / "card.yaml"
    path.write_text(CARD.read_text() + "\nvalidity: {steady_state: {at: every_load}}\n")
    again = load_card(path)
    old = copy.deepcopy(again.resolved)
    del old["validity"]["steady_state"]
    assert without_later_keys(old, again) != old

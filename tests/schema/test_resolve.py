"""What a card resolves to: the whole resolved form against one checked by hand, defaults, and `extends`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchcard.schema.card import load_card
from benchcard.schema.digest import canonical_json, digest_bytes
from benchcard.schema.errors import CardError

HERE = Path(__file__).parent
CARDS = HERE / "cards"
GOOD = (CARDS / "good-ab.yaml").read_text(encoding="utf-8")


def resolved(folder: Path, text: str, **files: str) -> dict[str, Any]:
    """The resolved form of a card's text, in a folder with other files."""
    for name, content in files.items():
        (folder / f"{name}.yaml").write_text(content, encoding="utf-8")
    path = folder / "card.yaml"
    path.write_text(text, encoding="utf-8")
    return load_card(path).resolved


@pytest.mark.parametrize("name", ["good-ab", "good-baseline", "good-openai"])
def test_the_whole_resolved_card(name: str) -> None:
    expected = json.loads((HERE / "resolved" / f"{name}.json").read_text(encoding="utf-8"))
    card = load_card(CARDS / f"{name}.yaml")
    assert card.resolved == expected
    assert card.digest == digest_bytes(canonical_json(expected))
    assert json.loads(json.dumps(card.resolved)) == expected  # plain JSON, whatever writes it


def test_the_same_card_written_differently_has_the_same_digest(tmp_path: Path) -> None:
    other = GOOD.replace("600 ms", "0.6 s").replace("50 req/s", "50 rps").replace("max_num_seqs", "max-num-seqs")
    other = other.replace("arrivals: poisson", "arrivals: {process: poisson}").replace(
        "input: 64", "input: {median: 64}"
    )
    other = other.replace("35 GiB", "37580963840").replace("5%,", "5.0 %,")
    (tmp_path / "a.yaml").write_text(other, encoding="utf-8")
    assert load_card(tmp_path / "a.yaml").digest == load_card(CARDS / "good-ab.yaml").digest


def test_any_change_of_meaning_changes_the_digest(tmp_path: Path) -> None:
    digests = {load_card(CARDS / "good-ab.yaml").digest}
    for old, new in (("5%", "6%"), ("20 req/s", "21 req/s"), ("60 ms", "61 ms"), ("35 GiB", "34 GiB"), ("3%", "4%")):
        (tmp_path / "a.yaml").write_text(GOOD.replace(old, new, 1), encoding="utf-8")
        digests.add(load_card(tmp_path / "a.yaml").digest)
    assert len(digests) == 6


def test_the_revision_that_is_installed_is_fixed() -> None:
    revision = "sha256:" + "0" * 64
    free, fixed = load_card(CARDS / "good-ab.yaml"), load_card(CARDS / "good-ab.yaml", installed_revision=revision)
    assert free.resolved["analysis"]["revision"] == "installed"
    assert fixed.resolved["analysis"]["revision"] == revision
    assert fixed.digest != free.digest


def test_a_revision_on_the_card_stays(tmp_path: Path) -> None:
    pinned = "sha256:" + "a" * 64
    (tmp_path / "a.yaml").write_text(GOOD + f"analysis: {{revision: {pinned}}}\n", encoding="utf-8")
    card = load_card(tmp_path / "a.yaml", installed_revision="sha256:" + "0" * 64)
    assert card.resolved["analysis"]["revision"] == pinned


@pytest.mark.parametrize(("size", "value"), [("35 GiB", 37580963840), ("8B", "8B"), ("4k", "4k"), ("0.9", 0.9)])
def test_sizes_among_flags_become_bytes(tmp_path: Path, size: str, value: object) -> None:
    assert resolved(tmp_path, GOOD.replace("35 GiB", size))["system"]["flags"]["kv-cache"] == value


def test_flags_keep_their_own_values(tmp_path: Path) -> None:
    text = GOOD.replace("kv_cache: 35 GiB", "spec_config: {method: ngram, num_tokens: 5, memory: 1 GiB}, list: [1, 2]")
    flags = resolved(tmp_path, text)["system"]["flags"]
    assert flags["spec-config"] == {"method": "ngram", "num_tokens": 5, "memory": "1 GiB"}
    assert flags["list"] == [1, 2]


@pytest.mark.parametrize(
    ("restart", "idle", "cache"),
    [("each_cell", "stopped", "cold"), ("each_arm_in_block", "stopped", "cold"), ("never", None, "fresh_prompts")],
)
def test_defaults_that_follow_from_restarting(tmp_path: Path, restart: str, idle: str | None, cache: str) -> None:
    card = resolved(tmp_path, f"extends: base.yaml\nsystem: {{launch: {{restart: {restart}}}}}\n", base=GOOD)
    assert card["system"]["launch"]["idle"] == idle
    assert card["workload"]["cache_state"] == cache


def test_the_drain_lasts_as_long_as_an_attempt_may(tmp_path: Path) -> None:
    card = resolved(
        tmp_path, "extends: base.yaml\nworkload: {client: {timeout_total: 7 s, timeout_idle: 5 s}}\n", base=GOOD
    )
    assert card["workload"]["window"]["drain"] == 7.0


def test_1e3_is_the_number_that_its_writer_meant(tmp_path: Path) -> None:
    """Casebook 49: YAML 1.1 reads it as text."""
    text = GOOD.replace("20 req/s, 50 req/s", "1e3 req/s, 50 req/s") + "method: {seed: 1e3}\n"
    card = resolved(tmp_path, text)
    assert card["workload"]["loads"] == [1000.0, 50.0]
    assert card["method"]["seed"] == 1000
    assert type(card["method"]["seed"]) is int


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://h/x", "http://h/x/v1"),
        ("http://h/x/v1", "http://h/x/v1"),
        ("http://h/x/v1/", "http://h/x/v1"),
        ("http://h/x/", "http://h/x/v1"),
        ("http://h:8000", "http://h:8000/v1"),
        ("https://[::1]:8000/v1//", "https://[::1]:8000/v1"),
    ],
)
def test_urls_have_one_form(tmp_path: Path, url: str, base: str) -> None:
    """Casebook 47."""
    text = (CARDS / "good-openai.yaml").read_text(encoding="utf-8").replace("http://kv-a", url)
    assert resolved(tmp_path, text)["arms"]["baseline"]["server"]["url"] == base


@pytest.mark.parametrize(
    "url", ["kv-a", "kv-a:8000/v1", "ftp://h/v1", "http://", "http://h/v1/models", "http://h:x/", "http://h/a b"]
)
def test_urls_that_are_none_are_refused(tmp_path: Path, url: str) -> None:
    text = (CARDS / "good-openai.yaml").read_text(encoding="utf-8").replace("http://kv-a", url)
    with pytest.raises(CardError, match=r"arms\.baseline\.server\.url: found .*; wanted (the base|an) address"):
        resolved(tmp_path, text)


class TestPopulations:
    """What a population does not name is as in the workload."""

    OVER = """\
extends: base.yaml
workload:
  priority: none
  sampling: {temperature: 0.5, top_p: 0.9}
  requests: {prefix: {documents: 3, tokens: 64}}
  populations:
    chat: {share: 75%}
    documents:
      share: 25%
      lengths: {input: 900, output: 8}
      prefix: {documents: unlimited, tokens: 200}
      sampling: {temperature: 0.0}
      objectives: {e2e: {at_most: 9 s}, output: {min_tokens: 4}}
objectives: {output: {finish: [stop]}}
"""

    def test_one_that_names_nothing(self, tmp_path: Path) -> None:
        card = resolved(tmp_path, self.OVER, base=GOOD)
        assert card["workload"]["populations"]["chat"] == {
            "share": 0.75,
            "share_by_level": None,
            "lengths": {
                "input": {"median": 64.0, "sigma": 0.0},
                "output": {"median": 60.0, "sigma": 0.5},
                "correlation": 0.0,
            },
            "prefix": {"documents": 3, "tokens": 64, "choice": {"law": "uniform", "exponent": None}},
            "priority": "none",
            "sampling": {
                "temperature": 0.5, "ignore_eos": True, "seed": None, "top_p": 0.9, "top_k": None, "json_schema": None,
            },
            "objectives": None,
        }  # fmt: skip

    def test_one_that_names_much(self, tmp_path: Path) -> None:
        card = resolved(tmp_path, self.OVER, base=GOOD)
        assert card["workload"]["populations"]["documents"] == {
            "share": 0.25,
            "share_by_level": None,
            "lengths": {
                "input": {"median": 900.0, "sigma": 0.0},
                "output": {"median": 8.0, "sigma": 0.0},
                "correlation": 0.0,
            },
            "prefix": {"documents": None, "tokens": 200, "choice": {"law": "uniform", "exponent": None}},
            "priority": "none",
            "sampling": {
                "temperature": 0.0, "ignore_eos": True, "seed": None, "top_p": 0.9, "top_k": None, "json_schema": None,
            },
            "objectives": {
                "success": True,
                "ttft": {"at_most": 0.06},
                "e2e": {"at_most": 9.0},
                "output": {"finish": ["stop"], "min_tokens": 4},
            },
        }  # fmt: skip

    def test_shares_in_each_level(self, tmp_path: Path) -> None:
        over = """\
extends: base.yaml
workload:
  arrivals: {process: profile, levels: [50%, 150%], period: 10 s}
  populations: {chat: {share_by_level: [90%, 40%]}, batch: {share_by_level: [10%, 60%]}}
"""
        populations = resolved(tmp_path, over, base=GOOD)["workload"]["populations"]
        assert [own["share_by_level"] for own in populations.values()] == [[0.9, 0.4], [0.1, 0.6]]
        assert [own["share"] for own in populations.values()] == [None, None]


def test_conversations_and_a_warm_cache(tmp_path: Path) -> None:
    over = """\
extends: base.yaml
workload:
  window: {warmup: 1 s, measure: 8 s}
  requests: {prefix: {documents: 2, tokens: 32}, conversations: {turns: [1, 5], think_time: 2 s}}
  cache_state: {warm: documents}
"""
    workload = resolved(tmp_path, over, base=GOOD)["workload"]
    assert workload["requests"]["conversations"] == {"turns": [1, 5], "think_time": 2.0, "think": "fixed"}
    assert workload["cache_state"] == {"warm": "documents"}
    fixed = resolved(tmp_path, over.replace("[1, 5]", "3"), base=GOOD)["workload"]
    assert fixed["requests"]["conversations"]["turns"] == 3


class TestExtends:
    """A card laid over another one."""

    def test_mappings_merge_and_all_else_replaces(self, tmp_path: Path) -> None:
        over = "extends: base.yaml\nid: over\nworkload: {loads: [50 req/s]}\n"
        over += "guards: [{metric: ttft.p50, may_rise_by: 1%}]\n"
        card = resolved(tmp_path, over, base=GOOD)
        assert card["id"] == "over"
        assert [guard["metric"] for guard in card["guards"]] == ["ttft.p50"]
        assert card["workload"]["loads"] == [50.0]
        assert card["workload"]["window"]["measure"] == {"requests": 64}

    def test_the_resolved_card_stands_alone(self, tmp_path: Path) -> None:
        card = resolved(tmp_path, "extends: base.yaml\n", base=GOOD)
        assert card == load_card(CARDS / "good-ab.yaml").resolved
        assert "extends" not in card

    def test_flags_are_one_however_spelt(self, tmp_path: Path) -> None:
        card = resolved(tmp_path, "extends: base.yaml\nsystem: {flags: {max-num-seqs: 16}}\n", base=GOOD)
        assert card["system"]["flags"]["max-num-seqs"] == 16

    def test_an_empty_value_takes_a_key_away(self, tmp_path: Path) -> None:
        over = "extends: base.yaml\nworkload: {arrivals: {process: closed}, loads: , concurrency: [50]}\n"
        over += "claim: {at: [50]}\n"
        card = resolved(tmp_path, over, base=GOOD)
        assert card["workload"]["loads"] == [50.0]
        assert card["workload"]["load_kind"] == "concurrency"

    def test_a_shorthand_is_replaced_by_its_long_form(self, tmp_path: Path) -> None:
        over = "extends: base.yaml\nworkload: {requests: {lengths: {input: {sigma: 0.5}}}}\n"
        card = resolved(tmp_path, over, base=GOOD)
        assert card["workload"]["requests"]["lengths"]["input"] == {"median": 64.0, "sigma": 0.5}

    def test_paths_are_relative_to_the_card_that_names_them(self, tmp_path: Path) -> None:
        (tmp_path / "sub").mkdir()
        (tmp_path / "sub" / "middle.yaml").write_text("extends: ../base.yaml\nid: middle\n", encoding="utf-8")
        card = resolved(tmp_path, "extends: sub/middle.yaml\n", base=GOOD)
        assert card["id"] == "middle"

    def test_sources_name_the_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Path("base.yaml").write_text(GOOD, encoding="utf-8")
        Path("card.yaml").write_text(
            "extends: base.yaml\nid: over\nsystem: {flags: {max-num-seqs: 16}}\n", encoding="utf-8"
        )
        sources = load_card("card.yaml").sources
        assert sources["id"] == "card"
        assert sources["kind"] == "extends base.yaml"
        assert sources["system.flags.max-num-seqs"] == "card"
        assert sources["system.flags.kv-cache"] == "extends base.yaml"
        assert sources["guards[0].metric"] == "extends base.yaml"
        assert sources["guards[0].at"] == "default"
        assert sources["method.blocks"] == "default"

    def test_its_standalone_text_resolves_to_the_same(self, tmp_path: Path) -> None:
        (tmp_path / "base.yaml").write_text(GOOD, encoding="utf-8")
        over = """\
extends: base.yaml
title: "no"
decision: {owner: "1e3", question: "\\x07 \\U0001F600 0x10?", budget: 1e3 s}
workload: {requests: {lengths: {correlation: 1e-1}}}
"""
        (tmp_path / "card.yaml").write_text(over, encoding="utf-8")
        card = load_card(tmp_path / "card.yaml")
        assert card.text == over
        (tmp_path / "alone").mkdir()
        (tmp_path / "alone" / "card.yaml").write_text(card.standalone, encoding="utf-8")
        assert load_card(tmp_path / "alone" / "card.yaml").resolved == card.resolved
        assert card.resolved["decision"]["owner"] == "1e3"

    def test_a_card_that_extends_nothing_is_its_own_standalone_text(self) -> None:
        assert load_card(CARDS / "good-ab.yaml").standalone == GOOD


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("{at: [50 req/s], drift_within: 5%}", {"at": [50.0], "drift_within": 0.05}),
        ("{at: [3000 req/min]}", {"at": [50.0], "drift_within": 0.1}),
        ("{at: every_load}", {"at": [20.0, 50.0], "drift_within": 0.1}),
    ],
)
def test_steady_state(tmp_path: Path, written: str, wanted: dict[str, Any]) -> None:
    found = resolved(tmp_path, f"{GOOD}\nvalidity: {{steady_state: {written}}}\n")
    assert found["validity"]["steady_state"] == wanted
    assert list(found["validity"]["steady_state"]) == ["at", "drift_within"]


def test_steady_state_belongs_to_closed_loops_too(tmp_path: Path) -> None:
    text = (CARDS / "good-baseline.yaml").read_text(encoding="utf-8")
    found = resolved(tmp_path, f"{text}\nvalidity: {{steady_state: {{at: every_load}}}}\n")
    assert found["validity"]["steady_state"]["at"] == found["workload"]["loads"]


COLD = "card: 1\nextends: base.yaml\nworkload: {test: cold_start}\nsystem: {launch: {restart: each_cell}}\n"


def test_a_cold_start_warms_nothing_and_has_a_cold_cache(tmp_path: Path) -> None:
    base = GOOD.replace("warmup: 0.5 s, ", "")
    assert base != GOOD
    cold = resolved(tmp_path, COLD, base=base)["workload"]
    assert (cold["test"], cold["cache_state"]) == ("cold_start", "cold")
    assert cold["window"]["warmup"] == {"seconds": 0.0}
    warm = resolved(tmp_path, "card: 1\nextends: base.yaml\n", base=base)["workload"]
    assert (warm["test"], warm["window"]["warmup"]) == ("serving", {"seconds": 10.0})


def test_a_cold_start_may_claim_its_own_metrics(tmp_path: Path) -> None:
    base = GOOD.replace("warmup: 0.5 s, ", "")
    claim = "claim: {metric: first.ttft, must_rise_by: , must_fall_by: 20%, at: [50 req/s]}\n"
    assert resolved(tmp_path, COLD + claim, base=base)["claim"]["metric"] == "first.ttft"


def test_a_claim_at_some_load_names_every_load_and_its_scope(tmp_path: Path) -> None:
    card = GOOD.replace("at: [50 req/s]", "at: some_load", 1)
    assert card != GOOD
    found = resolved(tmp_path, card)
    assert (found["claim"]["scope"], found["claim"]["at"]) == ("some_load", [20.0, 50.0])

"""The gate of identity: each kind of difference by hand, what vLLM derives from a flag, what never changes a row."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from benchcard.analysis.identity import confounded, forbidden, gate
from benchcard.analysis.identity_conditions import identity_conditions
from benchcard.analysis.identity_words import findings, forbidden_texts
from benchcard.analysis.leaves import arguments
from benchcard.analysis.read import Block, Bundle, Cell
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .bundles import ab_card, baseline_card

Row = dict[str, Any]

#: as vLLM 0.32 says of itself at /server_info, the part that matters here
SCHEDULER = {
    "max_num_batched_tokens": 2048, "max_num_seqs": 16, "max_num_encoder_input_tokens": 2048,
    "encoder_cache_size": 2048, "policy": "fcfs", "async_scheduling": False,
}  # fmt: skip
CACHE = {"enable_prefix_caching": False, "cache_dtype": "auto", "num_gpu_blocks": 728, "block_size": 128}
CONFIG: Row = {
    "scheduler_config": SCHEDULER,
    "cache_config": CACHE,
    "compilation_config": {"compile_ranges_endpoints": [2048], "mode": 0},
    "speculative_config": None,
}


def write_json(path: Path, value: Row) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def observed(value: Any, **more: Any) -> Row:
    return {"value": value, "source": "observed", **more}


def unknown(why: str) -> Row:
    return {"value": None, "source": "unknown", "why": why}


def server(**changes: Any) -> Row:
    """The fields of a server; `a__b=x` changes engine.config.a.b."""
    config = copy.deepcopy(CONFIG)
    for path, value in changes.items():
        *above, last = path.split("__")
        place = config
        for key in above:
            place = place[key]
        place[last] = value
    return {
        "engine.version": observed("0.32.0"),
        "engine.config": observed(config),
        "engine.system_fingerprint": observed("vllm-0.32.0-eb12154e"),
        "model.weights_sha256": observed({"model.safetensors": "sha256:aa", "more.safetensors": "sha256:bb"}),
        "model.tokenizer_files": observed({"tokenizer.json": "sha256:cc"}),
        "model.chat_template_sha256": observed("sha256:dd"),
        "process.argv": observed(["python", "-m", "vllm", "--port", "PORT", "--max-num-seqs", "16"]),
        "process.env": observed({"VLLM_CPU_KVCACHE_SPACE": "2"}),
        "process.pid": observed(17, volatile=True),
    }


def bundle(
    root: Path, baseline: Row | None, candidate: Row | None, card: Row | None = None, cells: Row | None = None,
    second: Row | None = None,
) -> Bundle:  # fmt: skip
    """A run directory with nothing but identities; `cells`: cell id -> fields that are not as they were at first."""
    card = card or treated(**{"max-num-seqs": (16, 16)})
    for arm, fields in (("baseline", baseline), ("candidate", candidate), ("baseline_aa", second)):
        if fields is not None:
            write_json(root / "identity" / f"{arm}.json", {"identity_version": 2, "arm": arm, "fields": fields})
    planned = [
        Cell(f"b{number:02d}-{arm}-l1", number, arm, 1, 10.0) for number in (1, 2) for arm in ("baseline", "candidate")
    ]
    for name, document in (cells or {}).items():
        fields, gone = document if isinstance(document, tuple) else (document, [])
        write_json(root / "identity" / "cells" / f"{name}.json", {"cell": name, "fields": fields, "gone": gone})
    blocks = tuple(Block(n, False, tuple(cell for cell in planned if cell.block == n)) for n in (1, 2))
    return Bundle(root, card, {}, (), blocks)


def treated(env: Row | None = None, confounded: Any = (), treatment: Any = (), **flags: tuple[Any, Any]) -> Row:
    """A card whose arms declare these flags: (baseline, candidate); None: not declared."""
    arms = [{name: pair[side] for name, pair in flags.items() if pair[side] is not None} for side in (0, 1)]
    variables = [{name: pair[side] for name, pair in (env or {}).items() if pair[side] is not None} for side in (0, 1)]
    return ab_card(
        system__flags={},
        arms={
            arm: {"flags": arms[side], "env": variables[side], "server": None, "expect": {}}
            for side, arm in enumerate(("baseline", "candidate"))
        },
        identity={"treatment": list(treatment), "confounded": list(confounded)},
    )


def rows(found: Bundle) -> list[tuple[str, str, str]]:
    return [(row["field"], row["class"], row["word"]) for row in gate(found)["rows"]]


def test_equal_systems_give_no_row(tmp_path: Path) -> None:
    found = gate(bundle(tmp_path, server(), server()))
    assert found == {"rows": [], "compared": 23, "unknown": 0, "looks": 0, "not_arrived": []}


def test_a_flag_that_nobody_declared_is_named(tmp_path: Path) -> None:
    changed = server(scheduler_config__max_num_batched_tokens=256, scheduler_config__encoder_cache_size=256)
    found = gate(bundle(tmp_path, server(), changed))
    # what vLLM derives from it comes after it
    assert [row["field"] for row in found["rows"]] == [
        "engine.config.scheduler_config.max_num_batched_tokens", "engine.config.scheduler_config.encoder_cache_size",
    ]  # fmt: skip
    assert found["rows"][0] == {
        "field": "engine.config.scheduler_config.max_num_batched_tokens", "class": "must_match", "word": "forbidden",
        "expected": None, "baseline": "2048", "candidate": "256", "arm": None, "cell": None,
        "why": "neither declared nor accepted on the card",
    }  # fmt: skip
    assert findings(found) == [
        ("invalid", "identity", "the arms differ in more than the card declares or accepts: "
         "engine.config.scheduler_config.max_num_batched_tokens (baseline 2048, candidate 256); "
         "engine.config.scheduler_config.encoder_cache_size (baseline 2048, candidate 256)"),
    ]  # fmt: skip


def test_the_declared_flag_passes_with_what_the_engine_derives_from_it(tmp_path: Path) -> None:
    """The differences that two vLLM 0.32 show at /server_info when one is started with 256 instead of 2048."""
    after = server(
        scheduler_config__max_num_batched_tokens=256, scheduler_config__encoder_cache_size=256,
        scheduler_config__max_num_encoder_input_tokens=256, compilation_config__compile_ranges_endpoints=[256],
    )  # fmt: skip
    after["engine.system_fingerprint"] = observed("vllm-0.32.0-c1e40d69")
    before = server()
    for fields, value in ((before, "2048"), (after, "256")):
        fields["process.argv"]["value"] += ["--max-num-batched-tokens", value]
        fields["engine.flags"] = {"value": {"max-num-batched-tokens": int(value)}, "source": "declared"}
    card = treated(**{"max-num-batched-tokens": (2048, 256)})
    found = gate(bundle(tmp_path, before, after, card))
    assert {(row["field"], row["why"]) for row in found["rows"]} == {
        ("engine.flags.max-num-batched-tokens", "declared: max-num-batched-tokens"),
        ("process.argv.max-num-batched-tokens", "declared: max-num-batched-tokens"),
        ("engine.config.scheduler_config.max_num_batched_tokens", "declared: max-num-batched-tokens"),
        ("engine.config.scheduler_config.encoder_cache_size", "follows from max-num-batched-tokens"),
        ("engine.config.scheduler_config.max_num_encoder_input_tokens", "follows from max-num-batched-tokens"),
        ("engine.config.compilation_config.compile_ranges_endpoints", "follows from max-num-batched-tokens"),
        ("engine.system_fingerprint", "follows from max-num-batched-tokens"),
    }
    assert {(row["class"], row["word"]) for row in found["rows"]} == {("treatment", "allowed")}
    assert found["not_arrived"] == []


def test_a_second_change_does_not_hide_behind_the_first(tmp_path: Path) -> None:
    after = server(scheduler_config__max_num_batched_tokens=256, scheduler_config__max_num_seqs=8)
    found = bundle(tmp_path, server(), after, treated(**{"max-num-batched-tokens": (2048, 256)}))
    assert rows(found) == [
        ("engine.config.scheduler_config.max_num_seqs", "must_match", "forbidden"),
        ("engine.config.scheduler_config.max_num_batched_tokens", "treatment", "allowed"),
    ]


def test_a_flag_that_the_card_sets_alike_is_derived_from_no_other(tmp_path: Path) -> None:
    """vLLM chooses max_num_batched_tokens by the performance mode, unless it is given."""
    after = server(scheduler_config__max_num_batched_tokens=4096)
    free = bundle(tmp_path / "a", server(), after, treated(**{"performance-mode": ("balanced", "throughput")}))
    assert rows(free) == [("engine.config.scheduler_config.max_num_batched_tokens", "treatment", "allowed")]
    card = treated(**{"performance-mode": ("balanced", "throughput"), "max-num-batched-tokens": (2048, 2048)})
    fixed = gate(bundle(tmp_path / "b", server(), after, card))
    assert [row["class"] for row in forbidden(fixed)] == ["expect", "must_match"]


def test_names_of_flags_that_the_configuration_spells_otherwise(tmp_path: Path) -> None:
    after = server(cache_config__cache_dtype="fp8", scheduler_config__policy="priority")
    card = treated(**{"kv-cache-dtype": (None, "fp8"), "scheduling-policy": (None, "priority")})
    assert {row[1:] for row in rows(bundle(tmp_path, server(), after, card))} == {("treatment", "allowed")}


def test_a_mapping_that_only_one_arm_has(tmp_path: Path) -> None:
    after = server(speculative_config={"method": "ngram", "num_speculative_tokens": 3})
    name = "engine.config.speculative_config"
    assert rows(bundle(tmp_path / "a", server(), after)) == [(name, "must_match", "forbidden")]
    card = treated(**{"speculative-config": (None, {"method": "ngram", "num_speculative_tokens": 3})})
    assert rows(bundle(tmp_path / "b", server(), after, card)) == [(name, "treatment", "allowed")]


def test_an_undeclared_variable_of_one_arm(tmp_path: Path) -> None:
    after = server()
    after["process.env"] = observed({"VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_USE_X": "1"})
    found = gate(bundle(tmp_path / "a", server(), after))
    assert [(r["field"], r["baseline"], r["candidate"], r["word"]) for r in found["rows"]] == [
        ("process.env.VLLM_USE_X", "absent", "1", "forbidden")
    ]
    card = treated(env={"VLLM_USE_X": (None, "1")})
    assert rows(bundle(tmp_path / "b", server(), after, card)) == [("process.env.VLLM_USE_X", "treatment", "allowed")]


@pytest.mark.parametrize(
    ("name", "value", "leaf"),
    [
        ("model.weights_sha256", {"model.safetensors": "sha256:aa", "more.safetensors": "sha256:b0"},
         "model.weights_sha256.more.safetensors"),
        ("model.tokenizer_files", {"tokenizer.json": "sha256:c0"}, "model.tokenizer_files.tokenizer.json"),
        ("model.chat_template_sha256", "sha256:d0", "model.chat_template_sha256"),
        ("engine.version", "0.33.0", "engine.version"),
    ],
)  # fmt: skip
def test_another_model_is_named(tmp_path: Path, name: str, value: Any, leaf: str) -> None:
    after = server() | {name: observed(value)}
    assert rows(bundle(tmp_path / "a", server(), after)) == [(leaf, "must_match", "forbidden")]
    for number, pattern in enumerate((leaf, name, f"{name[:-3]}*")):
        card = treated(treatment=[pattern])
        assert rows(bundle(tmp_path / f"t{number}", server(), after, card)) == [(leaf, "treatment", "allowed")]
        accepted = bundle(tmp_path / f"c{number}", server(), after, treated(confounded=[pattern]))
        assert rows(accepted) == [(leaf, "confounded", "allowed")]
        assert confounded(accepted) == [pattern]


def test_what_is_accepted_and_treated_is_confounded(tmp_path: Path) -> None:
    after = server(scheduler_config__max_num_seqs=8)
    card = treated(confounded=["max-num-seqs"], **{"max-num-seqs": (16, 8)})
    found = bundle(tmp_path, server(), after, card)
    assert rows(found) == [("engine.config.scheduler_config.max_num_seqs", "confounded", "allowed")]
    assert confounded(found) == ["max-num-seqs"]


def test_accepted_names_that_were_not_observed_stay_and_equal_ones_go(tmp_path: Path) -> None:
    card = treated(confounded=["node", "engine.version", "engine.config.cache_config.*", "gpu", "max-num-seqs"])
    one, other = server(), server()
    one["gpu.uuid"], other["gpu.uuid"] = observed("GPU-1"), unknown("no permission")
    assert confounded(bundle(tmp_path, one, other, card)) == ["node", "gpu"]


def test_one_side_that_does_not_tell_is_not_comparable(tmp_path: Path) -> None:
    before, after = server(), server()
    after["engine.config"] = unknown("the server has no /server_info")
    del after["model.chat_template_sha256"]
    before["gpu.uuid"] = after["gpu.uuid"] = unknown("no accelerator")
    found = gate(bundle(tmp_path, before, after))
    assert [(r["field"], r["word"], r["baseline"], r["candidate"], r["why"]) for r in found["rows"]] == [
        ("engine.config", "not comparable", json.dumps(CONFIG, sort_keys=True), None, "the server has no /server_info"),
        ("model.chat_template_sha256", "not comparable", "sha256:dd", None, "not observed"),
    ]
    assert found["unknown"] == 3
    assert findings(found) == []


def test_libraries_are_loaded_when_they_are_needed(tmp_path: Path) -> None:
    before = server() | {"process.libraries": observed({"libc.so.6": "sha256:1", "libgomp.so.1": "sha256:2"})}
    after = server() | {"process.libraries": observed({"libc.so.6": "sha256:0"})}
    assert rows(bundle(tmp_path, before, after)) == [
        ("process.libraries.libc.so.6", "must_match", "forbidden"),
        ("process.libraries.libgomp.so.1", "must_match", "not comparable"),
    ]


def test_another_version_of_a_library_is_not_one_that_is_loaded_later(tmp_path: Path) -> None:
    """The version, or the build's digest, stands in the name: each side has one that the other lacks."""
    common = {"libc.so.6": "sha256:1"}
    before = server() | {
        "process.libraries": observed(
            {**common, "libgomp-a34b3233.so.1": "sha256:2", "libx.so.1.2": "sha256:3", "_C.so": "sha256:4"}
        )
    }
    after = server() | {
        "process.libraries": observed({**common, "libgomp-24e2ab19.so.1.0.0": "sha256:5", "a/_C.so": "sha256:6"})
    }
    word = {True: "forbidden", False: "not comparable"}
    expected = {
        name: word["gomp" in name]
        for name in ("_C.so", "a/_C.so", "libgomp-24e2ab19.so.1.0.0", "libgomp-a34b3233.so.1", "libx.so.1.2")
    }
    found = rows(bundle(tmp_path, before, after))
    assert {name.removeprefix("process.libraries."): word for name, _, word in found} == expected
    drifted = bundle(tmp_path / "drift", before, before, cells={"b02-baseline-l1": after})
    assert {name.removeprefix("process.libraries."): word for name, _, word in rows(drifted)} == expected


def test_the_memory_that_an_engine_finds_free(tmp_path: Path) -> None:
    """Within 1% two starts are alike; beyond it, a declared flag that takes memory explains it, another does not."""
    name = "engine.config.cache_config.num_gpu_blocks"
    near, far = server(cache_config__num_gpu_blocks=721), server(cache_config__num_gpu_blocks=720)
    assert rows(bundle(tmp_path / "a", server(), near)) == [(name, "must_match", "allowed")]
    assert rows(bundle(tmp_path / "b", server(), far)) == [(name, "must_match", "forbidden")]
    batch = treated(**{"max-num-batched-tokens": (2048, 4096)})
    wide = server(cache_config__num_gpu_blocks=500, scheduler_config__max_num_batched_tokens=4096)
    assert rows(bundle(tmp_path / "c", server(), wide, batch))[0] == (name, "treatment", "allowed")
    policy = treated(**{"scheduling-policy": ("fcfs", "fcfs2")})
    assert rows(bundle(tmp_path / "d", server(), far, policy)) == [(name, "must_match", "forbidden")]


def test_drift_of_a_restarted_server_names_the_cell(tmp_path: Path) -> None:
    now = {"engine.config": server(scheduler_config__max_num_seqs=8)["engine.config"]}
    found = gate(bundle(tmp_path, server(), server(), cells={"b01-candidate-l1": {}, "b02-candidate-l1": now}))
    assert found["looks"] == 2
    assert found["rows"] == [
        {
            "field": "engine.config.scheduler_config.max_num_seqs", "class": "drift", "word": "forbidden",
            "expected": "16", "baseline": None, "candidate": "8", "arm": "candidate", "cell": "b02-candidate-l1",
            "why": "an arm is one system from its first cell to its last",
        }
    ]  # fmt: skip
    assert forbidden_texts(found["rows"]) == [
        "an arm did not stay the system that it was at first: engine.config.scheduler_config.max_num_seqs of candidate "
        "(at first 16, in b02-candidate-l1 8)"
    ]


def test_what_a_later_look_does_not_see(tmp_path: Path) -> None:
    cells = {"b02-baseline-l1": ({"process.pid": observed(18, volatile=True)}, ["engine.version", "process.pid"])}
    found = bundle(tmp_path, server(), server(), cells=cells)
    assert rows(found) == [("engine.version", "drift", "not comparable")]
    silent = {"b02-baseline-l1": {"engine.version": unknown("no answer")}}
    assert rows(bundle(tmp_path, server(), server(), cells=silent)) == [("engine.version", "drift", "not comparable")]


def test_accepted_drift_stands_in_the_headline(tmp_path: Path) -> None:
    one = server() | {"node": observed("sha256:11")}
    card = treated(confounded=["node"])
    assert confounded(bundle(tmp_path / "a", one, one, card)) == []
    moved = bundle(tmp_path / "b", one, one, card, cells={"b02-baseline-l1": {"node": observed("sha256:22")}})
    assert rows(moved) == [("node", "drift", "allowed")]
    assert confounded(moved) == ["node"]


def test_the_baselines_second_run_is_the_same_system(tmp_path: Path) -> None:
    second = server(cache_config__enable_prefix_caching=True)
    found = gate(bundle(tmp_path, server(), server(), second=second))
    assert [(r["field"], r["class"], r["arm"], r["cell"]) for r in found["rows"]] == [
        ("engine.config.cache_config.enable_prefix_caching", "drift", "baseline_aa", None)
    ]
    assert forbidden_texts(found["rows"]) == [
        "an arm did not stay the system that it was at first: engine.config.cache_config.enable_prefix_caching "
        "(baseline false, its second run true)"
    ]


def test_what_the_card_expects(tmp_path: Path) -> None:
    card = treated()
    card["arms"]["candidate"]["expect"] = {"cache_config.cache_dtype": "fp8", "block_size": 128, "cache_config.x": 1}
    found = gate(bundle(tmp_path, server(), server(), card))
    assert [(r["field"], r["class"], r["word"], r["expected"], r["candidate"]) for r in found["rows"]] == [
        ("engine.config.cache_config.cache_dtype", "expect", "forbidden", "fp8", "auto"),
        ("cache_config.x", "expect", "not comparable", "1", None),
    ]
    assert findings(found) == [
        ("invalid", "identity", "an engine is not what the card says: engine.config.cache_config.cache_dtype of the "
         "candidate is auto (the card: expect cache_config.cache_dtype = fp8)"),
    ]  # fmt: skip


def test_settings_that_are_expected_to_differ_are_the_treatment(tmp_path: Path) -> None:
    """External servers: nobody here gave them a flag."""
    card = treated()
    card["arms"]["baseline"]["expect"] = {"cache_config.cache_dtype": "auto"}
    card["arms"]["candidate"]["expect"] = {"cache_config.cache_dtype": "fp8"}
    after = server(cache_config__cache_dtype="fp8")
    assert rows(bundle(tmp_path, server(), after, card)) == [
        ("engine.config.cache_config.cache_dtype", "treatment", "allowed")
    ]


def test_what_the_engine_derives_from_an_expected_setting_follows_from_it(tmp_path: Path) -> None:
    """An fp8 KV cache holds more blocks, and a probe of the host shows the flag: neither is a second change."""
    card = treated()
    card["arms"]["baseline"]["expect"] = {"cache_config.cache_dtype": "auto"}
    card["arms"]["candidate"]["expect"] = {"cache_config.cache_dtype": "fp8"}
    after = server(cache_config__cache_dtype="fp8", cache_config__num_gpu_blocks=2048)
    after["process.argv"] = observed([*after["process.argv"]["value"], "--kv-cache-dtype", "fp8"])
    before = server(cache_config__cache_dtype="auto", cache_config__num_gpu_blocks=1024)
    found = gate(bundle(tmp_path, before, after, card))["rows"]
    assert [(row["field"], row["word"], row["why"]) for row in found] == [
        ("engine.config.cache_config.cache_dtype", "allowed", "declared: expect cache_config.cache_dtype"),
        ("engine.config.cache_config.num_gpu_blocks", "allowed", "follows from expect cache_config.cache_dtype"),
        ("process.argv.kv-cache-dtype", "allowed", "declared: expect cache_config.cache_dtype"),
    ]


def test_an_expected_setting_hides_no_other_flag(tmp_path: Path) -> None:
    """A setting of a name that the table of flags does not know stands for itself alone."""
    card = treated()
    card["arms"]["baseline"]["expect"] = {"model_config.model": "a"}
    card["arms"]["candidate"]["expect"] = {"model_config.model": "b"}
    before = server(model_config={"model": "a"}, speculative_config={"model": "c"}, cache_config__num_gpu_blocks=1024)
    after = server(model_config={"model": "b"}, speculative_config={"model": "d"}, cache_config__num_gpu_blocks=2048)
    assert rows(bundle(tmp_path, before, after, card)) == [
        ("engine.config.cache_config.num_gpu_blocks", "must_match", "forbidden"),
        ("engine.config.speculative_config.model", "must_match", "forbidden"),
        ("engine.config.model_config.model", "treatment", "allowed"),
    ]


def test_each_arms_own_server(tmp_path: Path) -> None:
    card = treated()
    for arm, replicas in (("baseline", 1), ("candidate", 2)):
        card["arms"][arm]["server"] = {"url": f"http://{arm}/v1", "replicas": replicas}
    seen = [
        server() | {"server.url": observed(arm), "server.replicas_seen": observed(n), "node": observed(arm)}
        for n, arm in enumerate(("a", "b"), start=1)
    ]
    assert rows(bundle(tmp_path, *seen, card)) == [
        ("node", "must_match", "forbidden"),
        ("server.replicas_seen", "treatment", "allowed"),
        ("server.url", "treatment", "allowed"),
    ]


def test_a_flag_that_the_engine_contradicts(tmp_path: Path) -> None:
    card = treated(**{"max-num-seqs": (16, 32), "enable-prefix-caching": (False, False)})
    found = gate(bundle(tmp_path, server(), server(scheduler_config__max_num_seqs=64), card))
    (row,) = forbidden(found)
    assert (row["class"], row["field"], row["expected"], row["candidate"], row["why"]) == (
        "expect", "engine.config.scheduler_config.max_num_seqs", "32", "64", "the card: the flag max-num-seqs"
    )  # fmt: skip


def test_a_treatment_that_did_not_arrive(tmp_path: Path) -> None:
    """Declared to differ, resolved alike: the candidate only says what was the default."""
    found = gate(bundle(tmp_path, server(), server(), treated(**{"max-num-seqs": (None, 16)})))
    assert found["rows"] == []
    assert found["not_arrived"] == [
        {
            "flag": "max-num-seqs", "baseline": None, "candidate": "16",
            "field": "engine.config.scheduler_config.max_num_seqs", "resolved": "16",
        }
    ]  # fmt: skip
    assert findings(found) == [
        ("no treatment", "treatment_not_arrived", "the treatment did not take effect as declared: max-num-seqs "
         "(baseline the default, candidate 16), and both engines resolved "
         "engine.config.scheduler_config.max_num_seqs to 16"),
    ]  # fmt: skip
    # an engine that does not tell what it made of a flag says nothing against it
    assert gate(bundle(tmp_path, server(), server(), treated(seed=(None, 1))))["not_arrived"] == []


@pytest.mark.parametrize(
    ("baseline", "candidate", "resolved"),
    [
        ("2", "2", "2"),            # a script set it again
        (None, None, None),         # or made something else of it
        ("2", "4", None),
        (None, "4", None),
        ("[redacted]", "[redacted]", None),
    ],
)  # fmt: skip
def test_a_variable_that_did_not_arrive(
    tmp_path: Path, baseline: str | None, candidate: str | None, resolved: str | None
) -> None:
    arms = []
    for value in (baseline, candidate):
        env = {} if value is None else {"VLLM_CPU_KVCACHE_SPACE": value}
        arms.append(server() | {"process.env": observed({"HOME": "~", **env})})
    found = gate(bundle(tmp_path, *arms, treated(env={"VLLM_CPU_KVCACHE_SPACE": (None, 4)})))
    assert found["not_arrived"] == ([] if resolved is None else [
        {"flag": "VLLM_CPU_KVCACHE_SPACE", "baseline": None, "candidate": "4",
         "field": "process.env.VLLM_CPU_KVCACHE_SPACE", "resolved": resolved},
    ])  # fmt: skip


def test_a_baseline_has_drift_and_expectations_alone(tmp_path: Path) -> None:
    card = baseline_card(system__flags={})
    card["arms"]["baseline"]["expect"] = {"cache_config.cache_dtype": "fp8"}
    cells = {"b02-baseline-l1": {"engine.version": observed("0.33.0")}}
    assert rows(bundle(tmp_path, server(), None, card, cells)) == [
        ("engine.config.cache_config.cache_dtype", "expect", "forbidden"),
        ("engine.version", "drift", "forbidden"),
    ]


def test_before_the_second_arm_was_started_there_is_nothing_to_compare(tmp_path: Path) -> None:
    assert gate(bundle(tmp_path, server(), None))["rows"] == []


@pytest.mark.parametrize(
    ("argv", "flags"),
    [
        (["python", "-m", "vllm", "--a-b", "1", "--c=x=y", "--no-d"],
         {"command": "python", "m": "vllm", "a-b": "1", "c": "x=y", "d": "false"}),
        (["serve", "--a_b", "1", "2", "--e", "--a-b", "3"], {"command": "serve", "a-b": "1 2 3", "e": "true"}),
        (["x", "--n", "-5"], {"command": "x", "n": "-5"}),
    ],
)  # fmt: skip
def test_a_command_line_by_flag(argv: list[str], flags: dict[str, str]) -> None:
    assert arguments(argv) == flags


def test_the_order_of_a_command_line_is_no_difference(tmp_path: Path) -> None:
    after = server() | {"process.argv": observed(["python", "-m", "vllm", "--max-num-seqs=16", "--port", "PORT"])}
    assert rows(bundle(tmp_path, server(), after)) == []


def test_conditions_count_what_is_alike_and_list_what_differs(tmp_path: Path) -> None:
    one = server() | {"gpu.uuid": unknown("no GPU"), "gpu.count": unknown("no GPU"), "host.cpu": observed("CPU")}
    after = copy.deepcopy(one) | {"engine.config": server(scheduler_config__max_num_seqs=8)["engine.config"]}
    found = bundle(tmp_path, one, after, treated(**{"max-num-seqs": (16, 8)}), cells={"b01-baseline-l1": {}})
    assert identity_conditions(found) == [
        ("engine.config (differs between arms)",
         "scheduler_config.max_num_seqs: baseline 16, candidate 8 (declared: max-num-seqs)", "observed"),
        ("engine.system_fingerprint", "vllm-0.32.0-eb12154e", "observed"),
        ("engine.version", "0.32.0", "observed"),
        ("host.cpu", "CPU", "observed"),
        ("model.chat_template_sha256", "sha256:dd", "observed"),
        ("model.tokenizer_files", '{"tokenizer.json": "sha256:cc"}', "observed"),
        ("model.weights_sha256", '{"model.safetensors": "sha256:aa", "more.safetensors": "sha256:bb"}', "observed"),
        ("gpu.count, gpu.uuid", "no GPU", "unknown"),
        ("identity compared", "24 values of each arm", "observed"),
        ("identity looked at again", "before 1 cell", "observed"),
    ]  # fmt: skip


#: JSON values as engines tell them
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["a", "b", ""]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.dictionaries(st.sampled_from(["engine.config", "host.cpu", "model.x", "process.env"]), VALUES, max_size=4)


def shuffled(value: Any) -> Any:
    """The same JSON value with the keys of every mapping the other way round."""
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(value)}
    return [shuffled(item) for item in value] if isinstance(value, list) else value


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(one=FIELDS, other=FIELDS, now=VALUES)
def test_neither_order_nor_volatile_fields_change_a_row(tmp_path: Path, one: Row, other: Row, now: Any) -> None:
    before, after = ({name: observed(value) for name, value in fields.items()} for fields in (one, other))
    card = treated(z=(1, 2))
    found = gate(bundle(tmp_path, before, after, card))
    moved = [{name: shuffled(field) for name, field in reversed(fields.items())} for fields in (before, after)]
    for side, fields in enumerate(moved):
        fields |= {"neighbours.load": observed([now, side], volatile=True)}
    assert gate(bundle(tmp_path, *moved, card)) == found
    assert gate(bundle(tmp_path, before, copy.deepcopy(before), card))["rows"] == []
    # every field that differs has a row, and no other
    unlike = {name for name in {*one, *other} if json.dumps(one.get(name, 0), sort_keys=True)
              != json.dumps(other.get(name, 0), sort_keys=True) or (name in one) != (name in other)}  # fmt: skip
    assert {name for name in {*one, *other} if any(r["field"].startswith(name) for r in found["rows"])} == unlike

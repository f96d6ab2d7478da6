"""Environments and commands for the record: what changes a server's run is there, secrets and layout are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchcard.runner.identity.environment import (
    forget_unshown,
    recorded_argv,
    recorded_config,
    recorded_env,
    shortened,
)
from benchcard.runner.secrets import known_keys, names_a_secret, read_key
from hypothesis import given
from hypothesis import strategies as st

CANARY = "canary-8f3a61"


@pytest.fixture(autouse=True)
def _new_run() -> None:
    forget_unshown()


def test_values_of_names_on_the_list_alone() -> None:
    env = {
        "VLLM_ATTENTION_BACKEND": "FLASH_ATTN", "OMP_NUM_THREADS": "8", "CUDA_VISIBLE_DEVICES": "0,1",
        "LD_PRELOAD": "/usr/lib/libtcmalloc.so", "MALLOC_ARENA_MAX": "1", "TOKENIZERS_PARALLELISM": "false",
        "PATH": "/bin", "MY_OWN": "3", "EMPTY": "",
    }  # fmt: skip
    assert recorded_env(env, named=["MY_OWN"]) == {
        "CUDA_VISIBLE_DEVICES": "0,1", "EMPTY": "[not recorded]", "LD_PRELOAD": "/usr/lib/libtcmalloc.so",
        "MALLOC_ARENA_MAX": "1", "MY_OWN": "3", "OMP_NUM_THREADS": "8", "PATH": "[not recorded]",
        "TOKENIZERS_PARALLELISM": "false", "VLLM_ATTENTION_BACKEND": "FLASH_ATTN",
    }  # fmt: skip


def test_two_values_that_are_not_recorded_are_told_apart() -> None:
    """Two servers with another value of a variable that nobody knows are not alike; what it is, nobody reads."""
    found = [recorded_env({"DG_JIT": value, "OTHER": "x"}) for value in ("1", CANARY, "1", CANARY)]
    first = {"DG_JIT": "[not recorded]", "OTHER": "[not recorded]"}
    second = {**first, "DG_JIT": "[not recorded: value 2]"}
    assert found == [first, second, first, second]
    forget_unshown()
    assert recorded_env({"DG_JIT": CANARY}) == {"DG_JIT": "[not recorded]"}


def test_secrets_are_masked_by_name_and_by_value() -> None:
    env = {
        "HF_TOKEN": CANARY, "VLLM_API_KEY": "other-canary-77", "VLLM_HEADERS": f"Bearer {CANARY}",
        "HF_ENDPOINT": "https://me:word@hub.example/x", "PGPASSWORD": "pg-canary-1",
        "VLLM_OTHER": "a other-canary-77 b",
    }  # fmt: skip
    found = recorded_env(env, named=["PGPASSWORD"])
    assert found == {
        "HF_ENDPOINT": "https://[redacted]@hub.example/x", "HF_TOKEN": "[redacted]", "PGPASSWORD": "[redacted]",
        "VLLM_API_KEY": "[redacted]", "VLLM_HEADERS": "Bearer [redacted]", "VLLM_OTHER": "a [redacted] b",
    }  # fmt: skip


def test_a_key_that_the_run_has_read_is_masked_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_NAME", "read-canary-55")
    assert read_key({"env": "SOME_NAME"}) == "read-canary-55"
    assert "read-canary-55" in known_keys()
    assert recorded_env({"VLLM_X": "<read-canary-55>"}) == {"VLLM_X": "<[redacted]>"}


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("HF_TOKEN", "1234", True), ("--api-key", "x", True), ("AWS_SECRET_ACCESS_KEY", "x", True),
        ("GITHUB_APIKEY", "x", True), ("DB_PASSWORD", "x", True), ("SSH_AUTH_SOCK", "x", True),
        ("max_num_batched_tokens", "2048", False), ("long_prefill_token_threshold", "0", False),
        ("TOKENIZERS_PARALLELISM", "true", False), ("tokenizer", "x", False), ("OMP_NUM_THREADS", "2", False),
        ("AUTHOR", "x", False), ("HF_TOKENS", "hf_abc", True),
    ],
)  # fmt: skip
def test_which_names_speak_of_a_secret(name: str, value: str, secret: bool) -> None:
    assert names_a_secret(name, value) is secret


def test_what_each_start_draws_is_left_out() -> None:
    env = {"VLLM_PORT": "1", "MASTER_PORT": "2", "VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME": "x", "_": "y", "VLLM_A": "1"}
    assert recorded_env(env) == {"VLLM_A": "1"}


def test_where_a_run_is_started_from_is_left_out() -> None:
    env = {
        "TMUX": "x", "SSH_CONNECTION": "x", "TERM": "xterm", "PWD": "/", "REDIS_SERVICE_HOST": "10.0.0.7",
        "REDIS_PORT_6379_TCP": "x", "PYTEST_CURRENT_TEST": "x", "VLLM_HOST_IP": "10.0.0.8", "MY_TUNING": "1",
    }  # fmt: skip
    assert recorded_env(env) == {"MY_TUNING": "[not recorded]", "VLLM_HOST_IP": "10.0.0.8"}
    assert recorded_env({"USER_TUNING": "1", "TERM": "x"}, named=["TERM"]) == {
        "TERM": "x", "USER_TUNING": "[not recorded]",
    }  # fmt: skip


def test_a_command() -> None:
    argv = [
        *("/opt/venv/bin/python3", "-m", "vllm", f"{Path.cwd()}/models/m"),
        *("--port", "8123", "--port=9", "--log", "/x/y"),
        *("--api-key", CANARY, "second-key", "--hf-token=abc", "--max-num-batched-tokens", "2048"),
        *("--chat-template", f"{Path.home()}/t.jinja", "HF_TOKEN=abc"),
        *(
            "--kv-transfer-config",
            '{"role": "both", "extra": {"auth_token": "abc"}}',
            "--override",
            '{"a":1}',
            "{not JSON",
        ),
    ]
    assert recorded_argv(argv) == [
        *("python", "-m", "vllm", "models/m", "--port", "PORT", "--port=PORT", "--log", "LOG"),
        *("--api-key", "[redacted]", "[redacted]", "--hf-token=[redacted]", "--max-num-batched-tokens", "2048"),
        *("--chat-template", shortened(f"{Path.home()}/t.jinja"), "HF_TOKEN=[redacted]"),
        *("--kv-transfer-config", '{"role": "both", "extra": {"auth_token": "[redacted]"}}'),
        *("--override", '{"a":1}', "{not JSON"),
    ]


def test_a_configuration_at_any_depth() -> None:
    config = {
        "model_config": {"hf_token": CANARY, "max_model_len": 2048, "seed": 0, "path": f"{Path.home()}/.cache/x"},
        "api_key": [CANARY, None], "headers": {"a": [f"x {CANARY}"]}, "limit": float("inf"), "none": None,
        "max_num_batched_tokens": "2048",
    }  # fmt: skip
    home = shortened(f"{Path.home()}/.cache/x")
    found = recorded_config(config, [CANARY])
    assert found == {
        "model_config": {"hf_token": "[redacted]", "max_model_len": 2048, "seed": 0, "path": home},
        "api_key": ["[redacted]", None], "headers": {"a": ["x [redacted]"]}, "limit": "inf", "none": None,
        "max_num_batched_tokens": "2048",
    }  # fmt: skip
    json.dumps(found, allow_nan=False)


NAMES = st.sampled_from(["VLLM_A", "HF_TOKEN", "PATH", "MY_SECRET", "OMP_X", "--x", "--api-key"])


@given(st.dictionaries(NAMES, st.text(max_size=12).map(lambda t: f"{t}{CANARY}{t}")), st.lists(st.text(max_size=5)))
def test_a_known_secret_is_nowhere(env: dict[str, str], more: list[str]) -> None:
    argv = ["python", *more, f"--x={CANARY}", CANARY, f"a{CANARY}b"]
    text = json.dumps([recorded_argv(argv, [CANARY]), recorded_config(env, [CANARY])])
    assert CANARY not in text
    assert CANARY not in json.dumps(recorded_env({**env, "CANARY_TOKEN": CANARY}))

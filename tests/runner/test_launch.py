"""How a server is started: card -> command line, environment, address."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest
from benchcard.runner.engines.launch import flag_arguments, launch, local_argv, requested_port
from benchcard.runner.secrets import read_key, redact, redact_env
from benchcard.schema.errors import InputError


def card(**system: Any) -> dict[str, Any]:
    arm = {"flags": {"enable-prefix-caching": True}, "env": {"B": "2"}}
    return {
        "system": {
            "engine": {"kind": "vllm", "version": "0.32.0"},
            "model": {"name": "m", "path": "models/m", "precision": "bfloat16", "context_limit": 2048},
            "flags": {"max-num-seqs": 16},
            "launch": {"python": "venv/bin/python", "command": None, "env": {"A": "1"}},
            **system,
        },
        "arms": {"baseline": {"flags": {"port": 8123}, "env": {}}, "candidate": arm},
    }


def test_flags() -> None:
    flags = {"a": True, "b": False, "c-d": 3, "e": {"k": [1]}, "f": "x y", "g": 0.5}
    assert flag_arguments(flags) == ["--a", "--no-b", "--c-d", "3", "--e", '{"k":[1]}', "--f", "x y", "--g", "0.5"]
    with pytest.raises(InputError):
        flag_arguments({"a": None})


def test_vllm() -> None:
    found = launch(card(), "candidate", 9000, "log")
    assert found.argv == [
        "venv/bin/python", "-m", "vllm.entrypoints.openai.api_server", "--model", "models/m",
        "--host", "127.0.0.1", "--port", "9000", "--served-model-name", "m",
        "--dtype", "bfloat16", "--max-model-len", "2048", "--enable-prompt-tokens-details",
        "--max-num-seqs", "16", "--enable-prefix-caching",
    ]  # fmt: skip
    ours = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_SERVER_DEV_MODE": "1"}
    assert found.env == {**ours, "A": "1", "B": "2"}
    assert found.url == "http://127.0.0.1:9000/v1"


def test_a_command_of_ones_own() -> None:
    system = {"launch": {"python": None, "command": "serve --listen {port}", "env": {}}}
    found = launch(card(**system), "baseline", 8123, "log")
    assert found.argv == ["serve", "--listen", "8123", "--max-num-seqs", "16"]
    assert requested_port(card(), "baseline") == 8123
    assert requested_port(card(), "candidate") is None


def test_a_command_for_the_record_shows_no_layout() -> None:
    here = os.getcwd()
    assert local_argv([sys.executable, "-m", "x", f"{here}/runs/log"]) == [
        os.path.basename(sys.executable),
        "-m",
        "x",
        "runs/log",
    ]
    assert local_argv(["venv/bin/python", "-c"]) == ["venv/bin/python", "-c"]


def test_keys(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text("secret\n")
    assert read_key({"file": str(tmp_path / "key")}) == "secret"
    assert read_key(None) is None
    monkeypatch.setenv("K", "other")
    assert read_key({"env": "K"}) == "other"
    with pytest.raises(InputError, match="cannot read"):
        read_key({"file": str(tmp_path / "none")})
    assert redact("a secret b", ["secret"]) == "a [redacted] b"
    assert redact(None, ["secret"]) is None
    assert redact_env({"HF_TOKEN": "x", "A": 1}) == {"HF_TOKEN": "[redacted]", "A": "1"}

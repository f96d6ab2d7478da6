"""What it takes to build a run's systems again: whole texts from hand-made identities, and a round trip."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from benchcard.runner.engines.process import free_port
from benchcard.runner.identity.flat import differences, leaves, unknowns
from benchcard.runner.identity.rebuild import rebuild
from benchcard.runner.identity.rebuild_files import rebuild_files, rebuild_text
from benchcard.runner.identity.show import identity_text

from .cards import benchcard

PUBLISHED = Path(__file__).parents[2] / "reports" / "published"


def observed(value: Any) -> dict[str, Any]:
    return {"value": value, "source": "observed"}


def unknown(why: str) -> dict[str, Any]:
    return {"value": None, "source": "unknown", "why": why}


def fields(**changes: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A vLLM of another machine, as the collectors would tell it."""
    found = {
        "engine.kind": {"value": "vllm", "source": "declared"},
        "engine.version": observed("0.32.0"),
        "engine.commit": unknown("neither its package nor its version tells one"),
        "engine.config": observed({"a": 1}),
        "model.name": observed("m"),
        "model.path": observed("models/m"),
        "model.precision": {"value": None, "source": "declared"},
        "model.weights_sha256": observed({"model.safetensors": "sha256:" + "1" * 64}),
        "model.tokenizer_files": observed({"tokenizer.json": "sha256:" + "2" * 64}),
        "model.config_sha256": observed("sha256:" + "3" * 64),
        "model.generation_config_sha256": observed("none: --generation-config vllm"),
        "model.chat_template_sha256": observed("sha256:" + "4" * 64),
        "process.pid": {**observed(7), "volatile": True},
        "process.argv": observed(
            ["python3", "-m", "vllm", "--model", "models/m", "--port", "PORT", "--api-key", "[redacted]", "--x=a b"]
        ),
        "process.env": observed(
            {"A": "it's", "B": "1", "HF_TOKEN": "[redacted]", "OTHER": "[not recorded]", "RANK": "0 | 1"}
        ),
        "process.libraries": observed({"_x.cpython-311-x86_64-linux-gnu.so": "sha256:5"}),
        "process.packages": observed(
            {
                "benchcard": {"version": "1.0", "record_sha256": None, "editable": True, "commit": "abc"},
                "numpy": {"version": "2.1.0", "record_sha256": "sha256:" + "6" * 64},
                "torch": {"version": "2.9.0+cpu", "record_sha256": None, "why": "no RECORD"},
                "vllm": {"version": "0.32.0", "record_sha256": None, "commit": "def"},
            }
        ),
        "container.image": observed("none"),
        "host.cpu": observed("EPYC"),
        "host.kernel": observed("6.1"),
        "gpu.driver": unknown("no accelerator is to be seen"),
    }  # fmt: skip
    return {**found, **changes}


ARMS = {
    "baseline": fields(),
    "candidate": fields(
        **{"process.env": observed({"A": "it's", "B": "2", "HF_TOKEN": "[redacted]", "OTHER": "[not recorded]"})}
    ),
}

REQUIREMENTS = f"""\
# Every line is pinned by its version only. RECORD: the SHA-256 of the list of the files that were installed,
# to compare with an environment once it is built; it is not the hash of an archive, and pip cannot check it.
# benchcard==1.0 was an editable install of commit abc: build it from its source
numpy==2.1.0  # RECORD {"6" * 64}
torch==2.9.0+cpu
# vllm==0.32.0 was installed from a repository of commit def: build it from there
"""
SUMS = f"""\
{"3" * 64}  config.json
{"1" * 64}  model.safetensors
{"2" * 64}  tokenizer.json
"""
ENV = """\
# The environment of the servers of run r, as far as it is recorded and is no secret.
export A='it'"'"'s'
# Also set; their values are secrets, or hold one: HF_TOKEN
# Also set; their values are not the same in all of the server's processes: RANK
# Also set; their values are not recorded: OTHER
"""
RUN = """\
#!/bin/sh
# Starts the server of the candidate as in run r.
# PORT: where it listens (default 8000). PYTHON: the interpreter, in place of the one of the run.
set -eu
. "$(dirname "$0")/env.sh"
export B=2
exec "${PYTHON:-python3}" -m vllm \\
  --model models/m \\
  --port "${PORT:-8000}" \\
  --api-key "${SECRET_1:?a secret that the run does not record; the value of --api-key}" \\
  '--x=a b'
"""
MISSING = """\
# What is missing for building the systems of r again

- the accelerators' driver: no accelerator is to be seen
- the engine's commit: neither its package nor its version tells one
- a secret on the command line: it is not recorded: put your own in its place
- files and folders that the command names: models/m: they lie on the machine of the run
- the values of HF_TOKEN: they are secrets, or hold one
- the values of 1 variable that env.sh names: only names are recorded
- one value of RANK (baseline): the server's processes had several: 0, 1
- the archives' hashes of all 4 packages: an installed package keeps the digests of its files (RECORD), not that of \
the wheel it came from: each is pinned by its version, and pip cannot check it
- the source of torch 2.9.0+cpu: a local version: it is on its builder's index, not on PyPI
- the source of vllm 0.32.0: installed from a repository, whose address is not recorded
- the source of benchcard 1.0: an editable install: a folder that may have been changed since its commit
- the model's files: a run holds their digests, not the files: models.sha256 says whether yours are the same
"""


def test_the_files() -> None:
    files = rebuild_files(rebuild("r", {}, "sha256:c", ARMS))
    assert sorted(files) == [
        "MISSING.md", "env.sh", "models.sha256", "requirements.lock", "run-baseline.sh", "run-candidate.sh",
    ]  # fmt: skip
    assert files["requirements.lock"] == REQUIREMENTS
    assert files["models.sha256"] == SUMS
    assert files["env.sh"] == ENV
    assert files["run-candidate.sh"] == RUN
    assert files["run-baseline.sh"] == RUN.replace("candidate", "baseline").replace("B=2", "B=1")
    assert files["MISSING.md"] == MISSING


def test_the_text() -> None:
    card = {"requests": {"file": {"name": "a.jsonl", "sha256": "sha256:7", "bytes": 3}}}
    text = rebuild_text(rebuild("r", card, "sha256:c", {"baseline": ARMS["baseline"]}))
    head = f"""\
rebuild of r
card sha256:c
  names a.jsonl, sha256:7: in the run under inputs/

baseline
  engine                vllm 0.32.0
  python                3.11 (told by the names of its libraries)
  model                 m from models/m
  chat_template_sha256  sha256:{"4" * 64}
  container.image       none
  host.cpu              EPYC
  host.kernel           6.1

--- requirements.lock
{REQUIREMENTS}
--- models.sha256
{SUMS}
--- env.sh
"""
    assert text.startswith(head)
    tail = text[text.index("What is missing for that") :].splitlines()
    assert tail[1] == "  the accelerators' driver: no accelerator is to be seen"
    assert tail[-1] == (
        "  the model's files: a run holds their digests, not the files: models.sha256 says whether yours are the same"
    )


def test_what_differs_has_a_file_for_each_arm() -> None:
    other = fields(**{"process.packages": observed({"numpy": {"version": "2.2.0", "record_sha256": None}})})
    files = rebuild_files(rebuild("r", {}, "c", {"baseline": fields(), "candidate": other}))
    assert files["requirements-baseline.lock"] == REQUIREMENTS
    assert files["requirements-candidate.lock"].splitlines()[2:] == ["numpy==2.2.0"]
    assert "requirements.lock" not in files


def test_a_server_that_somebody_else_runs() -> None:
    why = "the server is not started by this run"
    names = ("process.argv", "process.env", "process.packages", "model.weights_sha256")
    outside = {
        "engine.kind": {"value": "openai", "source": "declared"},
        "server.url": {"value": "http://kv-a/v1", "source": "declared"},
        "model.name": observed("m"),
        "engine.packages": observed({"vllm": "0.32.0"}),
        **{name: unknown(why) for name in names},
    }
    files = rebuild_files(rebuild("r", {}, "c", {"baseline": outside}))
    assert sorted(files) == ["MISSING.md", "requirements.lock"]
    assert files["requirements.lock"].splitlines()[2:] == ["vllm==0.32.0"]
    missing = files["MISSING.md"].splitlines()
    assert f"- the command: {why}" in missing
    assert "- the engine's version: the run is of before this was recorded" in missing


def test_a_command_cannot_break_out_of_its_script(tmp_path: Path) -> None:
    """Words of another machine are words, whatever they hold."""
    words = ["sh", "-c", 'printf "%s|" "$@"', "x", "$(touch pwned)", "`id`", "a'b", 'c"d', "e\nf", "--g", "*"]
    words.append("--port=PORT")
    odd = {"A": "$(touch pwned)'\n", "B C": "x", "D": "y"}
    arms = {"baseline": fields(**{"process.argv": observed(words), "process.env": observed(odd)})}
    for name, text in rebuild_files(rebuild("r\ntouch pwned", {}, "c", arms)).items():
        (tmp_path / name).write_text(text)
    ran = subprocess.run(["sh", "run-baseline.sh"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout == "$(touch pwned)|`id`|a'b|c\"d|e\nf|--g|*|--port=8000|"
    assert not (tmp_path / "pwned").exists()


def test_a_secret_word_is_asked_for(tmp_path: Path) -> None:
    words = ["echo", "--api-key", "[redacted]", "--x=[redacted]"]
    arms = {"baseline": fields(**{"process.argv": observed(words)})}
    for name, text in rebuild_files(rebuild("r", {}, "c", arms)).items():
        (tmp_path / name).write_text(text)
    without = subprocess.run(["sh", "run-baseline.sh"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert without.returncode != 0
    assert "a secret that the run does not record; the value of --api-key" in without.stderr
    env = {**os.environ, "SECRET_1": "s 1", "SECRET_2": "--x=s2"}
    ran = subprocess.run(["sh", "run-baseline.sh"], cwd=tmp_path, capture_output=True, text=True, check=True, env=env)
    assert ran.stdout == "--api-key s 1 --x=s2\n"


def test_the_sums_are_those_of_sha256sum(tmp_path: Path) -> None:
    contents = {"model.safetensors": b"weights", "with space.json": b"{}", "tokenizer.json": b"[]"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    digests = {name: "sha256:" + hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    changed = {"model.config_sha256": unknown("none"), "model.tokenizer_files": unknown("none")}
    arms = {"baseline": fields(**{**changed, "model.weights_sha256": observed(digests)})}
    (tmp_path / "models.sha256").write_text(rebuild_files(rebuild("r", {}, "c", arms))["models.sha256"])
    check = ["sha256sum", "--strict", "-c", "models.sha256"]
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    (tmp_path / "tokenizer.json").write_bytes(b"[ ]")
    found = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert "tokenizer.json: FAILED" in found.stdout


def test_the_scripts_start_the_engine_again(good_run: Path, tmp_path: Path) -> None:
    shown = benchcard("identity", good_run, "--rebuild", "--out", tmp_path / "again").stdout
    assert str(tmp_path / "again" / "run-candidate.sh") in shown
    port = free_port()
    env = {**os.environ, "PORT": str(port), "PYTHON": sys.executable, "LOG": str(tmp_path / "log")}
    inside = good_run / "rebuild"
    message = benchcard("identity", good_run, "--rebuild", "--out", inside, code=2).stderr
    assert message == (
        f"error: --out {inside}: it lies in the run, whose files are fixed; wanted a folder outside it\n"
    )
    assert not inside.exists()
    server = subprocess.Popen([str(tmp_path / "again" / "run-candidate.sh")], env=env, stderr=subprocess.DEVNULL)
    try:
        identity = json.loads((good_run / "identity" / "candidate.json").read_text())["fields"]
        limit = identity["model.context_limit"]["value"]
        (model,) = _ask(port, "/v1/models")["data"]
        assert (model["id"], model["max_model_len"]) == (identity["model.name"]["value"], limit)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
            assert 'enable_prefix_caching="True"' in page.read().decode()
    finally:
        server.terminate()
        server.wait(30)


def _ask(port: int, path: str) -> Any:
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as reply:
                return json.load(reply)
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_leaves_and_differences() -> None:
    assert leaves("a", {"b": {"c": 1}, "d": {}, "e": [1]}) == {"a.b.c": 1, "a.d": {}, "a.e": [1]}
    arms = {
        "baseline": {"x": observed({"a": 1, "b": 2}), "y": observed(1), "p": {**observed(1), "volatile": True}},
        "candidate": {
            "x": observed({"a": 1, "b": 3, "c": 0}), "y": unknown("w"), "p": {**observed(2), "volatile": True},
        },
    }  # fmt: skip
    assert differences(arms) == [
        {"field": "x.b", "values": {"baseline": 2, "candidate": 3}},
        {"field": "x.c", "values": {"baseline": "(absent)", "candidate": 0}},
        {"field": "y", "values": {"baseline": 1, "candidate": "(unknown)"}},
    ]
    assert unknowns(arms) == [{"field": "y", "why": "w", "arms": ["candidate"]}]


def test_the_table() -> None:
    def arm(number: int, **more: Any) -> dict[str, Any]:
        argv = ["serve", "--model", "m", "--n", str(number), *(["--x"] if number == 1 else [])]
        return {
            "engine.version": observed("1"),
            "process.argv": observed(argv),
            "process.env": observed({"A": "a", "B": str(number)}),
            "process.packages": observed({f"p{i}": {"version": "1"} for i in range(20)}),
            "process.pid": {**observed(number), "volatile": True},
            "gpu.driver": unknown("no GPU"),
            "gpu.count": unknown("no GPU"),
            **more,
        }

    arms = {"baseline": arm(1), "candidate": arm(2, pod=unknown("not told"))}
    cell = {"cell": "c", "fields": {"engine.version": observed("2"), "process.pid": {**observed(9), "volatile": True}}}
    digest = hashlib.sha256(json.dumps({f"p{i}": {"version": "1"} for i in range(20)}, sort_keys=True).encode())
    entries = f"20 entries, sha256 {digest.hexdigest()[:12]}… of them (--json shows each)"
    wide = len(entries)
    assert identity_text("r", arms, [cell, {"cell": "d", "fields": {}, "gone": []}]) == "\n".join(
        [
            "identity of r: baseline, candidate",
            "",
            "differences between the arms",
            "  field          baseline   candidate",
            "  process.argv   --n 1 --x  --n 2",
            "  process.env.B  1          2",
            "",
            "engine",
            "  engine.version  1  observed",
            "",
            "process",
            f"  {'process.argv (baseline)':<24}  {'serve --model m --n 1 --x':<{wide}}  observed",
            f"  {'process.argv (candidate)':<24}  {'serve --model m --n 2':<{wide}}  observed",
            f"  {'process.env.A':<24}  {'a':<{wide}}  observed",
            f"  {'process.packages':<24}  {entries}  observed",
            f"  {'process.pid (baseline)':<24}  {'1':<{wide}}  observed, volatile",
            f"  {'process.pid (candidate)':<24}  {'2':<{wide}}  observed, volatile",
            "",
            "2 cells were looked at",
            "  engine.version was another in 1 of them",
            "",
            "unknown",
            "  pod (candidate): not told",
            "  gpu.count, gpu.driver: no GPU",
        ]
    )


def test_one_arm() -> None:
    assert identity_text("r", {"baseline": {}}) == "identity of r: baseline\n\none arm: nothing to compare"


@pytest.mark.parametrize("run", sorted(PUBLISHED.glob("*/2*")), ids=lambda run: run.parent.name)
def test_published_runs(run: Path) -> None:
    """Of before most of it was recorded: what they have, and what they lack."""
    assert "identity of" in benchcard("identity", run).stdout
    found = json.loads(benchcard("identity", run, "--json").stdout)
    assert set(found["arms"]) == {"baseline", "candidate"} or set(found["arms"]) == {"baseline"}
    text = benchcard("identity", run, "--rebuild").stdout
    assert "the packages of the server's interpreter: the run is of before this was recorded" in text
    document = json.loads(benchcard("identity", run, "--rebuild", "--json").stdout)
    assert document["arms"]["baseline"]["command"]


def test_errors(tmp_path: Path) -> None:
    assert "--out goes with --rebuild" in benchcard("identity", tmp_path, "--out", "x", code=2).stderr
    assert "not a run" in benchcard("identity", tmp_path, code=2).stderr


def test_cells_that_were_looked_at() -> None:
    from benchcard.runner.identity.show import identity_text

    alike, other = {"cell": "a", "fields": {}}, {"cell": "b", "fields": {"node": {"value": "n"}}}
    assert identity_text("r", {"baseline": {}}, [alike]).endswith(
        "\n1 cell was looked at\n  no fact was another than when its arm was first looked at"
    )
    assert "\n2 cells were looked at\n  node was another in 1 of them" in identity_text(
        "r", {"baseline": {}}, [alike, other]
    )

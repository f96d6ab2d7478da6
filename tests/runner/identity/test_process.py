"""The server's process as the kernel tells of it: below a script, with what the script and a file gave it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchcard.runner.engines.process import free_port
from benchcard.runner.identity import procfs
from benchcard.runner.identity.digests import Digests
from benchcard.runner.identity.packages import checked_out, packages, site_folders, sources
from benchcard.runner.identity.process import Tree, environment, find, process_fields

#: listens, starts a worker with a variable of its own, and says when it is ready
SERVER = """\
import os, socket, subprocess, sys
listening = socket.create_server(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])))
worker = subprocess.Popen([sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"],
    env={**os.environ, "VLLM_DP_RANK": "1", "OMP_NUM_THREADS": "4"}, stdout=subprocess.PIPE)
worker.stdout.readline()
print("ready", flush=True)
sys.stdin.read()
worker.kill()
"""
SCRIPT = """\
export VLLM_WRAPPED=yes OMP_NUM_THREADS=2 HF_TOKEN=canary-4711-canary LMCACHE_CONFIG_FILE={config}
{python} {server} --config {config} --port {port}
true
"""


def sha(path: Path) -> str:
    return "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def wrapped(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """(process, port): a shell script that sets variables and starts the server as its child."""
    port = free_port()
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "engine.yaml").write_text("max-num-seqs: 16\napi-key: canary-4711-canary\n")
    names = {"python": sys.executable, "server": tmp_path / "server.py", "config": tmp_path / "engine.yaml"}
    (tmp_path / "serve.sh").write_text(SCRIPT.format(port=port, **names))
    process = subprocess.Popen(
        ["sh", str(tmp_path / "serve.sh")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.readline()
    yield process.pid, port
    process.stdin.close()
    process.wait(30)
    process.stdout.close()


def test_what_a_script_and_a_file_gave_the_server(wrapped: tuple[int, int], tmp_path: Path) -> None:
    pid, port = wrapped
    tree = find(pid, port)
    assert tree is not None
    assert tree.chain == (pid, tree.pid)
    assert tree.pid != pid
    assert len(tree.workers) == 1
    assert procfs.ports_of(tree.pid) == [port]
    assert find(None, port) == Tree(tree.pid, (tree.pid,), tree.workers)

    fields = process_fields(tree, Digests(tmp_path / "digests.json"))
    value: dict[str, Any] = {name: field["value"] for name, field in fields.items()}
    assert value["process.pid"] == tree.pid
    assert value["process.argv"] == [
        "python", f"{tmp_path}/server.py", "--config", f"{tmp_path}/engine.yaml",
        "--port", "PORT",
    ]  # fmt: skip
    env = value["process.env"]
    assert (env["VLLM_WRAPPED"], env["VLLM_DP_RANK"], env["OMP_NUM_THREADS"]) == ("yes", "1", "2 | 4")
    assert env["HF_TOKEN"] == "[redacted]"
    assert value["process.files"] == {
        f"{tmp_path}/serve.sh": sha(tmp_path / "serve.sh"),
        f"{tmp_path}/server.py": sha(tmp_path / "server.py"),
        f"{tmp_path}/engine.yaml": sha(tmp_path / "engine.yaml"),
        "LMCACHE_CONFIG_FILE": sha(tmp_path / "engine.yaml"),
        f"settings of {tmp_path}/engine.yaml": {"max-num-seqs": 16, "api-key": "[redacted]"},
    }
    assert value["process.executable_sha256"] == sha(Path(sys.executable).resolve())
    assert any(name.startswith(("libc.so", "libc-", "ld-")) for name in value["process.libraries"])
    assert value["process.packages"]["pytest"]["version"] == pytest.__version__
    assert "canary" not in json.dumps(fields)
    assert sorted(name for name, field in fields.items() if field.get("volatile")) == ["process.pid", "process.started"]


def test_a_process_that_is_gone(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert find(process.pid, 1) is None
    fields = process_fields(Tree(process.pid, (process.pid,), ()), Digests(tmp_path / "d.json"))
    assert {field["source"] for field in fields.values()} == {"unknown"}


def test_nobody_listens() -> None:
    assert find(None, free_port()) is None


def test_a_library_that_was_replaced_has_no_digest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "libx.so").write_text(folder)
    (tmp_path / "liby.so").write_text("y")
    maps = {f"{tmp_path}/a/libx.so", f"{tmp_path}/b/libx.so", f"{tmp_path}/liby.so", f"{tmp_path}/libz.so (deleted)"}
    monkeypatch.setattr(procfs, "mapped_files", lambda pid: maps)
    me = os.getpid()
    found = process_fields(Tree(me, (me,), ()), Digests(tmp_path / "d.json"))["process.libraries"]["value"]
    # Two of one name that differ are told by their folders.
    assert found == {
        "a/libx.so": sha(tmp_path / "a/libx.so"), "b/libx.so": sha(tmp_path / "b/libx.so"),
        "liby.so": sha(tmp_path / "liby.so"), "libz.so": None,
    }  # fmt: skip


def test_workers_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    envs = {1: {"A": "1", "B": "x"}, 2: {"A": "1", "RANK": "0"}, 3: {"A": "2", "RANK": "1"}, 4: {}}
    monkeypatch.setattr(procfs, "environment", lambda pid: envs[pid])
    assert environment(Tree(1, (1,), (2, 3, 4))) == {"A": "1 | 2", "B": "x", "RANK": "0 | 1"}


def test_a_stat_line_with_a_name_of_any_kind() -> None:
    found = procfs.stat(os.getpid())
    assert found is not None
    assert (found.pid, found.parent) == (os.getpid(), os.getppid())
    began = time.clock_gettime(time.CLOCK_BOOTTIME) - found.started / os.sysconf("SC_CLK_TCK")
    assert began > 0


def test_packages_as_an_import_would_find_them(tmp_path: Path) -> None:
    def install(folder: str, name: str, origin: dict[str, Any] | None = None, record: str | None = "r") -> None:
        info = tmp_path / folder / f"{name}.dist-info"
        info.mkdir(parents=True)
        if record is not None:
            (info / "RECORD").write_text(record)
        if origin is not None:
            (info / "direct_url.json").write_text(json.dumps(origin))

    repository = tmp_path / "checkout"
    (repository / ".git/refs/heads").mkdir(parents=True)
    (repository / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (repository / ".git/refs/heads/main").write_text("c0ffee\n")
    install("first", "vllm-0.9.2", {"url": "https://x", "vcs_info": {"vcs": "git", "commit_id": "abc"}})
    install("first", "Typing_Extensions-4.1")
    install("second", "vllm-0.1.0")
    install("second", "mine-1.0", {"url": f"file://{repository}", "dir_info": {"editable": True}}, None)
    digest = "sha256:" + hashlib.sha256(b"r").hexdigest()
    assert packages([tmp_path / "first", tmp_path / "second"], Digests(tmp_path / "d.json")) == {
        "mine": {"version": "1.0", "record_sha256": None, "why": "no RECORD", "editable": True, "commit": "c0ffee"},
        "typing-extensions": {"version": "4.1", "record_sha256": digest},
        "vllm": {"version": "0.9.2", "record_sha256": digest, "commit": "abc"},
    }
    (repository / ".git/refs/heads/main").unlink()
    (repository / ".git/packed-refs").write_text("# pack-refs\ndecaf refs/heads/main\n")
    assert checked_out(repository) == "decaf"
    (repository / ".git/HEAD").write_text("beef\n")
    assert checked_out(repository) == "beef"
    assert checked_out(tmp_path) is None


def test_an_engine_that_was_edited_after_it_was_installed(tmp_path: Path) -> None:
    """No RECORD tells of it: the part of the package is named. In an editable folder likewise."""
    site, digests = tmp_path / "site-packages", Digests(tmp_path / "digests.json")
    for name in ("vllm/__init__.py", "vllm/v1/core/sched.py", "vllm/v1/a.py", "vllm/config/b.py", "vllm/v1/notes.txt"):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(name)
    before = sources([site], digests)
    files = [site / "vllm" / name for name in ("v1/a.py", "v1/core/sched.py")]
    lines = "".join(f"{file.relative_to(site / 'vllm')} {sha(file)}\n" for file in files)
    assert before["vllm.v1"] == "sha256:" + hashlib.sha256(lines.encode()).hexdigest()
    assert set(before) == {"vllm", "vllm.v1", "vllm.config"}
    (site / "vllm/v1/core/sched.py").write_text("another")
    (site / "vllm/v1/notes.txt").write_text("another")
    after = sources([site], digests)
    assert [part for part in before if before[part] != after[part]] == ["vllm.v1"]
    other = tmp_path / "other"
    (other / "vllm-1.dist-info").mkdir(parents=True)
    origin = {"url": f"file://{site}", "dir_info": {"editable": True}}
    (other / "vllm-1.dist-info/direct_url.json").write_text(json.dumps(origin))
    assert sources([other], digests) == after
    # one that cannot be read is there all the same
    (site / "vllm/v1/core/gone.py").symlink_to(tmp_path / "nowhere")
    assert [part for part in after if after[part] != sources([site], digests)[part]] == ["vllm.v1"]
    assert sources([tmp_path], digests) == {}


def test_folders_that_a_pth_file_or_the_system_adds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("venv/bin", "venv/lib/python3.11/site-packages", "base/lib/python3.11/site-packages", "shared", "own"):
        (tmp_path / name).mkdir(parents=True)
    site = tmp_path / "venv/lib/python3.11/site-packages"
    (site / "a.pth").write_text(f"# a comment\nimport sys\n{tmp_path}/shared\n{tmp_path}/nowhere\n\n")
    (tmp_path / "venv/pyvenv.cfg").write_text(f"home = {tmp_path}/base/bin\ninclude-system-site-packages = true\n")
    monkeypatch.setattr(procfs, "command_line", lambda pid: [f"{tmp_path}/venv/bin/python3", "-m", "x"])
    monkeypatch.setattr(procfs, "environment", lambda pid: {"PYTHONPATH": f"{tmp_path}/own:{tmp_path}/none"})
    base = tmp_path / "base/lib/python3.11/site-packages"
    assert site_folders(os.getpid(), {f"{site}/x/y.so", "/usr/lib/libc.so.6"}) == [
        tmp_path / "own", site, base, tmp_path / "shared",
    ]  # fmt: skip

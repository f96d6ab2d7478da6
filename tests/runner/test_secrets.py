"""Canary secrets in the environment, headers, addresses and errors: in no byte of the bundle, the log, the terminal."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from urllib.parse import quote

import polars as pl
import pytest

from .cards import LAX, benchcard, kill, only_run, small_card, start_benchcard, wait_gone
from .echo_server import echo_server

LOUD = Path(__file__).parent / "loud.py"

#: secrets in the environment of whoever starts the run: each has its own canary
ENVIRONMENT = {
    "MY_API_KEY": "sk-canary-aaa-1111",
    "AWS_SECRET_ACCESS_KEY": "CANARYbbb/2222+x=",
    "HF_TOKEN": "hf_canaryccc3333ddd",
    "OPENAI_API_KEY": "canary.ddd*[4444](+)",
    "FOO": "canary-eee-5555-innocent",
    "PLAIN": "canaryfff",  # neither its name nor its look speaks of a secret
    "PGPASSWORD": 'canary"ggg\\7777',
    "HTTPS_PROXY": "http://user:canary-hhh-8888@127.0.0.1:1",
    "PIP_INDEX_URL": "https://host/simple?api_key=canary-iii-9999&x=1",
    "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer canary-jjj-1010",
    "CREDENTIALS_JSON": json.dumps({"private_key": "canaryKKKK1111\ncanaryLLLL1212\n", "client": "x"}),
    "SHORT_KEY": "cnry9",
}
#: a word of its own in a log; encoded, nobody can know it
WORD = "canaryfff"
#: what may stand nowhere
CANARIES = [
    "canary-aaa-1111", "CANARYbbb/2222+x=", "canaryccc3333ddd", "canary.ddd*[4444](+)", "canary-eee-5555-innocent",
    'canary"ggg\\7777', "canary-hhh-8888", "canary-iii-9999", "canary-jjj-1010", "canaryKKKK1111",
    "canaryLLLL1212",
]  # fmt: skip


def forms(canary: str) -> set[bytes]:
    """In which forms it is looked for, found without the program's help: what base64 gives at each of three places,
    less a group of characters at each end."""
    raw = canary.encode()
    pieces = {base64.b64encode(b"-" * shift + raw)[4:-4] for shift in range(3)}
    return {raw, quote(canary, safe="").encode(), json.dumps(canary)[1:-1].encode(), raw.hex().encode(), *pieces}


def texts_of(root: Path) -> dict[str, bytes]:
    """Every file below a folder as bytes, and what is packed in it: the columns of Parquet, the files of archives."""
    found = {}
    for file in sorted(path for path in root.rglob("*") if path.is_file()):
        name = str(file.relative_to(root))
        found[name] = file.read_bytes()
        if name.endswith((".parquet", ".parquet.killed")):
            found[f"{name} (read)"] = pl.read_parquet(file).write_ndjson().encode()
        if name.endswith(".zip"):
            with zipfile.ZipFile(file) as archive:
                found |= {f"{name}/{part}": archive.read(part) for part in archive.namelist()}
    return found


def leaks(where: dict[str, bytes], canaries: list[str]) -> list[str]:
    """Which canary stands where, in which form, in any case."""
    lowered = {name: data.lower() for name, data in where.items()}
    wanted = {form for canary in canaries for form in forms(canary)} | {WORD.encode()}
    return [f"{name}: {form.decode()}" for name, data in lowered.items() for form in wanted if form.lower() in data]


def said(result: subprocess.CompletedProcess[str]) -> dict[str, bytes]:
    return {"stdout": result.stdout.encode(), "stderr": result.stderr.encode()}


def loud_card(folder: Path, die: str = "", **changes: str) -> Path:
    """The small card with a server that prints its environment first."""
    path = small_card(folder, spares="0", restart="never", **changes)
    words = [sys.executable, str(LOUD), *([die] if die else []), "--port", "{port}", "--speedup", "10"]
    words += ["--served-model-name", "atlas-70b", "--max-model-len", "32768"]
    path.write_text(path.read_text().replace("launch: {", f"launch: {{command: {json.dumps(words)}, "))
    return path


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))


def test_the_search_finds_what_is_there(tmp_path: Path) -> None:
    """Else an empty list would say nothing."""
    pl.DataFrame({"error": ["x canary-aaa-1111"] * 3}).write_parquet(tmp_path / "a.parquet", compression="zstd")
    (tmp_path / "b").write_bytes(base64.b64encode(b"user:CANARYbbb/2222+x="))
    found = leaks(texts_of(tmp_path), CANARIES)
    assert "a.parquet (read): canary-aaa-1111" in found
    assert any(line.startswith("b: ") for line in found)


@pytest.mark.usefixtures("environment")
def test_a_launched_server_that_prints_its_environment(tmp_path: Path) -> None:
    shown = said(benchcard("run", loud_card(tmp_path), "--out", tmp_path / "runs"))
    run = only_run(tmp_path / "runs")
    for arguments in (["audit", run, "--json"], ["verdict", run, "--json"], ["report", run], ["audit", run]):
        result = benchcard(*arguments)
        shown |= {f"{arguments[0]} {name}": text for name, text in said(result).items()}
    assert leaks(texts_of(run) | texts_of(tmp_path / "tmp") | shown, CANARIES) == []
    log = next((run / "logs").glob("*.log")).read_text()
    # Something was said, and was masked; what is no secret is there. The short one is masked beside its name.
    for name in ENVIRONMENT:
        assert f"{name}=" in log
    assert "SHORT_KEY=[redacted]" in log
    assert "PLAIN=[redacted]" in log
    assert "last words [redacted]" in log
    assert "serving atlas-70b on http://127.0.0.1:" in log


@pytest.mark.usefixtures("environment")
def test_a_server_that_dies_with_a_secret_on_its_lips(tmp_path: Path) -> None:
    """The end of its log is in the message."""
    result = benchcard("run", loud_card(tmp_path, "die"), "--out", tmp_path / "runs", code=3)
    run = only_run(tmp_path / "runs")
    assert "the server exited with code 7 before it was ready; the end of its log" in result.stderr
    assert "last words [redacted]" in result.stderr
    assert leaks(texts_of(run) | texts_of(tmp_path / "tmp") | said(result), CANARIES) == []


@pytest.mark.usefixtures("environment")
def test_a_run_that_is_killed_leaves_no_secret_in_a_log(tmp_path: Path) -> None:
    process = start_benchcard("run", loud_card(tmp_path, measure="10 s"), "--out", tmp_path / "runs")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if any("serving" in log.read_text() for log in (tmp_path / "runs").glob("*/*/logs/*.log")):
            break
        time.sleep(0.1)
    run = only_run(tmp_path / "runs")
    assert leaks(texts_of(run), CANARIES) == []
    kill(process, signal.SIGKILL)
    assert wait_gone(run) == []
    assert "serving" in next((run / "logs").glob("*.log")).read_text()
    assert leaks(texts_of(run) | texts_of(tmp_path / "tmp"), CANARIES) == []


OUTSIDE = """\
card: 1
kind: baseline
id: outside
decision: {{question: "Does a key leak?", owner: tests, budget: 2 h}}
system: {{engine: {{kind: openai}}, model: {{name: m}}}}
arms: {{baseline: {{server: {{url: "http://127.0.0.1:{port}", api_key: {key}}}}}}}
workload:
  arrivals: {{process: closed}}
  concurrency: [1, 2]
  endpoint: {endpoint}
  window: {{warmup: 2 requests, measure: 20 requests}}
  requests: {{lengths: {{input: 20, output: 4}}}}
method: {{repeats: 2, seed: 3, spare_blocks: 0, pause_between_cells: 0 s}}
validity: {{clock_ratio: 90%, client_cpu: 100%, {lax}}}
"""


def outside_card(folder: Path, port: int, key: str, endpoint: str = "completions") -> Path:
    path = folder / "card.yaml"
    path.write_text(OUTSIDE.format(port=port, key=key, endpoint=endpoint, lax=LAX))
    return path


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    ("source", "key"),
    [("{env: OPENAI_API_KEY}", "canary.ddd*[4444](+)"), ("{file: key.txt}", "fileCanary/zz+77==")],
)
def test_a_server_that_echoes_its_key(source: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "key.txt").write_text(f"{key}\n")
    with echo_server() as port:
        card = outside_card(tmp_path, port, source, "chat" if "env" in source else "completions")
        shown = said(benchcard("run", card, "--out", "runs"))
    run = only_run(tmp_path / "runs")
    shown |= said(benchcard("audit", run, "--json", code=None))
    assert leaks(texts_of(run) | texts_of(tmp_path / "tmp") | shown, [*CANARIES, key]) == []
    events = pl.concat(pl.read_parquet(file) for file in sorted((run / "events").glob("*.parquet")))
    errors = set(events.filter(pl.col("outcome").is_in(["http_error", "stream_error"]))["error"])
    assert "Incorrect API key provided: [redacted]. You sent Authorization: Bearer [redacted]" in errors
    assert "lost [redacted]" in errors
    assert "wrong [redacted]" in errors  # it came in two reads
    assert set(events["fingerprint"].drop_nulls()) == {"fp_[redacted]"}
    assert "stop [redacted]" in set(events["finish_reason"])
    server = pl.concat(pl.read_parquet(file) for file in sorted((run / "telemetry").glob("server-*.parquet")))
    assert '{"k":"[redacted]"}' in set(server["labels"])


@pytest.mark.usefixtures("environment")
def test_a_run_that_is_killed_holds_no_answer_as_it_came(tmp_path: Path) -> None:
    key = ENVIRONMENT["MY_API_KEY"]
    with echo_server(pause=0.05) as port:
        card = outside_card(tmp_path, port, "{env: MY_API_KEY}")
        card.write_text(card.read_text().replace("measure: 20 requests", "measure: 100 requests"))
        process = start_benchcard("run", card, "--out", tmp_path / "runs")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if any(spool.stat().st_size for spool in (tmp_path / "runs").glob("*/.*.unfinished/*.spool")):
                break
            time.sleep(0.05)
        kill(process, signal.SIGKILL)
        run = only_run(tmp_path / "runs")
        assert leaks(texts_of(run), [*CANARIES, key]) == []
        result = benchcard("run", "--resume", run, code=None)
    assert list((run / "events").glob("*.killed")) != []
    assert not list(run.parent.glob(".*"))
    assert leaks(texts_of(run) | texts_of(tmp_path / "tmp") | said(result), [*CANARIES, key]) == []


@pytest.mark.usefixtures("environment")
def test_a_server_that_does_not_match_and_echoes_its_key(tmp_path: Path) -> None:
    """Exit 3: what it said is in the message."""
    key = ENVIRONMENT["MY_API_KEY"]
    with echo_server(version="2 KEY") as port:
        card = outside_card(tmp_path, port, "{env: MY_API_KEY}")
        card.write_text(card.read_text().replace("{kind: openai}", "{kind: openai, version: 1.0.0}"))
        first = benchcard("run", card, "--out", tmp_path / "runs", code=3)
        assert "engine version 2 [redacted]; the card says 1.0.0" in first.stderr
        card.write_text(card.read_text().replace(", version: 1.0.0", "").replace("name: m}", "name: another}"))
        second = benchcard("run", card, "--out", tmp_path / "more", code=3)
        assert "the server has the models m, other-[redacted]; the card says another" in second.stderr
    shown = {**said(first), **{f"second {k}": v for k, v in said(second).items()}}
    assert leaks(texts_of(tmp_path / "runs") | texts_of(tmp_path / "more") | shown, [*CANARIES, key]) == []


@pytest.mark.usefixtures("environment")
def test_a_card_that_holds_a_secret_is_not_run(tmp_path: Path) -> None:
    path = small_card(tmp_path)
    path.write_text(path.read_text() + f"# the key is {ENVIRONMENT['HF_TOKEN']}\n")
    result = benchcard("run", path, "--out", tmp_path / "runs", code=2)
    assert "the value of the environment variable HF_TOKEN, which is not shown" in result.stderr
    assert not (tmp_path / "runs").exists()
    assert leaks(said(result), CANARIES) == []


BUG = """\
import benchcard.runner.cli.validate as module, click, os
from benchcard.runner.cli import main
@click.command()
@click.argument("card")
def broken(card):
    raise RuntimeError(f"lost {os.environ['HF_TOKEN']} and {os.environ['HTTPS_PROXY']}")
module.command = broken
import sys
sys.argv = ["benchcard", "validate", "x"]
main()
"""


@pytest.mark.usefixtures("environment")
def test_a_bug_is_reported_without_secrets(tmp_path: Path) -> None:
    result = subprocess.run([sys.executable, "-c", BUG], capture_output=True, text=True, check=False, env=os.environ)
    assert result.returncode == 4
    assert "RuntimeError: lost [redacted] and http://[redacted]@127.0.0.1:1" in result.stderr
    (report,) = (tmp_path / "tmp").glob("benchcard-bug-*.txt")
    assert "Traceback" in report.read_text()
    assert leaks(texts_of(tmp_path / "tmp") | said(result), CANARIES) == []


def test_a_key_that_can_be_ordinary_text_spoils_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`baseline` is a password here: the run is whole, and its records say what they are."""
    monkeypatch.setenv("MY_API_KEY", "baseline")
    with echo_server(kinds=("fine",)) as port:
        card = outside_card(tmp_path, port, "{env: MY_API_KEY}")
        result = benchcard("run", card, "--out", tmp_path / "runs")
    run = only_run(tmp_path / "runs")
    assert "outside" in result.stdout
    assert benchcard("audit", run).stdout.splitlines()[-1] == "nothing failed"
    assert (run / "identity" / "baseline.json").exists()

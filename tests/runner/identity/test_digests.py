"""Digests that are remembered: read once, and read again when the file changed, whatever its mtime says."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path

import pytest
from benchcard.runner.identity import digests
from benchcard.runner.identity.digests import Digests, cache_file


def sha(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file is so young that it might change within one tick."""
    monkeypatch.setattr(digests, "_RACY_NS", -60_000_000_000)


@pytest.mark.usefixtures("settled")
def test_a_file_is_read_once(tmp_path: Path) -> None:
    file, cache = tmp_path / "weights", tmp_path / "cache" / "digests.json"
    file.write_bytes(b"abc")
    first = Digests(cache)
    assert [first.of(file), first.of(file)] == [sha(b"abc")] * 2
    assert first.hashed == 3
    first.keep()
    again = Digests(cache)
    assert again.of(file) == sha(b"abc")
    assert again.hashed == 0


@pytest.mark.usefixtures("settled")
def test_a_file_whose_mtime_was_set_back_is_read_again(tmp_path: Path) -> None:
    file, cache = tmp_path / "weights", tmp_path / "digests.json"
    file.write_bytes(b"abc")
    first = Digests(cache)
    first.of(file)
    first.keep()
    before = file.stat()
    time.sleep(0.02)  # the file system's clock moves in ticks
    with file.open("rb+") as opened:
        opened.write(b"abd")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = file.stat()
    assert (after.st_mtime_ns, after.st_size, after.st_ino) == (before.st_mtime_ns, before.st_size, before.st_ino)
    assert Digests(cache).of(file) == sha(b"abd")


def test_a_file_that_changed_just_now_is_not_remembered(tmp_path: Path) -> None:
    file, cache = tmp_path / "weights", tmp_path / "digests.json"
    file.write_bytes(b"abc")
    first = Digests(cache)
    first.of(file)
    first.keep()
    assert not cache.exists()


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize(
    "spoilt", [b"", b"{", b"[]", b'{"version": 1, "files": {"x": 3}}', b'{"version": 99, "files": {}}']
)
def test_a_spoilt_cache_is_as_good_as_none(tmp_path: Path, spoilt: bytes) -> None:
    file, cache = tmp_path / "weights", tmp_path / "digests.json"
    file.write_bytes(b"abc")
    cache.write_bytes(spoilt)
    found = Digests(cache)
    assert found.of(file) == sha(b"abc")
    found.keep()
    assert json.loads(cache.read_text())["version"] == 1


@pytest.mark.usefixtures("settled")
def test_a_cache_that_cannot_be_written_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    found = Digests(tmp_path / "file" / "digests.json")
    assert found.of(tmp_path / "file") == sha(b"abc")
    found.keep()


@pytest.mark.usefixtures("settled")
def test_two_runs_keep_what_both_have_read(tmp_path: Path) -> None:
    cache = tmp_path / "digests.json"
    both = [Digests(cache), Digests(cache)]
    for number, each in enumerate(both):
        (tmp_path / str(number)).write_bytes(b"x" * (number + 1))
        each.of(tmp_path / str(number))
    for each in both:
        each.keep()
    last = Digests(cache)
    assert [last.of(tmp_path / "0"), last.of(tmp_path / "1")] == [sha(b"x"), sha(b"xx")]
    assert last.hashed == 0


def test_where_the_cache_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_file() == Path("/somewhere/benchcard/digests.json")
    # The XDG specification has a relative path ignored.
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    assert cache_file() == Path.home() / ".cache/benchcard/digests.json"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_file() == Path.home() / ".cache/benchcard/digests.json"

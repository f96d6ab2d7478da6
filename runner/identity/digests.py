"""Digests of files, remembered from run to run, so that a model of 100 GB is read once.

The cache, ~/.cache/benchcard/digests.json (XDG_CACHE_HOME is honoured), belongs to this machine and enters no bundle.
An entry holds for a path as long as device, inode, size, mtime and ctime stay as they were. A user can set the mtime of
a changed file back, but not its ctime. A file that changed within the last seconds is not remembered: a second change
could fall into the same tick of the file system's clock (in git's index such an entry is "racily clean").
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from pathlib import Path
from typing import Any

from ...schema.digest import digest_file

_RACY_NS = 2_000_000_000
_VERSION = 1
#: entries that are kept
_MOST = 20_000
#: the file system of another process, as /proc shows it
_ROOT = re.compile(r"^/proc/\d+/root")


def cache_file() -> Path:
    """Where the digests are remembered."""
    base = os.environ.get("XDG_CACHE_HOME") or ""
    folder = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return folder / "benchcard" / "digests.json"


class Digests:
    """Digests of files, with the memory of earlier ones. `hashed` counts the bytes that were read for them."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = cache_file() if file is None else file
        self._known = _read(self._file)
        self._new: dict[str, list[Any]] = {}
        self.hashed = 0

    def of(self, path: Path) -> str:
        """`sha256:…` of a file's bytes. Raises OSError if it cannot be read."""
        before = os.stat(path)
        key = f"{before.st_dev}:{before.st_ino}:{_ROOT.sub('', str(path))}"
        entry = self._new.get(key) or self._known.get(key)
        if entry is not None and entry[:-1] == _state(before):
            return str(entry[-1])
        begun = time.time_ns()
        digest = digest_file(path)
        after = os.stat(path)
        self.hashed += after.st_size
        racy = max(after.st_mtime_ns, after.st_ctime_ns) > begun - _RACY_NS
        if _state(after) == _state(before) and not racy:
            self._new[key] = [*_state(before), digest]
        return digest

    def keep(self) -> None:
        """Remember what was read. A cache that cannot be written is no fault: the files are read again."""
        if not self._new:
            return
        # Another run may have written meanwhile; the oldest entries are forgotten.
        known = {**_read(self._file), **self._new}
        known = dict(list(known.items())[-_MOST:])
        temporary = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps({"version": _VERSION, "files": known}))
            temporary.replace(self._file)
        self._known, self._new = known, {}


def _state(found: os.stat_result) -> list[int]:
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def _read(file: Path) -> dict[str, list[Any]]:
    try:
        document = json.loads(file.read_bytes())
        files = document["files"] if document["version"] == _VERSION else {}
        return {path: entry for path, entry in files.items() if isinstance(entry, list) and len(entry) == 4}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}

"""The bundle: the directory of one run, its layout, and the manifest of what is in it."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..schema.digest import digest_file
from ..schema.errors import BundleError, InputError
from ..schema.versions import MANIFEST_VERSION, PLAN_VERSION, require_version
from .files import read_json, write_bytes, write_json

#: files made from the evidence; everything else in a bundle is evidence
DERIVED = (
    "verdict.json",
    "inference_baseline.json",
    "pilot.json",
    "REPORT.md",
    "report.html",
    "reproduction.json",
    "series/",
)

#: kinds of a cell's telemetry; `start` where starts are what the card measures (workload.test: cold_start), `host` in
#: none that was played in virtual time or before there was one
TELEMETRY = ("client", "server", "start", "host")
#: those that a cell may be without
OPTIONAL_TELEMETRY = ("start", "host")


@dataclass(frozen=True)
class Bundle:
    """Paths within a run's directory."""

    root: Path

    @property
    def name(self) -> str:
        """The run's id: its directory's name."""
        return self.root.name

    @property
    def card(self) -> Path:
        """card.yaml, as written."""
        return self.root / "card.yaml"

    @property
    def resolved(self) -> Path:
        """The card with every default."""
        return self.root / "card.resolved.json"

    @property
    def log(self) -> Path:
        """The attempt log."""
        return self.root / "attempts.jsonl"

    @property
    def plan(self) -> Path:
        """plan.json."""
        return self.root / "plan.json"

    @property
    def manifest(self) -> Path:
        """SHA-256 of every file."""
        return self.root / "manifest.json"

    @property
    def unfinished(self) -> Path:
        """The folder of working files. It stands beside the run, since they hold what servers answered as it came."""
        return self.root.with_name(f".{self.root.name}.unfinished")

    def working_file(self, name: str) -> Path:
        """A working file's path; its folder is there afterwards."""
        self.unfinished.mkdir(exist_ok=True)
        return self.unfinished / name

    def drop_unfinished(self, pattern: str) -> None:
        """Remove the working files of a pattern, and their folder with the last of them."""
        for path in self.unfinished.glob(pattern):
            path.unlink()
        if self.unfinished.is_dir() and not any(self.unfinished.iterdir()):
            self.unfinished.rmdir()

    @property
    def logs(self) -> Path:
        """The folder of server logs."""
        return self.root / "logs"

    def events(self, cell: str) -> Path:
        """The cell's event file."""
        return self.root / "events" / f"{cell}.parquet"

    def telemetry(self, kind: str, cell: str) -> Path:
        """The cell's telemetry of a kind: client, server, start or host."""
        return self.root / "telemetry" / f"{kind}-{cell}.parquet"

    def quality(self, gate: str) -> Path:
        """The item table of a kind of quality gate."""
        return self.root / "quality" / f"{gate}.parquet"

    def identity(self, arm: str) -> Path:
        """What the arm was."""
        return self.root / "identity" / f"{arm}.json"

    def cell_identity(self, cell: str) -> Path:
        """In what the arm was not as it was first, before a cell."""
        return self.root / "identity" / "cells" / f"{cell}.json"

    def certificate(self, number: int) -> Path:
        """The instrument's certificate of a sitting, counted from 1."""
        return self.root / "instrument" / f"{number}.json"

    @property
    def is_pilot(self) -> bool:
        """Whether it is a pilot: it has no verdict, and its data enter none."""
        return bool(read_json(self.plan).get("pilot"))

    @property
    def analysis_command(self) -> str:
        """What the analysis is asked to make of it."""
        return "pilot" if self.is_pilot else "verdict"

    def result(self) -> Path:
        """verdict.json; inference_baseline.json for a baseline card, pilot.json for a pilot."""
        if self.is_pilot:
            return self.root / "pilot.json"
        kind = read_json(self.resolved)["kind"]
        return self.root / ("inference_baseline.json" if kind == "baseline" else "verdict.json")

    def archives(self) -> list[Path]:
        """The archived analysis revisions."""
        return sorted((self.root / "analysis").glob("*.zip"))


def open_bundle(path: Path) -> Bundle:
    """The bundle at a path. Raises BundleError if it is none, or of a newer format."""
    bundle = Bundle(path.resolve())
    for needed in (bundle.resolved, bundle.plan, bundle.log):
        if not needed.exists():
            raise BundleError(
                f"{path}: not a run: it has no {needed.name}; wanted a directory that `benchcard run` wrote"
            )
    try:
        require_version(str(bundle.plan), read_json(bundle.plan).get("plan_version"), PLAN_VERSION)
    except (ValueError, AttributeError):
        raise BundleError(f"{bundle.plan}: not a plan: it cannot be read as JSON") from None
    return bundle


def new_bundle(out: Path, card_id: str, card_digest: str, mark: str = "") -> Bundle:
    """An empty bundle runs/<card id>/<UTC start>-<card digest, 8 hex><mark>/."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    root = out / card_id / f"{stamp}-{card_digest.removeprefix('sha256:')[:8]}{mark}"
    try:
        root.mkdir(parents=True)
        for folder in ("plan", "events", "telemetry", "identity", "instrument", "logs", "analysis"):
            (root / folder).mkdir()
    except FileExistsError:
        raise InputError(f"{root} exists already: two runs of one card cannot start in the same second") from None
    except OSError as error:
        raise InputError(f"cannot create {root}: {error.strerror}") from None
    return Bundle(root.resolve())


def archive_source(source: Path, bundle: Bundle, revision: str) -> None:
    """Keep the analysis's source in the bundle, as a zip whose bytes depend on nothing but the source."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(source.rglob("*.py")):
            info = zipfile.ZipInfo(f"analysis/{file.relative_to(source).as_posix()}", (1980, 1, 1, 0, 0, 0))
            info.external_attr = 0o644 << 16
            archive.writestr(info, file.read_bytes(), zipfile.ZIP_DEFLATED)
    write_bytes(bundle.root / "analysis" / f"{revision.removeprefix('sha256:')[:16]}.zip", content.getvalue())


def bundle_files(bundle: Bundle) -> Iterator[str]:
    """Every file of the bundle but the manifest, as a relative POSIX path, sorted. Temporary files are not part of
    it."""
    for file in sorted(bundle.root.rglob("*")):
        relative = file.relative_to(bundle.root).as_posix()
        if file.is_file() and file != bundle.manifest and not file.name.startswith("."):
            yield relative


def write_manifest(bundle: Bundle) -> None:
    """SHA-256 of every file, evidence apart from what is derived from it."""
    digests = {name: digest_file(bundle.root / name) for name in bundle_files(bundle)}
    derived = {name: value for name, value in digests.items() if name.startswith(DERIVED)}
    document: dict[str, Any] = {
        "manifest_version": MANIFEST_VERSION,
        "run": bundle.name,
        "evidence": {name: value for name, value in digests.items() if name not in derived},
        "derived": derived,
    }
    write_json(bundle.manifest, document)

"""The checks of an audit: each a function from a context to the faults it found, in one registry.

A check says what cannot be trusted and why. It never repairs, and one check's failure keeps no other from running.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...schema.card import load_card
from ...schema.digest import digest_file, digest_json
from ...schema.editions import without_later_keys
from ...schema.errors import BenchcardError, CardError
from ..attempts import chain_faults
from ..bundle import TELEMETRY, bundle_files
from ..engines.launch import is_cold_start
from ..files import read_json
from ..identity.refusal import ENDED_BY_IDENTITY
from ..inputs import kept_by_name
from ..plan.plan import LATER_COLUMNS
from .context import Context
from .differences import differences
from .procedure import identity, order, replacements
from .quality import quality

if TYPE_CHECKING:
    import polars as pl

_MOST_DIFFERENCES = 12


@dataclass(frozen=True)
class Check:
    """A named check and what it proves."""

    name: str
    meaning: str
    faults: Callable[[Context], Iterator[str]]


def manifest(context: Context) -> Iterator[str]:
    """Every file is the one whose digest the manifest holds; none is missing, none was added."""
    if not context.bundle.manifest.exists():
        yield "manifest.json is missing: the run was not finished, or the file was removed"
        return
    document = read_json(context.bundle.manifest)
    listed = {**document["evidence"], **document["derived"]}
    present = set(bundle_files(context.bundle))
    for name in sorted(set(listed) - present):
        yield f"{name}: missing"
    for name in sorted(present - set(listed)):
        yield f"{name}: not in the manifest"
    for name in sorted(present & set(listed)):
        if digest_file(context.bundle.root / name) != listed[name]:
            yield f"{name}: changed since the manifest was written"


def attempt_log(context: Context) -> Iterator[str]:
    """The chain of the attempt log is whole: no line was changed, removed or moved."""
    yield from (f"attempts.jsonl: {fault}" for fault in chain_faults(context.log))
    if not context.log or context.log[0].get("kind") != "run_started":
        yield "attempts.jsonl: does not begin with run_started"


def complete(context: Context) -> Iterator[str]:
    """The run came to its end: every planned block, or the last spare, or systems that are not the ones of the card
    (then its verdict is invalid, and says so)."""
    ended = context.lines("run_ended")
    if not ended:
        yield "incomplete: the log has no run_ended; the run was stopped, and can be resumed"
        return
    why = str(ended[-1].get("why"))
    if why.startswith(ENDED_BY_IDENTITY):
        rows = context.result_again.get("identity", {}).get("rows", [])
        if not context.bundle.is_pilot and not any(row["word"] == "forbidden" for row in rows):
            yield f"incomplete: the log says {why!r}, and the identity files show no forbidden difference"
    elif not why.startswith(("complete", "no spare block left")):
        yield f"incomplete: {why}"


def events(context: Context) -> Iterator[str]:
    """Every event and telemetry file is the one that was written when its cell ended."""
    ended = {line["cell"]: line for line in context.lines("cell_ended")}
    if len(ended) != len(context.lines("cell_ended")):
        yield "attempts.jsonl: a cell ended twice"
    for cell, line in ended.items():
        path = context.bundle.events(cell)
        if not path.exists():
            yield f"events/{path.name}: missing, though the log says that the cell ended"
        elif digest_file(path) != line["events_sha256"]:
            yield f"events/{path.name}: not the file that was written when the cell ended"
        if is_cold_start(context.card) and "start_sha256" not in line:
            yield f"attempts.jsonl: cell {cell} ended without the start of its server, which a cold start is about"
        for kind in TELEMETRY:
            telemetry = context.bundle.telemetry(kind, cell)
            # A log from before the digests of telemetry were in it has none to hold the file against.
            if f"{kind}_sha256" in line and (
                not telemetry.exists() or digest_file(telemetry) != line[f"{kind}_sha256"]
            ):
                yield f"telemetry/{telemetry.name}: not the file that was written when the cell ended"
    for line in context.lines("calibrated"):
        certificate = context.bundle.certificate(line["certificate"])
        if not certificate.exists() or digest_file(certificate) != line["sha256_of_file"]:
            yield f"instrument/{certificate.name}: not the certificate that was made before the sitting's first cell"
    for path in sorted((context.bundle.root / "events").glob("*.parquet")):
        if path.stem not in ended:
            yield f"events/{path.name}: the log knows of no such cell that ended"


def card(context: Context) -> Iterator[str]:
    """card.yaml resolves to card.resolved.json, and every file of the run names that card's digest."""
    digest = digest_json(context.card)
    try:
        files = kept_by_name(context.bundle, context.card)
        again = load_card(context.bundle.card, installed_revision=context.card["analysis"]["revision"], files=files)
    except CardError as error:
        yield f"card.yaml: does not validate: {error.problems[0]}"
    else:
        for difference in _first(differences(context.card, without_later_keys(context.card, again))):
            yield f"card.resolved.json differs from what card.yaml resolves to: {difference}"
    started = context.lines("run_started")
    named = {
        "plan.json": context.plan_file.get("card_digest"),
        "attempts.jsonl": started[0].get("card_digest") if started else None,
        context.bundle.result().name: context.result.get("card", {}).get("digest"),
    }
    for name, found in named.items():
        if found != digest:
            yield f"{name}: made for card {found}; card.resolved.json is {digest}"


def plan(context: Context) -> Iterator[str]:
    """The plan, made again from card and seed, is the plan in the bundle and the one that the log began with."""
    for difference in _first(differences(context.plan_file, context.plan.as_json())):
        yield f"plan.json differs from the plan made again from card and seed: {difference}"
    source, seed, own = context.plan_file["seed_source"], context.plan_file["seed"], context.card["method"]["seed"]
    if source not in ("card", "second_day", "pilot"):
        yield f"plan.json: seed_source {source!r}; there are card, second_day and pilot"
    elif (source == "card") != (seed == own):
        yield f"plan.json: seed {seed} from {source}; the card's is {own}"
    started = context.lines("run_started")
    if started and started[0].get("plan_digest") != context.plan.digest():
        yield "attempts.jsonl: the run began with another plan than card and seed give"
    frame = context.parquet(context.bundle.root / "plan" / "requests.parquet")
    again = context.plan.frame()
    # A plan from before some columns came lacks them, all or none.
    if not set(LATER_COLUMNS) & set(frame.columns):
        again = again.drop(LATER_COLUMNS)
    if not frame.equals(again):
        yield "plan/requests.parquet differs from the requests made again from card and seed"


def revision(context: Context) -> Iterator[str]:
    """The result was made by the analysis that the card pins, and the bundle holds its source."""
    pinned = context.card["analysis"]["revision"]
    found = context.result.get("revision")
    if found != pinned:
        yield f"{context.bundle.result().name}: made by analysis {found}; the card pins {pinned}"
    from ..analysis_process import archived_revisions

    if archived_revisions(context.bundle) != [pinned]:
        yield f"analysis/: wanted one archive, of the pinned revision {pinned}"


def verdict(context: Context) -> Iterator[str]:
    """The verdict, recomputed from the raw events by the pinned analysis, is the verdict in the bundle."""
    found, again = dict(context.result), dict(context.result_again)
    # Other library versions are said by the audit, and are no fault of the bundle.
    found.pop("libraries", None)
    again.pop("libraries", None)
    for difference in _first(differences(found, again)):
        yield f"{context.bundle.result().name}: {difference}"
    assert context.again is not None
    for path in sorted((context.again / "series").glob("*.parquet")):
        there = context.bundle.root / "series" / path.name
        if not there.exists() or not _same_numbers(context.parquet(there), context.parquet(path)):
            yield f"series/{path.name}: not the curves that the raw events give"


def _same_numbers(found: pl.DataFrame, wanted: pl.DataFrame) -> bool:
    return next(differences(found.rows(named=True), wanted.rows(named=True)), None) is None


def report(context: Context) -> Iterator[str]:
    """REPORT.md and report.html, rendered again from the verdict, are the ones in the bundle."""
    if context.render is None or context.bundle.is_pilot:
        return
    with tempfile.TemporaryDirectory(prefix="benchcard-audit-") as folder:
        for path in context.render(context.bundle.root, Path(folder)):
            there = context.bundle.root / path.name
            if not there.exists():
                yield f"{path.name}: missing"
            elif there.read_bytes() != path.read_bytes() and drawn_by(there) == drawn_by(path):
                yield f"{path.name}: does not say what the verdict says"


CHECKS: tuple[Check, ...] = tuple(
    Check(function.__name__, (function.__doc__ or "").strip(), function)
    for function in (
        manifest, attempt_log, complete, card, plan, order, events, quality, replacements, identity, revision, verdict,
        report,
    )
)  # fmt: skip


def drawn_by(report: Path) -> str | None:
    """The drawing libraries that an HTML report names; None for another file. Another version of them draws the same
    charts with other bytes, so then only REPORT.md, which holds the same words and numbers, can be compared."""
    match = re.search(rb'<meta name="generator" content="([^"]*)"', report.read_bytes())
    return match[1].decode("utf-8", "replace") if match else None


def run_check(check: Check, context: Context) -> list[str]:
    """The faults that a check found. Evidence that cannot be read is a fault of the evidence."""
    try:
        return list(check.faults(context))
    except FileNotFoundError as error:
        # polars names the file in its message, not in `filename`.
        return [f"cannot be checked: {Path(error.filename).name if error.filename else error} is missing"]
    except BenchcardError as error:
        return [f"cannot be checked: {error}"]
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        return [f"cannot be checked: {type(error).__name__}: {error}"]
    except Exception as error:
        # polars raises its own tree for a damaged Parquet file.
        if type(error).__module__.startswith("polars"):
            return [f"cannot be checked: {str(error).splitlines()[0]}"]
        raise


def _first(found: Iterator[str]) -> Iterator[str]:
    for index, difference in enumerate(found):
        if index == _MOST_DIFFERENCES:
            yield "… and more"
            return
        yield difference

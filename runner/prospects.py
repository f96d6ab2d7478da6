"""What can be expected of an experiment before it is run: power, blocks and hours, and outcomes out of reach.

A declared spread or a pilot says what is planned with. For the embedded engine a few blocks in virtual time are shown
beside that: the model, not the machine, so a real run's spread is larger. They decide about reach only where no pilot
does.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..schema.errors import BenchcardError
from .analysis_process import Analysis, installed_revision
from .files import read_json
from .plan.duration import plan_duration
from .plan.plan import Plan
from .plan.reach import OutOfReach, out_of_reach

#: virtual time is played for as many blocks, from 2 to 4, as hold this many requests of both arms (a second or two of
#: computing), so that it says the same on every machine; a card whose 2 blocks hold twice as many is not played
_REQUESTS, _FEWEST, _MOST = 3000, 2, 4


@dataclass(frozen=True)
class Prospects:
    """`source` of the spread: declared, pilot or None; `power`: the analysis's answer, or {spread: null, reason};
    `virtual`: the same shape as a pilot.json, from virtual time, or None with `no_virtual` saying why."""

    source: str | None
    power: dict[str, Any]
    virtual: dict[str, Any] | None
    no_virtual: str | None
    reach: list[OutOfReach]
    chance: float
    override: str | None

    @property
    def falls_short(self) -> bool:
        """Whether the joint chance is known, and too small. Where only parts are known, it cannot be above theirs."""
        joint = self.power.get("joint")
        if self.source is None or joint is None:
            return False
        return bool((joint["power"] if self.power["complete"] else joint["upper"]) < self.chance)

    def as_json(self) -> dict[str, Any]:
        """For `plan --json`."""
        virtual = None if self.virtual is None else {key: self.virtual[key] for key in ("differences", "baseline")}
        return {
            "source": self.source, **self.power, "virtual_time": virtual, "no_virtual_time": self.no_virtual,
            "out_of_reach": [{"seen": one.seen, "mend": one.mend} for one in self.reach],
            "falls_short": self.falls_short, "override": self.override,
        }  # fmt: skip


def prospects(plan: Plan) -> Prospects | None:
    """Of a planned ab card; None for a baseline, which claims nothing."""
    card = plan.card
    if card["kind"] != "ab":
        return None
    declared = card["power"] or {}
    spread, pilot = declared.get("spread"), None
    if isinstance(spread, dict):
        pilot, source = spread["from"], "pilot"
    else:
        source = "" if spread is None else "declared"
    virtual, why = (None, "a pilot was run") if pilot else in_virtual_time(plan)
    if not source:
        # Nothing to compute: do not start a process to hear so.
        power: dict[str, Any] = {"joint": None, "reason": "the spread of the A/B differences is not known"}
    else:
        power = ask(question(card, pilot))
    seen = pilot or virtual
    named = "the pilot" if pilot else "virtual time"
    reach = [] if seen is None else out_of_reach(card, seen, named)
    return Prospects(
        source or None, power, virtual, why, reach, float(declared.get("chance") or 0.8), declared.get("override")
    )


def ask(asked: dict[str, Any]) -> dict[str, Any]:
    """The installed analysis's answer to a question about power."""
    analysis = Analysis(installed_revision(), "benchcard.analysis", None)
    answer: dict[str, Any] = json.loads(analysis.run("power", stdin=json.dumps(asked)))
    return answer


def question(card: dict[str, Any], pilot: dict[str, Any] | None) -> dict[str, Any]:
    """What the analysis is asked about a card, with a pilot's spreads or the declared one (the claim's alone)."""
    claim, declared = card["claim"], card["power"] or {}
    rows = (
        {} if pilot is None else {(r["kind"], r["metric"], r["population"], r["load"]): r for r in pilot["differences"]}
    )

    def known(kind: str, statement: dict[str, Any], load: float) -> dict[str, Any]:
        """Where a statement is made, with its spread and degrees of freedom, or the reason why they are not known."""
        place = {"metric": statement["metric"], "population": statement.get("population"), "load": load}
        if pilot is None:
            spread = declared.get("spread") if kind == "claim" else None
            reason = None if spread is not None else "the card declares the spread of the claim's metric alone"
            return place | {"spread": spread, "spread_df": None, "reason": reason}
        row = rows.get((kind, statement["metric"], statement.get("population"), load))
        reason = "the pilot did not look at it" if row is None else row["reason"]
        row = row or {}
        return place | {"spread": row.get("stdev"), "spread_df": row.get("df"), "reason": reason}

    guards = [
        {"direction": guard["direction"], "margin": guard["margin"], **known("guard", guard, float(at))}
        for guard in card["guards"]
        for at in guard["at"]
    ]
    return {
        "blocks": card["method"]["blocks"],
        "confidence": card["analysis"]["confidence"],
        "chance": declared.get("chance") or 0.8,
        "seconds_a_block": seconds_a_block(card, pilot),
        "seconds_beside": seconds_of_aa(card, pilot),
        "claim": {
            **{key: claim[key] for key in ("metric", "scope", "direction", "threshold")},
            "expect": declared.get("expect"),
            "at": [known("claim", claim, float(at)) for at in claim["at"]],
        },
        "guards": guards,
    }


def seconds_a_block(card: dict[str, Any], pilot: dict[str, Any] | None = None) -> float | None:
    """How long a block takes: as a pilot measured it, server starts included, else as planned, without them."""
    if pilot is not None and pilot["seconds_a_block"] is not None:
        return float(pilot["seconds_a_block"])
    method = card["method"]
    load = plan_duration(card | {"method": method | {"aa": None}}).load
    return None if load is None else load / float(method["blocks"])


def seconds_of_aa(card: dict[str, Any], pilot: dict[str, Any] | None = None) -> float:
    """How long the A/A blocks take, however many others there are; by a pilot as their loads' part of its blocks."""
    aa = card["method"].get("aa")
    if not aa:
        return 0.0
    if pilot is not None and pilot["seconds_a_block"] is not None:
        share = len(aa["at"]) / len(card["workload"]["loads"])
        return float(pilot["seconds_a_block"]) * share * float(aa["blocks"])
    whole, alone = plan_duration(card).load, seconds_a_block(card)
    return 0.0 if whole is None or alone is None else whole - alone * float(card["method"]["blocks"])


def in_virtual_time(plan: Plan) -> tuple[dict[str, Any] | None, str | None]:
    """What a pilot would find on the embedded engine's model, or None and why not."""
    card = plan.card
    why = _not_in_virtual_time(plan)
    if why is not None:
        return None, why
    from .virtual_run import virtual_run

    count = min(_MOST, max(_FEWEST, _REQUESTS // _requests_a_block(plan)))
    few = replace(plan, blocks=[block for block in plan.blocks if not block.spare and not block.aa][:count])
    numbers = {block.block for block in few.blocks}
    few = replace(
        few,
        card=card
        | {"analysis": card["analysis"] | {"revision": installed_revision()}, "method": card["method"] | {"aa": None}},
        requests={key: rows for key, rows in plan.requests.items() if key[0] in numbers},
        prompt_digests={key: rows for key, rows in plan.prompt_digests.items() if key[0] in numbers},
    )
    with tempfile.TemporaryDirectory(prefix="benchcard-virtual-") as folder:
        try:
            bundle = virtual_run(few, Path(folder) / "run", "")
            Analysis(installed_revision(), "benchcard.analysis", None).run("pilot", str(bundle.root))
        except BenchcardError as error:
            return None, str(error).splitlines()[0]
        found: dict[str, Any] = read_json(bundle.root / "pilot.json")
    return (found, None) if found["blocks_used"] else (None, "its blocks do not count")


def _requests_a_block(plan: Plan) -> int:
    return len(plan.card["arms"]) * sum(len(rows) for key, rows in plan.requests.items() if key[0] == 1)


def _not_in_virtual_time(plan: Plan) -> str | None:
    card = plan.card
    shape = card["workload"]["requests"]
    if card["system"]["engine"]["kind"] != "simulated":
        return "only the embedded engine has a model"
    if card["workload"]["load_kind"] != "rate":
        return "virtual time has no closed loops"
    if shape.get("conversations") is not None or shape.get("file") is not None:
        return "virtual time has no conversations and no recorded requests"
    if isinstance(card["workload"].get("cache_state"), dict):
        return "virtual time starts with an empty cache"
    if _requests_a_block(plan) > _REQUESTS:
        return f"a block has more than {_REQUESTS:,} requests"
    return None

"""What was known of the power when a card was planned, as verdict.json says it."""

from __future__ import annotations

from .joint import joint
from .records import Record

#: the verdict's flag where no spread was known
UNKNOWN = "power_unknown"


def planned_power(card: Record) -> Record:
    """{known, spread, spread_df, spread_source, joint_chance, override, reason}: the largest spread of the claim's
    metric over the claimed loads, on the d scale, as estimated; declared, or from a pilot (then with its degrees of
    freedom). `joint_chance` is of every statement whose spread was known, for the effect that the card expects."""
    declared = card.get("power") or {}
    spread, override = declared.get("spread"), declared.get("override")
    out: Record = {
        "known": False, "spread": None, "spread_df": None, "spread_source": None, "joint_chance": None,
        "override": override, "reason": "the spread was not known when this was planned",
    }  # fmt: skip
    if spread is None:
        return out
    rows = {} if not isinstance(spread, dict) else {_place(row): row for row in spread["from"]["differences"]}
    source = "declared" if not isinstance(spread, dict) else "pilot"

    def known(kind: str, statement: Record, load: float) -> Record:
        """A statement at a load, with its spread and degrees of freedom; null where they were not known."""
        if source == "declared":
            found, df = (float(spread) if kind == "claim" else None), None
        else:
            row = rows.get((kind, statement["metric"], statement.get("population"), float(load))) or {}
            found, df = row.get("stdev"), row.get("df")
        return {"metric": statement["metric"], "load": float(load), "spread": found, "spread_df": df}

    claim = card["claim"]
    at = [known("claim", claim, load) for load in claim["at"]]
    spreads = [row for row in at if row["spread"] is not None]
    if not spreads:
        return out | {"spread_source": source, "reason": f"the {source} has no spread of {claim['metric']}"}
    question = {
        "blocks": card["method"]["blocks"], "confidence": card["analysis"]["confidence"],
        "chance": declared["chance"],
        "claim": {**{key: claim[key] for key in ("metric", "scope", "direction", "threshold")},
                  "expect": declared.get("expect"), "at": at},
        "guards": [
            {"direction": guard["direction"], "margin": guard["margin"], **known("guard", guard, load)}
            for guard in card.get("guards") or []
            for load in guard.get("at") or claim["at"]
        ],
    }  # fmt: skip
    answer, widest = joint(question), max(spreads, key=lambda row: float(row["spread"]))
    chance = answer["joint"]
    return out | {
        "known": True, "spread": widest["spread"], "spread_df": widest["spread_df"], "spread_source": source,
        "joint_chance": None if chance is None else chance["power"], "reason": answer["reason"],
    }  # fmt: skip


def _place(row: Record) -> tuple[str, str, str | None, float]:
    return row["kind"], row["metric"], row.get("population"), float(row["load"])


def flags(power: Record) -> list[str]:
    """The verdict's flags for it."""
    return [] if power["known"] else [UNKNOWN]


def condition_rows(card: Record) -> list[tuple[str, str, str]]:
    """(name, value, source) of its conditions."""
    power = planned_power(card)
    rows = []
    if not power["known"]:
        rows.append(("power", str(power["reason"]), "unknown"))
    else:
        whence = "declared" if power["spread_source"] == "declared" else "from a pilot"
        text = f"planned with a spread of {power['spread']:.2%} ({whence})"
        if power["joint_chance"] is not None:
            text += f": a joint chance of {power['joint_chance']:.0%} at the effect expected"
            text += f", {power['reason']}" if power["reason"] else ""
        rows.append(("power", text, "declared"))
    if power["override"] is not None:
        rows.append(("power override", str(power["override"]), "declared"))
    return rows

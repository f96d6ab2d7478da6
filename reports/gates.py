"""The section on equivalent work: each quality gate with what was seen, its bound and its limit."""

from __future__ import annotations

from .document import Bullets, Cell, Paragraph, Section, Table, section, table
from .read import Bundle, Json

_TONES = {"pass": "good", "fail": "bad", "not established": "warn", "not run": "warn"}


def _value(value: float | None, unit: str) -> str:
    """A gate's number in its unit; what does not exist is a dash."""
    if value is None:
        return "–"
    if unit == "count":
        return f"{value:g}"
    return f"{100 * value:.3f}".rstrip("0").rstrip(".").replace("-", "−") + (" pt" if unit == "points" else "%")


def _row(gate: Json) -> list[Cell | str]:
    unit = gate["unit"]
    # The difference and its bound have columns of their own.
    said = gate["text"].partition(": ")[2].split("; ")
    return [
        gate["risk"],
        gate["gate"],
        Cell(gate["word"], _TONES.get(gate["word"], "")),
        _value(gate.get("observed"), unit),
        _value(gate.get("bound"), unit),
        _value(gate.get("limit"), unit),
        f"{gate.get('n', 0)}",
        "; ".join(part for part in said if not part.startswith("the difference is ")),
    ]


def gate_sections(bundle: Bundle) -> tuple[Section, ...]:
    """The section, where the card has gates."""
    gates: list[Json] = bundle.result.get("gates") or []
    if not gates:
        return ()
    intro = Paragraph(
        f"A gate passes if the one-sided {bundle.confidence} bound of the difference between the arms' outputs lies "
        "within its limit; a conformance gate counts. All must pass; one that fails falsifies the hypothesis."
    )
    alarms = tuple(f"{gate['gate']} ({gate['risk']}): {gate['alarm']}" for gate in gates if gate.get("alarm"))
    heard = (Paragraph("Alarms, which change no word:"), Bullets(alarms)) if alarms else ()
    body = table("Outputs of both arms", "Risk|Gate|Word|#Observed|#Bound|#Limit|#Items|What", [_row(g) for g in gates])
    return (section("gates", "Equivalent work", intro, body, *_divergence(gates), *heard),)


def _divergence(gates: list[Json]) -> tuple[Table, ...]:
    """Where greedy outputs part, the arms beside the baseline against itself."""
    rows: list[list[Cell | str]] = []
    for gate in gates:
        for arm, name in (
            ("candidate", "candidate against baseline"),
            ("baseline_aa", "baseline against itself (A/A)"),
        ):
            found = (gate.get("divergence") or {}).get(arm)
            if found is not None:
                quartiles = [str(at) for at in found["quartiles"] or ("–", "–", "–")]
                rows.append([gate["risk"], name, f"{found['diverged']} of {found['items']}", *quartiles])
    headings = "Risk|Outputs|#Items that differ at any token|#25%|#50%|#75%"
    caption = "First differing token of the items that differ (the first token is 0), at the quartiles"
    return (table(caption, headings, rows),) if rows else ()

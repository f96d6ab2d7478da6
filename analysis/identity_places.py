"""What belongs to a place, and what an arm should be like where it was: arms that exchange servers take their
configuration with them, and leave node, accelerators and address behind."""

from __future__ import annotations

from .card import AA_ARMS, ARMS
from .read import Bundle
from .records import Record

#: what stays at a place when a deployment moves: the first part of an identity field's name
OF_A_PLACE = ("node", "pod", "host", "gpu", "hardware", "server", "neighbours")
_OTHER = {ARMS[0]: ARMS[1], ARMS[1]: ARMS[0]}


def of_a_place(name: str) -> bool:
    """Whether a difference of this name belongs to a place, and not to what an arm runs."""
    return name.partition(".")[0] in OF_A_PLACE


def expected_look(bundle: Bundle, arm: str, cell: str | None) -> Record | None:
    """What an arm should be like in a cell (None: when its second run in A/A blocks was first looked at): as it was
    first seen, the baseline's second run as the baseline was, with the facts of the place where it is by then. A place
    that no arm was first seen at tells nothing. None where the arm was not looked at."""
    first = bundle.identity(AA_ARMS[0] if cell is None else arm)
    if first is None or not _moving(bundle):
        return first
    home = _first_place(bundle, AA_ARMS[0] if cell is None else arm)
    place = _first_place(bundle, arm) if cell is None else _place(bundle, arm, cell)
    if place == home:
        return first
    there = bundle.identity(place) or {}
    kept = {name: field for name, field in first.items() if not of_a_place(name)}
    return kept | {name: field for name, field in there.items() if of_a_place(name)}


def _across(bundle: Bundle) -> bool:
    return bool((bundle.card["method"].get("aa") or {}).get("across"))


def _moving(bundle: Bundle) -> bool:
    return bool(bundle.card["method"].get("swap")) or _across(bundle)


def _place(bundle: Bundle, arm: str, cell: str) -> str:
    """The arm whose server a cell's arm was asked at."""
    if arm == AA_ARMS[1] and _across(bundle):
        return ARMS[1]
    home = ARMS[0] if arm == AA_ARMS[1] else arm
    return _OTHER[home] if _moved(bundle, cell) else home


def _first_place(bundle: Bundle, arm: str) -> str:
    """The same, when the arm was first looked at: before the log's line on it."""
    if arm == AA_ARMS[1] and not _across(bundle):
        return _OTHER[ARMS[0]] if _moved(bundle, arm) else ARMS[0]
    return ARMS[1] if arm == AA_ARMS[1] else arm


def _moved(bundle: Bundle, name: str) -> bool:
    """Whether the arms had exchanged places when a cell was started (or is about to be), or an arm first looked at."""
    before = _names_before_swap(bundle.log)
    return before is not None and name not in before


def _names_before_swap(log: tuple[Record, ...]) -> frozenset[str] | None:
    """The cells that were started and the arms that were looked at before the arms exchanged places; None where they
    did not."""
    kinds = [line.get("kind") for line in log]
    if "swapped" not in kinds:
        return None
    lines = (line for line in log[: kinds.index("swapped")] if line.get("kind") in ("cell_started", "identity"))
    return frozenset(str(line.get("cell") or line.get("arm")) for line in lines)

"""What belongs to a place, and what an arm should be like where it was: arms that exchange servers take their
configuration with them, and leave node, accelerators and address behind."""

from __future__ import annotations

from functools import lru_cache

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


def _moving(bundle: Bundle) -> bool:
    method = bundle.card["method"]
    return bool(method.get("swap") or (method.get("aa") or {}).get("across"))


def _place(bundle: Bundle, arm: str, cell: str) -> str:
    """The arm whose server a cell's arm was asked at."""
    if arm == AA_ARMS[1] and bundle.card["method"]["aa"].get("across"):
        return ARMS[1]
    home = ARMS[0] if arm == AA_ARMS[1] else arm
    return _OTHER[home] if cell in _after_swap(bundle.log) else home


def _first_place(bundle: Bundle, arm: str) -> str:
    """The same, when the arm was first looked at: before the log's line on it."""
    if arm == AA_ARMS[1] and not bundle.card["method"]["aa"].get("across"):
        return _OTHER[ARMS[0]] if arm in _after_swap(bundle.log) else ARMS[0]
    return ARMS[1] if arm == AA_ARMS[1] else arm


@lru_cache(maxsize=4)
def _names_after_swap(lines: tuple[tuple[str, str], ...]) -> frozenset[str]:
    kinds = [kind for kind, _ in lines]
    at = kinds.index("swapped") if "swapped" in kinds else len(lines)
    return frozenset(name for _, name in lines[at:])


def _after_swap(log: tuple[Record, ...]) -> frozenset[str]:
    """Cells that were started, and arms that were first looked at, after the arms exchanged places. (An arm's line
    stands right before that of the swap, where both came of one look.)"""
    return _names_after_swap(tuple((str(x.get("kind")), str(x.get("cell") or x.get("arm") or "")) for x in log))

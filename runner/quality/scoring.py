"""Whether a reply is right, or conforms. Pure.

exact_number  the last number of the reply equals the answer's last number. 1,234.50 and 1234.5 are the same; a
              comma separates thousands and nothing else; a minus counts where no digit or letter stands before it
              (7-5 ends in 5, "is -5" in -5); digits that belong to a word (w12) are no number; 1.2e3 is 1200, and a
              fraction (7/12) is no number
exact_text    reply and answer are the same but for case, spaces and a final stop
contains      the answer stands in the reply, in any case, with no letter or digit beside it; where it is a number, as
              one of the reply's numbers: 45 is neither in 45.5 nor in -45 or 45,000
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

_MINUS = "-\u2212\u2013\u2011"  # hyphen, minus, en dash, hyphen that does not break
_NUMBER = re.compile(
    rf"(?<![\w.])(?:(?<![)\]])[{_MINUS}+])?(?:[$€£])?"
    r"((?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+)(e[-+]?\d{1,3}(?!\w))?",
    re.IGNORECASE,
)
_FRACTION = re.compile(r"\d\s?/\s?\d+\Z")


def numbers(text: str) -> list[Decimal]:
    """The numbers of a text, in its order."""
    found = []
    for match in _NUMBER.finditer(text):
        value = Decimal(match[1].replace(",", "") + (match[2] or ""))
        found.append(-value if match[0][0] in _MINUS else value)
    return found


def last_number(text: str) -> Decimal | None:
    """The last number in a text; None where there is none, or where it is the lower part of a fraction."""
    matches = list(_NUMBER.finditer(text))
    if not matches or _FRACTION.search(text[: matches[-1].end()]):
        return None
    return numbers(text)[-1]


def is_right(scorer: str, reply: str, answer: str) -> bool:
    """Whether a reply is the answer, by a scorer (see above)."""
    if scorer == "exact_number":
        number = last_number(reply)
        return number is not None and number == last_number(answer)
    if scorer == "exact_text":
        return _plain(reply) == _plain(answer)
    stands = re.search(rf"(?<!\w){re.escape(_plain(answer))}(?!\w)", _plain(reply)) is not None
    return stands and (not _is_number(answer) or last_number(answer) in numbers(reply))


def _is_number(answer: str) -> bool:
    return _NUMBER.fullmatch(_plain(answer)) is not None


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).removesuffix(".").rstrip()


def conforms(reply: str, schema: Any) -> bool:
    """Whether a reply is one JSON document (RFC 8259) that its JSON Schema (Draft 2020-12) accepts. An object in which
    a name stands twice is none: what it says depends on who reads it."""
    from jsonschema import Draft202012Validator  # takes a tenth of a second to import

    try:
        return bool(Draft202012Validator(schema).is_valid(json.loads(reply, **_STRICT)))
    except (ValueError, RecursionError):
        return False


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


_STRICT: Any = {"parse_constant": _refuse, "object_pairs_hook": _once}
